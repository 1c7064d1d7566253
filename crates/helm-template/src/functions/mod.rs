//! Template functions of Helm: sprig's, and Helm's own.
//!
//! One module per subject. Each has a table of rows (name, parameter types, variadic, implementation); [`table`] merges them over
//! Go's built-in functions. Refused arguments and error messages match Helm.

#![expect(clippy::unnecessary_wraps, reason = "the functions of the table have one shape")]

mod arguments;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod formats;
mod lists;
mod math;
mod merge;
mod numbers;
mod paths;
mod random;
mod regexes;
mod strings;
mod templates;
mod types;
mod versions;
mod words;

#[cfg(test)]
mod tests;

pub use crypto::{DEFAULT_KEY, DEFAULT_KEY_FUNCTIONS};
pub use defaults::AUTHOR_MESSAGE_MARKERS;

use crate::exec::Functions;
use crate::profile::Profile;

/// Returns all functions that a chart can call in this Helm version.
pub fn table(profile: Profile) -> Functions {
    let mut functions = Functions::builtin();
    functions.profile = profile;
    for rows in [
        strings::FUNCTIONS,
        lists::FUNCTIONS,
        dicts::FUNCTIONS,
        math::FUNCTIONS,
        defaults::FUNCTIONS,
        types::FUNCTIONS,
        formats::FUNCTIONS,
        regexes::FUNCTIONS,
        versions::FUNCTIONS,
        dates::FUNCTIONS,
        paths::FUNCTIONS,
        encoding::FUNCTIONS,
        random::FUNCTIONS,
        crypto::FUNCTIONS,
        templates::FUNCTIONS,
    ] {
        functions.extend(rows);
    }
    if profile == Profile::Helm3 {
        functions.extend(formats::HELM3_FUNCTIONS);
        for name in NOT_IN_HELM3 {
            functions.remove(name);
        }
    }
    functions
}

/// Functions that Helm 4 added.
#[rustfmt::skip]
const NOT_IN_HELM3: &[&str] = &[
    "mustToYaml", "mustToToml",
    "mustToDuration", "durationNanoseconds", "durationMicroseconds", "durationMilliseconds", "durationSeconds",
    "durationMinutes", "durationHours", "durationDays", "durationWeeks", "durationRoundTo", "durationTruncateTo",
];
