//! The functions of Helm: sprig's, and its own.
//!
//! A module per subject, each with its table of rows (`name`, types of parameters, variadic, how); [`table`] puts them
//! together over Go's own. What a function refuses and in which words is as in Helm.

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

pub use crypto::{MAKE_USUAL_KEY, USUAL_KEY};
pub use defaults::SAID_BY_CHART;

use crate::exec::Functions;
use crate::profile::Profile;

/// Every function that a chart can call under this Helm.
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
        functions.extend(formats::HELM3);
        for name in NOT_IN_HELM3 {
            functions.remove(name);
        }
    }
    functions
}

/// What Helm 4 added.
#[rustfmt::skip]
const NOT_IN_HELM3: &[&str] = &[
    "mustToYaml", "mustToToml",
    "mustToDuration", "durationNanoseconds", "durationMicroseconds", "durationMilliseconds", "durationSeconds",
    "durationMinutes", "durationHours", "durationDays", "durationWeeks", "durationRoundTo", "durationTruncateTo",
];
