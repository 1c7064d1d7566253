//! Lint rules for `values.yaml`.

use helm_template::budget::Budget;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Map;
use helm_template::yaml;

use super::Severity::{Error, Info};
use super::{DirContent, LintReport, LintSubject};
use crate::schema;
use crate::values::{ValuesWarning, coalesce_tables, to_map};

const NAME: &str = "values.yaml";

/// Validates the chart's own values, overridden by the user's, against the chart's own schema only.
pub fn check(
    subject: &LintSubject<'_>,
    user: &Members,
    check_schema: bool,
    profile: Profile,
    report: &mut LintReport,
    warnings: &mut Vec<ValuesWarning>,
) {
    if subject.values_yaml == DirContent::Missing {
        report.record(Info, NAME, Err("file does not exist".into()));
        return;
    }
    let found = check_file(subject, user, check_schema, profile, warnings);
    report.record(Error, NAME, found);
}

fn check_file(
    subject: &LintSubject<'_>,
    user: &Members,
    check_schema: bool,
    profile: Profile,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), String> {
    let go_type = match profile {
        Profile::Helm3 => "chartutil.Values",
        Profile::Helm4 => "common.Values",
    };
    let values = subject
        .values_yaml
        .content(subject.dir_name, NAME)
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
        DirContent::File(schema) if is_checked && !schema.is_empty() => {
            schema::check_single(schema, &merged, profile, &budget, warnings)
        }
        _ => Ok(()),
    }
}
