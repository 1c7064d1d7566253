//! Lint rules for `values.yaml`.

use helm_template::budget::Budget;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Map;
use helm_template::yaml;

use super::Severity::{Error, Info};
use super::{Entry, Report, Subject};
use crate::schema;
use crate::values::{Warning, coalesce_tables, to_map};

const NAME: &str = "values.yaml";

/// Validates the chart's own values, overridden by the user's, against the chart's own schema only.
pub fn check(
    subject: &Subject<'_>,
    user: &Members,
    check_schema: bool,
    profile: Profile,
    report: &mut Report,
    warnings: &mut Vec<Warning>,
) {
    if subject.values_yaml == Entry::Missing {
        report.check(Info, NAME, Err("file does not exist".into()));
        return;
    }
    let found = file(subject, user, check_schema, profile, warnings);
    report.check(Error, NAME, found);
}

fn file(
    subject: &Subject<'_>,
    user: &Members,
    check_schema: bool,
    profile: Profile,
    warnings: &mut Vec<Warning>,
) -> Result<(), String> {
    let go_type = match profile {
        Profile::Helm3 => "chartutil.Values",
        Profile::Helm4 => "common.Values",
    };
    let values = subject
        .values_yaml
        .content(subject.folder, NAME)
        .and_then(|text| yaml::parse_map(text, go_type).map_err(|why| why.to_string()));
    let values = values.map_err(|why| format!("unable to parse YAML: {why}"))?;
    let merged = Map::new();
    let budget = Budget::default();
    for values in [user, &values] {
        let values = to_map(values, &budget);
        values
            .and_then(|values| coalesce_tables(&merged, &values, profile, &budget, warnings))
            .map_err(|why| why.to_string())?;
    }
    // Helm 3 has no option to skip the schema here.
    let is_checked = check_schema || profile == Profile::Helm3;
    match &subject.schema {
        Entry::File(schema) if is_checked && !schema.is_empty() => {
            schema::check_single(schema, &merged, profile, &budget, warnings)
        }
        _ => Ok(()),
    }
}
