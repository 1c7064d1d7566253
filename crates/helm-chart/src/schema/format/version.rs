//! Strict semantic versions.

use super::{quoted, refuse};

pub fn semver(text: &str) -> Result<(), String> {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    if let Some(build) = build {
        if build.is_empty() {
            return refuse("build is empty");
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
            return refuse("pre-release numeric identifier starts with zero");
        }
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return refuse("versionCore must have 3 numbers separated by dot");
    }
    for (number, name) in numbers.into_iter().zip(["major", "minor", "patch"]) {
        if number.is_empty() {
            return refuse(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return refuse(format!("{name} starts with zero"));
        }
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return refuse(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}

fn characters(identifier: &str, of: &str) -> Result<(), String> {
    if identifier.is_empty() {
        return refuse(format!("{of} identifier is empty"));
    }
    match identifier.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
        Some(c) => refuse(format!("invalid character {} in {of} identifier", quoted(c))),
        None => Ok(()),
    }
}
