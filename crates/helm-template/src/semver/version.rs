//! Semantic versions: parsing, comparison, increments.

use std::cmp::Ordering;
use std::fmt;

use crate::profile::Profile;
use crate::value::Str;

/// Helm 4's limit on the length of a version in bytes.
const MAX_LEN: usize = 256;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// The pre-release after `-`; empty for a release.
    pub pre: String,
    /// The build metadata after `+`.
    pub metadata: String,
    original: String,
}

/// Why a text is not a version.
#[derive(Clone, Copy)]
enum VersionSyntaxError<'a> {
    Invalid,
    Empty,
    Characters,
    LeadingZero,
    Metadata,
    Prerelease,
    TooLong,
    Segment(&'a str),
}

impl VersionSyntaxError<'_> {
    fn message(self, profile: Profile) -> Str {
        let (helm3, helm4) = match self {
            Self::Invalid => ("Invalid Semantic Version", "invalid semantic version"),
            Self::Empty => ("Version string empty", "version string empty"),
            Self::Characters => ("Invalid characters in version", "invalid characters in version"),
            Self::LeadingZero => ("Version segment starts with 0", "version segment starts with 0"),
            Self::Metadata => ("Invalid Metadata string", "invalid metadata string"),
            Self::Prerelease => ("Invalid Prerelease string", "invalid prerelease string"),
            Self::TooLong => ("", "version string is too long (max 256 bytes)"),
            Self::Segment(digits) => {
                let error = if profile == Profile::Helm3 { "Error" } else { "error" };
                return format!("{error} parsing version segment: {}", out_of_range(digits)).into();
            }
        };
        if profile == Profile::Helm3 { helm3.into() } else { helm4.into() }
    }
}

fn out_of_range(digits: &str) -> String {
    format!("strconv.ParseUint: parsing \"{digits}\": value out of range")
}

impl Version {
    /// Lenient parsing: accepts a leading `v`, missing numbers and leading zeros.
    pub fn parse(text: &str, profile: Profile) -> Result<Self, Str> {
        Self::parse_lenient(text, profile).map_err(|flaw| flaw.message(profile))
    }

    fn parse_lenient(text: &str, profile: Profile) -> Result<Self, VersionSyntaxError<'_>> {
        if profile == Profile::Helm4 && text.len() > MAX_LEN {
            return Err(VersionSyntaxError::TooLong);
        }
        let (core, pre, metadata) = parts(text);
        let core = core.strip_prefix('v').unwrap_or(core);
        // Syntax is checked first, so a malformed text gets no error about its numbers.
        let digits = |segment: &str| !segment.is_empty() && only_digits(segment);
        let shaped = core.split('.').count() <= 3
            && core.split('.').all(digits)
            && [pre, metadata].into_iter().flatten().all(identifiers);
        if !shaped {
            return Err(VersionSyntaxError::Invalid);
        }
        let mut numbers = [0_u64; 3];
        for (number, digits) in numbers.iter_mut().zip(core.split('.')) {
            *number = digits.parse().map_err(|_| VersionSyntaxError::Segment(digits))?;
        }
        let (pre, metadata) = (pre.unwrap_or_default(), metadata.unwrap_or_default());
        check_pre(pre)?;
        let [major, minor, patch] = numbers;
        let (pre, metadata, original) = (pre.to_owned(), metadata.to_owned(), text.to_owned());
        Ok(Self { major, minor, patch, pre, metadata, original })
    }

    /// Strict parsing: three numbers, no `v`, no leading zeros.
    pub fn parse_strict(text: &str, profile: Profile) -> Result<Self, Str> {
        Self::try_parse_strict(text, profile).map_err(|flaw| match flaw {
            // Here the library returns the error of Go's number parser unchanged.
            VersionSyntaxError::Segment("") => "strconv.ParseUint: parsing \"\": invalid syntax".into(),
            VersionSyntaxError::Segment(digits) => out_of_range(digits).into(),
            flaw => flaw.message(profile),
        })
    }

    fn try_parse_strict(text: &str, profile: Profile) -> Result<Self, VersionSyntaxError<'_>> {
        if text.is_empty() {
            return Err(VersionSyntaxError::Empty);
        }
        if profile == Profile::Helm4 && text.len() > MAX_LEN {
            return Err(VersionSyntaxError::TooLong);
        }
        let mut segments = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (segments.next(), segments.next(), segments.next())
        else {
            return Err(VersionSyntaxError::Invalid);
        };
        let (rest, metadata) = cut(rest, '+');
        if let Some(metadata) = metadata {
            check_metadata(metadata, profile)?;
        }
        let (patch, pre) = cut(rest, '-');
        if let Some(pre) = pre {
            if pre.split('.').any(str::is_empty) && profile == Profile::Helm4 {
                return Err(VersionSyntaxError::Prerelease);
            }
            check_pre(pre)?;
        }
        let segments = [major, minor, patch];
        for digits in segments {
            if !only_digits(digits) {
                return Err(VersionSyntaxError::Characters);
            }
            if digits.len() > 1 && digits.starts_with('0') {
                return Err(VersionSyntaxError::LeadingZero);
            }
        }
        let mut numbers = [0_u64; 3];
        for (number, digits) in numbers.iter_mut().zip(segments) {
            *number = digits.parse().map_err(|_| VersionSyntaxError::Segment(digits))?;
        }
        let [major, minor, patch] = numbers;
        let (pre, metadata) = (pre.unwrap_or_default().to_owned(), metadata.unwrap_or_default().to_owned());
        Ok(Self { major, minor, patch, pre, metadata, original: text.to_owned() })
    }

    /// The text that the version was parsed from.
    pub fn original(&self) -> &str {
        &self.original
    }

    pub fn is_prerelease(&self) -> bool {
        !self.pre.is_empty()
    }

    /// Compares by precedence. Metadata is ignored, so different versions can compare equal.
    pub fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (self.is_prerelease(), other.is_prerelease()) {
            (true, true) => compare_pre(&self.pre, &other.pre),
            // A release follows its pre-releases.
            (one, two) => two.cmp(&one),
        })
    }

    /// The next patch version; for a pre-release, its release.
    pub fn next_patch(&self) -> Result<Self, Str> {
        let patch = if self.is_prerelease() { self.patch } else { increment(self.patch, "patch")? };
        Ok(self.with_numbers(self.major, self.minor, patch))
    }

    pub fn next_minor(&self) -> Result<Self, Str> {
        Ok(self.with_numbers(self.major, increment(self.minor, "minor")?, 0))
    }

    pub fn next_major(&self) -> Result<Self, Str> {
        Ok(self.with_numbers(increment(self.major, "major")?, 0, 0))
    }

    fn with_numbers(&self, major: u64, minor: u64, patch: u64) -> Self {
        let bare = Self {
            major,
            minor,
            patch,
            pre: String::new(),
            metadata: String::new(),
            original: self.original.clone(),
        };
        bare.with_formatted_original()
    }

    pub fn with_pre(&self, pre: &str, profile: Profile) -> Result<Self, Str> {
        if !pre.is_empty() {
            if profile == Profile::Helm4 && pre.split('.').any(str::is_empty) {
                return Err(VersionSyntaxError::Prerelease.message(profile));
            }
            check_pre(pre).map_err(|flaw| flaw.message(profile))?;
        }
        Ok(Self { pre: pre.to_owned(), ..self.clone() }.with_formatted_original())
    }

    pub fn with_metadata(&self, metadata: &str, profile: Profile) -> Result<Self, Str> {
        if !metadata.is_empty() {
            check_metadata(metadata, profile).map_err(|flaw| flaw.message(profile))?;
        }
        Ok(Self { metadata: metadata.to_owned(), ..self.clone() }.with_formatted_original())
    }

    /// Sets the original text to the formatted version, keeping a leading `v`.
    fn with_formatted_original(mut self) -> Self {
        let v = if self.original.starts_with('v') { "v" } else { "" };
        self.original = format!("{v}{self}");
        self
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// Increments a number. The library of Helm 3 wraps to zero on overflow, which is never intended.
fn increment(number: u64, part: &str) -> Result<u64, Str> {
    number.checked_add(1).ok_or_else(|| format!("{part} version increment would overflow uint64").into())
}

/// Splits into numbers, pre-release (from the first `-`) and metadata (from the first `+`).
fn parts(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, metadata) = cut(text, '+');
    let (core, pre) = cut(rest, '-');
    (core, pre, metadata)
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn only_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn only_allowed(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether the text is a dotted list of non-empty identifiers, such as `a.b-c.1`.
fn identifiers(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && only_allowed(part))
}

fn check_pre(pre: &str) -> Result<(), VersionSyntaxError<'static>> {
    for part in pre.split('.') {
        if only_digits(part) {
            if part.len() > 1 && part.starts_with('0') {
                return Err(VersionSyntaxError::LeadingZero);
            }
        } else if !only_allowed(part) {
            return Err(VersionSyntaxError::Prerelease);
        }
    }
    Ok(())
}

/// Checks metadata. The library of Helm 3 accepts empty identifiers.
fn check_metadata(metadata: &str, profile: Profile) -> Result<(), VersionSyntaxError<'static>> {
    let fine = |part: &str| only_allowed(part) && !(part.is_empty() && profile == Profile::Helm4);
    if metadata.split('.').all(fine) { Ok(()) } else { Err(VersionSyntaxError::Metadata) }
}

pub(super) fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) => match compare_part(a.unwrap_or_default(), b.unwrap_or_default()) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

/// Compares identifiers: missing ones come first, then numbers, then words.
fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (a.is_empty(), b.is_empty()) {
        (true, _) => return Ordering::Less,
        (_, true) => return Ordering::Greater,
        _ => {}
    }
    // A number beyond 64 bits compares as a word.
    let number = |part: &str| only_digits(part).then(|| part.parse::<u64>().ok()).flatten();
    match (number(a), number(b)) {
        (None, None) => a.cmp(b),
        (None, Some(_)) => Ordering::Greater,
        // Two spellings of one number are not equal, and the library returns "less" for either order.
        (Some(a), Some(b)) if a > b => Ordering::Greater,
        (Some(_), _) => Ordering::Less,
    }
}
