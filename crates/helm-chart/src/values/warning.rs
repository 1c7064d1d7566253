//! What Helm tells the user on standard error while it merges values.

use std::fmt::Write;

use helm_template::go::{is_printable, quote};
use helm_template::profile::Profile;
use helm_template::value::Str;

/// A line for standard error, as the Helm of the profile writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    line: Str,
}

/// What Helm 4 logs beside a message.
pub type Attribute<'a> = (&'a str, &'a str);

impl Warning {
    /// Something logged by a line of Helm's sources; Helm 3 names that line.
    pub fn logged(profile: Profile, place: &str, text: &str) -> Self {
        Self::of(match profile {
            Profile::Helm3 => format!("{place}: {text}"),
            Profile::Helm4 => format!("level=INFO msg={}", quoted(text)),
        })
    }

    /// A warning that Helm 4 splits into a message and attributes.
    pub fn structured(profile: Profile, helm3: (&str, &str), helm4: &str, attributes: &[Attribute]) -> Self {
        Self::with_level(profile, "WARN", helm3, helm4, attributes)
    }

    /// The same, of something that is less than a warning.
    pub fn informed(profile: Profile, helm3: (&str, &str), helm4: &str, attributes: &[Attribute]) -> Self {
        Self::with_level(profile, "INFO", helm3, helm4, attributes)
    }

    fn with_level(
        profile: Profile,
        level: &str,
        (place, text): (&str, &str),
        helm4: &str,
        attributes: &[Attribute],
    ) -> Self {
        Self::of(match profile {
            Profile::Helm3 => format!("{place}: {text}"),
            Profile::Helm4 => attributes.iter().fold(
                format!("level={level} msg={}", quoted(helm4)),
                |mut line, (key, value)| {
                    let _ = write!(line, " {key}={}", quoted(value));
                    line
                },
            ),
        })
    }

    fn of(line: String) -> Self {
        Self { line: line.into() }
    }

    pub fn line(&self) -> &str {
        &self.line
    }
}

/// As Go's `slog` writes a text: bare where it is one plain word.
pub fn quoted(text: &str) -> String {
    let bare = |c: char| is_printable(c) && !matches!(c, ' ' | '"' | '=' | '\u{fffd}');
    if !text.is_empty() && text.chars().all(bare) { text.to_owned() } else { quote(text) }
}
