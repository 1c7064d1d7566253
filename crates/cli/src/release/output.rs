//! JSON, YAML and time formats of Go programs.

use helm_release::record::HelmTime;
use helm_template::data::Data;
use helm_template::go::time::{RFC3339, Time, Zone};
use helm_template::{json, yaml};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::flags::Format;
use crate::helm::CommandResult;

/// Encodes a value in a machine-readable format. `None` for a table, which every command prints itself.
pub fn encode(format: Format, value: &Value) -> Option<CommandResult> {
    match format {
        Format::Table => None,
        Format::Json => Some(Ok(format!("{value}\n").into_bytes())),
        Format::Yaml => Some(to_yaml(value).map(String::into_bytes).map_err(Into::into)),
    }
}

/// YAML in Helm's form: converted through JSON.
pub fn to_yaml(value: &Value) -> Result<String, String> {
    let data = json::parse(value.to_string()).map_err(|why| why.to_string())?;
    data_to_yaml(&data)
}

pub fn data_to_yaml(data: &Data) -> Result<String, String> {
    yaml::write(data).map_err(|error| format!("unable to write YAML output: {error}"))
}

/// `Mon Jan  2 15:04:05 2006`; empty without a time.
pub fn format_ansic(helm_time: HelmTime) -> String {
    format_in_zone(helm_time, "Mon Jan _2 15:04:05 2006").unwrap_or_default()
}

/// Formats a time with a Go layout, or like Go's `Time.String` for an empty one. `-` without a time.
pub fn format_go(moment: HelmTime, layout: &str) -> String {
    const GO_STRING_LAYOUT: &str = "2006-01-02 15:04:05.999999999 -0700 MST";
    format_in_zone(moment, if layout.is_empty() { GO_STRING_LAYOUT } else { layout })
        .unwrap_or_else(|| "-".to_owned())
}

/// In the time zone of the record.
fn format_in_zone(moment: HelmTime, layout: &str) -> Option<String> {
    moment.timestamp()?;
    let time = Time::parse(RFC3339, moment.to_string().as_bytes(), &Zone::local(TimeZone::UTC)).ok()?;
    Some(time.format(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_in_go() {
        let moment = |text: &str| serde_json::from_value::<HelmTime>(Value::from(text)).unwrap();
        let at = moment("2026-11-05T09:08:07.120000003Z");
        assert_eq!(format_ansic(at), "Thu Nov  5 09:08:07 2026");
        assert_eq!(format_go(at, ""), "2026-11-05 09:08:07.120000003 +0000 UTC");
        assert_eq!(
            format_go(moment("2026-11-05T09:08:07.12+02:00"), ""),
            "2026-11-05 09:08:07.12 +0200 +0200"
        );
        assert_eq!(format_go(moment("2026-11-05T09:08:07Z"), ""), "2026-11-05 09:08:07 +0000 UTC");
        assert_eq!(
            (format_go(HelmTime::Absent, ""), format_ansic(HelmTime::Absent)),
            ("-".into(), String::new())
        );
    }
}
