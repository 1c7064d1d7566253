//! Functions of versions, expressions, times and paths, and values of rare kinds, against what Helm 3.17.3 and Helm 4.3.1 answered.
//!
//! Each row is a template and what came of it under either; of an error, what follows the place that it names.

mod dates;
mod durations;
mod kinds;
mod paths;
mod regexes;
mod versions;

use std::sync::Arc;

use helm_template::budget::Budget;
use helm_template::exec::{Machine, Templates};
use helm_template::functions;
use helm_template::outside::Outside;
use helm_template::parse::parse;
use helm_template::profile::Profile;
use helm_template::value::Map;

/// A template, what Helm 3 makes of it, and what Helm 4 does where that is something else.
type Row = (&'static str, &'static str, Option<&'static str>);

fn check(rows: &[Row]) {
    for (template, helm3, helm4) in rows {
        assert_eq!(render(template, Profile::Helm3), *helm3, "{template}, Helm 3");
        assert_eq!(render(template, Profile::Helm4), helm4.unwrap_or(helm3), "{template}, Helm 4");
    }
}

fn render(template: &str, profile: Profile) -> String {
    let functions = functions::table(profile);
    let parsed = match parse("t", template, &functions) {
        Ok(parsed) => parsed,
        Err(why) => return why.to_string(),
    };
    let templates = Templates::default().with(parsed.into_iter().map(Arc::new));
    let budget = Budget::default();
    let mut machine = Machine::new(templates, &functions, Outside::NOWHERE, &budget);
    match machine.run("t", Map::new().into()) {
        // Helm takes it out of what it renders.
        Ok(out) => String::from_utf8_lossy(&out).replace("<no value>", ""),
        Err(error) => {
            let text = error.to_string();
            format!("error: {}", text.split_once(">: ").map_or(text.as_str(), |(_, why)| why))
        }
    }
}
