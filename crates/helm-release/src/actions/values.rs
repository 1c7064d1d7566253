//! Values of the next revision of an upgrade.

use std::sync::Arc;

use helm_chart::Chart;
use helm_chart::values;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::options::ValuesPolicy;
use crate::queries::coalesce_values;
use crate::record::Record;
use crate::render::PreparedChart;

/// Returns the values of the next revision, and the chart with the default values to use beneath them.
pub fn resolve(
    chart: &Arc<PreparedChart>,
    given: &Arc<Members>,
    current: &Record,
    policy: ValuesPolicy,
    profile: Profile,
) -> Result<(Arc<PreparedChart>, Arc<Members>), Str> {
    let merged = || values::merge_over(given, &current.config, profile).map(Arc::new);
    match policy {
        ValuesPolicy::ResetThenReuse => Ok((chart.clone(), merged()?)),
        ValuesPolicy::Keep if given.is_empty() => Ok((chart.clone(), Arc::new(current.config.clone()))),
        ValuesPolicy::Keep | ValuesPolicy::Reset => Ok((chart.clone(), given.clone())),
        ValuesPolicy::Reuse => {
            let old = coalesce_values(current, profile)
                .map_err(|why| format!("failed to rebuild old values: {why}"))?;
            let chart = Chart { values: old, ..chart.chart().clone() };
            Ok((Arc::new(PreparedChart::new(chart)), merged()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use helm_template::json;

    use super::*;
    use crate::record::ChartRecord;

    fn members(text: &str) -> Members {
        json::parse(text).unwrap().as_map().unwrap().clone()
    }

    fn chart(values: &str) -> Chart {
        let mut chart = Chart { values: members(values), ..Chart::default() };
        chart.metadata.name = "c".into();
        chart
    }

    /// Returns the chart defaults and the values.
    fn resolved(given: &str, how: ValuesPolicy) -> (Members, Members) {
        let old = ChartRecord::new(&chart(r#"{"a": 1, "b": {"c": 1, "d": 1}}"#), Profile::Helm4).unwrap();
        let current = Record { chart: old, config: members(r#"{"b": {"c": 2}}"#), ..Record::default() };
        let new = Arc::new(PreparedChart::new(chart(r#"{"a": 9, "b": {"c": 9, "e": 9}}"#)));
        let (chart, values) =
            resolve(&new, &Arc::new(members(given)), &current, how, Profile::Helm4).unwrap();
        (chart.chart().values.clone(), Members::clone(&values))
    }

    /// As in Helm's table of flags: the values and chart defaults that each flag keeps.
    #[test]
    fn values_policies_keep_the_same_values_as_helm() {
        let new = r#"{"a": 9, "b": {"c": 9, "e": 9}}"#;
        let old = r#"{"a": 1, "b": {"c": 2, "d": 1}}"#;
        for (given, how, beneath, values) in [
            ("{}", ValuesPolicy::Keep, new, r#"{"b": {"c": 2}}"#),
            (r#"{"a": 3}"#, ValuesPolicy::Keep, new, r#"{"a": 3}"#),
            ("{}", ValuesPolicy::Reset, new, "{}"),
            (r#"{"a": 3}"#, ValuesPolicy::Reset, new, r#"{"a": 3}"#),
            (r#"{"a": 3}"#, ValuesPolicy::ResetThenReuse, new, r#"{"a": 3, "b": {"c": 2}}"#),
            (r#"{"b": {"d": 4}}"#, ValuesPolicy::Reuse, old, r#"{"b": {"c": 2, "d": 4}}"#),
            (r#"{"b": {"c": 5}}"#, ValuesPolicy::Reuse, old, r#"{"b": {"c": 5}}"#),
        ] {
            assert_eq!(resolved(given, how), (members(beneath), members(values)), "{given} {how:?}");
        }
    }
}
