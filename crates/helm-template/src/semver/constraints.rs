//! Version constraints: groups separated by `||`, one of which must match; all comparisons of a group must match.

use std::sync::LazyLock;

use regex::Regex;

use super::Version;
use super::check::{Mismatch, Operator};
use crate::go::quote;
use crate::profile::Profile;
use crate::value::Str;

/// Limits of Helm 4 on the length of the text and the number of groups.
const MAX_LEN: usize = 512;
const MAX_GROUPS: usize = 32;

/// Parsed version constraints.
#[derive(Clone, Debug)]
pub struct Constraints {
    groups: Vec<Group>,
    profile: Profile,
}

/// Comparisons that must all match.
#[derive(Clone, Debug)]
struct Group {
    constraints: Vec<Constraint>,
    /// Whether a comparison of the group has a pre-release.
    has_prerelease: bool,
}

/// One comparison: `>= 1.2.x`.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    pub operator: Operator,
    pub version: Version,
    /// The version as written.
    pub version_text: Box<str>,
    /// Whether a number is missing or a wildcard: `is_open` for any, `open_minor` from the minor on, `open_patch` only the patch.
    pub is_open: bool,
    pub open_minor: bool,
    pub open_patch: bool,
}

impl Constraints {
    /// Parses constraints. Errors carry the library's message.
    pub fn parse(text: &str, profile: Profile) -> Result<Self, Str> {
        if profile == Profile::Helm4 && text.len() > MAX_LEN {
            return Err(format!("constraint string is too long (max {MAX_LEN} bytes)").into());
        }
        let text = rewrite_ranges(text);
        if profile == Profile::Helm4 && text.split("||").count() > MAX_GROUPS {
            return Err(format!("too many constraint groups (max {MAX_GROUPS})").into());
        }
        let mut groups = Vec::new();
        for group in text.split("||") {
            let improper = || match profile {
                Profile::Helm3 => Str::from(format!("improper constraint: {group}")),
                Profile::Helm4 => Str::from(format!("improper constraint: {}", quote(group))),
            };
            let words = split_constraints(group).ok_or_else(improper)?;
            let parts: Option<Vec<_>> = words.into_iter().map(|word| word.parse(profile)).collect();
            let parts = parts.ok_or(match profile {
                Profile::Helm3 => "constraint Parser Error",
                Profile::Helm4 => "constraint parser error",
            })?;
            let names_pre = parts.iter().any(|part| part.version.is_prerelease());
            groups.push(Group { constraints: parts, has_prerelease: names_pre });
        }
        Ok(Self { groups, profile })
    }

    /// Whether the version satisfies the constraints.
    pub fn check(&self, version: &Version) -> bool {
        self.groups
            .iter()
            .any(|group| group.constraints.iter().all(|part| self.check_part(group, part, version).is_ok()))
    }

    /// Like [`Constraints::check`], with all reasons for a mismatch.
    pub fn validate(&self, version: &Version) -> Result<(), Vec<Str>> {
        let mut reasons = Vec::new();
        let mut said = false;
        for group in &self.groups {
            let mut fine = true;
            for part in &group.constraints {
                // A pre-release mismatch is reported only once.
                let reason = if version.is_prerelease() && !self.allows_prerelease(group, part) {
                    let first = !std::mem::replace(&mut said, true);
                    fine = false;
                    first.then_some(Mismatch::Prerelease)
                } else {
                    self.check_part(group, part, version).err()
                };
                if let Some(reason) = reason {
                    reasons.push(reason.message(version, part, self.profile));
                    fine = false;
                }
            }
            if fine {
                return Ok(());
            }
        }
        Err(reasons)
    }

    fn check_part(&self, group: &Group, part: &Constraint, version: &Version) -> Result<(), Mismatch> {
        // Version 3.3.0 of the library omits the pre-release check when a complete version is excluded with `!=`.
        let asks = self.profile == Profile::Helm4 || part.operator != Operator::NotEqual || part.is_open;
        if asks && version.is_prerelease() && !self.allows_prerelease(group, part) {
            return Err(Mismatch::Prerelease);
        }
        part.check(version)
    }

    /// Pre-releases match only if the comparison itself has one; since 3.4, if any comparison of its group has one.
    fn allows_prerelease(&self, group: &Group, part: &Constraint) -> bool {
        match self.profile {
            Profile::Helm3 => part.version.is_prerelease(),
            Profile::Helm4 => group.has_prerelease,
        }
    }
}

/// A comparison as written.
struct RawConstraint<'a> {
    operator: Operator,
    version: &'a str,
}

impl RawConstraint<'_> {
    /// `None` if the text matches the syntax but is not a valid version: `1|2`, `1.2.3-01`.
    fn parse(self, profile: Profile) -> Option<Constraint> {
        let written = self.version;
        let rest = written.split_once('+').map_or(written, |(rest, _)| rest);
        let (core, pre) = match rest.find('-') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let mut numbers = core.strip_prefix('v').unwrap_or(core).split('.');
        let mut number = || numbers.next().filter(|number| !matches!(*number, "x" | "X" | "*"));
        let (open, open_minor, open_patch, plain) = match (number(), number(), number()) {
            (None, ..) => (true, false, false, format!("0.0.0{pre}")),
            (Some(major), None, _) => (true, true, false, format!("{major}.0.0{pre}")),
            (Some(major), Some(minor), None) => (true, false, true, format!("{major}.{minor}.0{pre}")),
            (Some(_), Some(_), Some(_)) => (false, false, false, written.to_owned()),
        };
        let version = Version::parse(&plain, profile).ok()?;
        Some(Constraint {
            operator: self.operator,
            version,
            version_text: written.into(),
            is_open: open,
            open_minor,
            open_patch,
        })
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(|c| u8::try_from(c).is_ok_and(is_space))
}

/// The comparisons of a group, separated by white space or commas; `None` if the text does not match this syntax.
fn split_constraints(group: &str) -> Option<Vec<RawConstraint<'_>>> {
    let mut words = Vec::new();
    let mut rest = skip_space(group);
    loop {
        let signs = rest.bytes().take_while(|byte| b"=!<>~^".contains(byte)).count();
        let (sign, after) = rest.split_at(signs);
        let operator = Operator::from_sign(sign)?;
        let after = skip_space(after);
        let end = after.bytes().take_while(|byte| *byte != b',' && !is_space(*byte)).count();
        let (version, after) = after.split_at(end);
        if !has_shape(version) {
            return None;
        }
        words.push(RawConstraint { operator, version });
        rest = skip_space(after);
        if rest.is_empty() {
            return Some(words);
        }
        if let Some(next) = rest.strip_prefix(',') {
            rest = skip_space(next);
        }
    }
}

/// Whether the text consists of one to three numbers or wildcards, with optional pre-release and metadata. The library's expression
/// accidentally accepts `|` in a number; such a text fails later as a version.
fn has_shape(version: &str) -> bool {
    let identifiers = |text: &str| {
        text.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    };
    let (rest, metadata) =
        version.split_once('+').map_or((version, None), |(rest, metadata)| (rest, Some(metadata)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let core = core.strip_prefix('v').unwrap_or(core);
    let number = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || b"|xX*".contains(&byte))
    };
    core.split('.').count() <= 3
        && core.split('.').all(number)
        && [pre, metadata].into_iter().flatten().all(identifiers)
}

/// Rewrites hyphen ranges: `1.2 - 3` becomes `>= 1.2, <= 3 `. Ranges are rare, and this is the only search in the middle of a text, so
/// a regular expression is the simplest way to match the same texts as the library.
fn rewrite_ranges(text: &str) -> std::borrow::Cow<'_, str> {
    const VERSION: &str = r"v?[0-9|xX*]+(?:\.[0-9|xX*]+)?(?:\.[0-9|xX*]+)?(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?";
    static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let space = r"[\t\n\x0c\r ]";
        Regex::new(&format!("{space}*({VERSION}){space}+-{space}+({VERSION}){space}*")).ok()
    });
    let alone = |at: usize| {
        let bytes = text.as_bytes();
        at > 0 && is_space(bytes[at - 1]) && bytes.get(at + 1).copied().is_some_and(is_space)
    };
    if !memchr::memchr_iter(b'-', text.as_bytes()).any(alone) {
        return text.into();
    }
    let Some(range) = RANGE.as_ref() else { return text.into() };
    let mut rewritten = text.to_owned();
    for found in range.captures_iter(text) {
        let (all, [from, to]) = found.extract();
        rewritten = rewritten.replacen(all, &format!(">= {from}, <= {to} "), 1);
    }
    rewritten.into()
}
