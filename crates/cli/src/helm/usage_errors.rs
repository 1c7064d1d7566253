//! Errors in arguments, in Helm's words.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Helm's message for an error, if it differs from clap's.
pub fn helm_message(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    // `--set <KEY=VALUE>...`, `--strict[=<STRICT>]`
    let flag = argument.split([' ', '=', '[']).next()?;
    match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => Some(format!("unknown flag: {flag}")),
        ErrorKind::UnknownArgument => {
            let letter = flag.chars().nth(1)?;
            Some(format!("unknown shorthand flag: '{letter}' in {flag}"))
        }
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_none_or(str::is_empty) => {
            Some(format!("flag needs an argument: {flag}"))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue)?;
            Some(format!(
                "invalid argument \"{value}\" for \"{flag}\" flag: strconv.ParseBool: parsing \"{value}\": invalid syntax"
            ))
        }
        _ => None,
    }
}
