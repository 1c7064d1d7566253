//! Values of the next revision of an upgrade.

use std::sync::Arc;

use helm_chart::Chart;
use helm_chart::values;
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::ask::Values;
use crate::queries::coalesced;
use crate::record::Record;
use crate::render::ReadyChart;

/// Returns the values of the next revision, and the chart with the default values to use beneath them.
pub fn settle(
    chart: &Arc<ReadyChart>,
    given: &Arc<Members>,
    current: &Record,
    how: Values,
    profile: Profile,
) -> Result<(Arc<ReadyChart>, Arc<Members>), Str> {
    let merged = || values::over(given, &current.config, profile).map(Arc::new);
    match how {
        Values::ResetThenReuse => Ok((chart.clone(), merged()?)),
        Values::Keep if given.is_empty() => Ok((chart.clone(), Arc::new(current.config.clone()))),
        Values::Keep | Values::Reset => Ok((chart.clone(), given.clone())),
        Values::Reuse => {
            let old =
                coalesced(current, profile).map_err(|why| format!("failed to rebuild old values: {why}"))?;
            let chart = Chart { values: old, ..chart.chart().clone() };
            Ok((Arc::new(ReadyChart::new(chart)), merged()?))
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
    fn settled(given: &str, how: Values) -> (Members, Members) {
        let old = ChartRecord::new(&chart(r#"{"a": 1, "b": {"c": 1, "d": 1}}"#), Profile::Helm4).unwrap();
        let current = Record { chart: old, config: members(r#"{"b": {"c": 2}}"#), ..Record::default() };
        let new = Arc::new(ReadyChart::new(chart(r#"{"a": 9, "b": {"c": 9, "e": 9}}"#)));
        let (chart, values) = settle(&new, &Arc::new(members(given)), &current, how, Profile::Helm4).unwrap();
        (chart.chart().values.clone(), Members::clone(&values))
    }

    /// As in Helm's table of flags: the values and chart defaults that each flag keeps.
    #[test]
    fn each_way_keeps_what_helm_keeps() {
        let new = r#"{"a": 9, "b": {"c": 9, "e": 9}}"#;
        let old = r#"{"a": 1, "b": {"c": 2, "d": 1}}"#;
        for (given, how, beneath, values) in [
            ("{}", Values::Keep, new, r#"{"b": {"c": 2}}"#),
            (r#"{"a": 3}"#, Values::Keep, new, r#"{"a": 3}"#),
            ("{}", Values::Reset, new, "{}"),
            (r#"{"a": 3}"#, Values::Reset, new, r#"{"a": 3}"#),
            (r#"{"a": 3}"#, Values::ResetThenReuse, new, r#"{"a": 3, "b": {"c": 2}}"#),
            (r#"{"b": {"d": 4}}"#, Values::Reuse, old, r#"{"b": {"c": 2, "d": 4}}"#),
            (r#"{"b": {"c": 5}}"#, Values::Reuse, old, r#"{"b": {"c": 5}}"#),
        ] {
            assert_eq!(settled(given, how), (members(beneath), members(values)), "{given} {how:?}");
        }
    }
}
