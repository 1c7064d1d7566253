//! Command lines that make no sense, in the words of Helm's own flags.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What Helm would say, where it says something of its own.
pub fn words(error: &clap::Error) -> Option<String> {
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
