//! Strict semantic versions.

use super::{invalid, quoted};

pub fn semver(text: &str) -> Result<(), String> {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    if let Some(build) = build {
        if build.is_empty() {
            return invalid("build is empty");
        }
        for identifier in build.split('.') {
            characters(identifier, "build")?;
        }
    }
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    for identifier in pre.into_iter().flat_map(|pre| pre.split('.')) {
        characters(identifier, "pre-release")?;
        let is_number = identifier.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && identifier.len() > 1 && identifier.starts_with('0') {
            return invalid("pre-release numeric identifier starts with zero");
        }
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return invalid("versionCore must have 3 numbers separated by dot");
    }
    for (number, name) in numbers.into_iter().zip(["major", "minor", "patch"]) {
        if number.is_empty() {
            return invalid(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return invalid(format!("{name} starts with zero"));
        }
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return invalid(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}

fn characters(identifier: &str, of: &str) -> Result<(), String> {
    if identifier.is_empty() {
        return invalid(format!("{of} identifier is empty"));
    }
    match identifier.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
        Some(c) => invalid(format!("invalid character {} in {of} identifier", quoted(c))),
        None => Ok(()),
    }
}
