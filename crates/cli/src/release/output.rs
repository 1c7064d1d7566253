//! JSON, YAML and time formats of Go programs.

use helm_release::record::Moment;
use helm_template::data::Data;
use helm_template::go::time::{RFC3339, Time, Zone};
use helm_template::{json, yaml};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::flags::Format;
use crate::helm::Outcome;

/// Encodes a value in a machine-readable format. `None` for a table, which every command prints itself.
pub fn encoded(format: Format, value: &Value) -> Option<Outcome> {
    match format {
        Format::Table => None,
        Format::Json => Some(Ok(format!("{value}\n").into_bytes())),
        Format::Yaml => Some(as_yaml(value).map(String::into_bytes).map_err(Into::into)),
    }
}

/// YAML in Helm's form: converted through JSON.
pub fn as_yaml(value: &Value) -> Result<String, String> {
    let data = json::parse(value.to_string()).map_err(|why| why.to_string())?;
    write_yaml(&data)
}

pub fn write_yaml(data: &Data) -> Result<String, String> {
    yaml::write(data).map_err(|error| format!("unable to write YAML output: {error}"))
}

/// `Mon Jan  2 15:04:05 2006`; empty without a time.
pub fn ansic(moment: Moment) -> String {
    formatted(moment, "Mon Jan _2 15:04:05 2006").unwrap_or_default()
}

/// Formats a time with a Go layout, or like Go's `Time.String` for an empty one. `-` without a time.
pub fn as_go(moment: Moment, layout: &str) -> String {
    const PLAIN: &str = "2006-01-02 15:04:05.999999999 -0700 MST";
    formatted(moment, if layout.is_empty() { PLAIN } else { layout }).unwrap_or_else(|| "-".to_owned())
}

/// In the time zone of the record.
fn formatted(moment: Moment, layout: &str) -> Option<String> {
    moment.at()?;
    let time = Time::parse(RFC3339, moment.to_string().as_bytes(), &Zone::local(TimeZone::UTC)).ok()?;
    Some(time.format(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_gos() {
        let moment = |text: &str| serde_json::from_value::<Moment>(Value::from(text)).unwrap();
        let at = moment("2026-11-05T09:08:07.120000003Z");
        assert_eq!(ansic(at), "Thu Nov  5 09:08:07 2026");
        assert_eq!(as_go(at, ""), "2026-11-05 09:08:07.120000003 +0000 UTC");
        assert_eq!(as_go(moment("2026-11-05T09:08:07.12+02:00"), ""), "2026-11-05 09:08:07.12 +0200 +0200");
        assert_eq!(as_go(moment("2026-11-05T09:08:07Z"), ""), "2026-11-05 09:08:07 +0000 UTC");
        assert_eq!((as_go(Moment::Absent, ""), ansic(Moment::Absent)), ("-".into(), String::new()));
    }
}
