//! Warnings that Helm prints on standard error while it merges values.

use std::fmt::Write;

use helm_template::go::{is_printable, quote};
use helm_template::profile::Profile;
use helm_template::value::Str;

/// A line for standard error, in the format of the profile's Helm version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesWarning {
    line: Str,
}

/// Attribute of a Helm 4 log record.
pub type LogAttribute<'a> = (&'a str, &'a str);

impl ValuesWarning {
    /// A line logged by Helm; Helm 3 includes the source location.
    pub fn from_text(profile: Profile, source_location: &str, text: &str) -> Self {
        Self::from_line(match profile {
            Profile::Helm3 => format!("{source_location}: {text}"),
            Profile::Helm4 => format!("level=INFO msg={}", slog_quote(text)),
        })
    }

    /// A warning that Helm 4 logs as a message with attributes.
    pub fn warn_record(
        profile: Profile,
        helm3: (&str, &str),
        helm4: &str,
        attributes: &[LogAttribute],
    ) -> Self {
        Self::with_level(profile, "WARN", helm3, helm4, attributes)
    }

    /// Like [`ValuesWarning::structured`], at info level.
    pub fn info_record(
        profile: Profile,
        helm3: (&str, &str),
        helm4: &str,
        attributes: &[LogAttribute],
    ) -> Self {
        Self::with_level(profile, "INFO", helm3, helm4, attributes)
    }

    fn with_level(
        profile: Profile,
        level: &str,
        (place, text): (&str, &str),
        helm4: &str,
        attributes: &[LogAttribute],
    ) -> Self {
        Self::from_line(match profile {
            Profile::Helm3 => format!("{place}: {text}"),
            Profile::Helm4 => attributes.iter().fold(
                format!("level={level} msg={}", slog_quote(helm4)),
                |mut line, (key, value)| {
                    let _ = write!(line, " {key}={}", slog_quote(value));
                    line
                },
            ),
        })
    }

    fn from_line(line: String) -> Self {
        Self { line: line.into() }
    }

    pub fn line(&self) -> &str {
        &self.line
    }
}

/// Quotes a string as Go's `slog` does: unquoted if it is a plain word.
pub fn slog_quote(text: &str) -> String {
    let is_plain = |c: char| is_printable(c) && !matches!(c, ' ' | '"' | '=' | '\u{fffd}');
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quote(text) }
}
