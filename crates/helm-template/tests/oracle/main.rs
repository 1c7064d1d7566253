//! Version, expression, time and path functions, and values of rare types, compared with Helm 3.17.3 and Helm 4.3.1.
//!
//! Each row is a template and its output, or its error without the location prefix.

mod dates;
mod durations;
mod kinds;
mod paths;
mod regexes;
mod versions;

use std::sync::Arc;

use helm_template::budget::Budget;
use helm_template::env::RenderEnv;
use helm_template::exec::{Machine, Templates};
use helm_template::functions;
use helm_template::parse::parse;
use helm_template::profile::Profile;
use helm_template::value::Map;

/// A template, its result in Helm 3, and its result in Helm 4 if that differs.
type OracleRow = (&'static str, &'static str, Option<&'static str>);

fn check(rows: &[OracleRow]) {
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
    let mut machine = Machine::new(templates, &functions, RenderEnv::NULL, &budget);
    match machine.run("t", Map::new().into()) {
        // Helm removes this text from its output.
        Ok(out) => String::from_utf8_lossy(&out).replace("<no value>", ""),
        Err(error) => {
            let text = error.to_string();
            format!("error: {}", text.split_once(">: ").map_or(text.as_str(), |(_, why)| why))
        }
    }
}
