//! JSON pointers and identifiers.

use super::{invalid, quoted};

pub fn json_pointer(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    if !text.starts_with('/') {
        return invalid("not starting with /");
    }
    for token in text.split('/').skip(1) {
        let escapes = token.split('~').skip(1);
        for escape in escapes {
            if !escape.starts_with(['0', '1']) {
                return invalid("~ must be followed by 0 or 1");
            }
        }
    }
    Ok(())
}

pub fn relative(text: &str) -> Result<(), String> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match text.len() - rest.len() {
        0 => invalid("must start with non-negative integer"),
        digits if digits > 1 && text.starts_with('0') => invalid("starts with zero"),
        _ if rest == "#" => Ok(()),
        _ => json_pointer(rest),
    }
}

pub fn uuid(text: &str) -> Result<(), String> {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != LENGTHS.len() {
        return invalid("must have 5 elements");
    }
    for (at, (group, length)) in groups.iter().zip(LENGTHS).enumerate() {
        if group.len() != length {
            return invalid(format!("element {} must be {length} characters long", at + 1));
        }
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return invalid(format!("non-hex character {}", quoted(c)));
        }
    }
    Ok(())
}

/// Whether every `{` of a URI template has a matching `}`.
pub fn are_braces_closed(text: &str) -> bool {
    text.split('{').skip(1).all(|after| after.contains('}'))
}
