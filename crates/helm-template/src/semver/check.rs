//! Evaluation of one version comparison, with the reason for a mismatch.

use std::cmp::Ordering;

use super::Version;
use super::constraints::Constraint;
use super::version::compare_pre;
use crate::go::quote;
use crate::profile::Profile;
use crate::value::Str;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

impl Operator {
    pub fn from_sign(sign: &str) -> Option<Self> {
        Some(match sign {
            "" | "=" => Self::Equal,
            "!=" => Self::NotEqual,
            ">" => Self::Greater,
            "<" => Self::Less,
            ">=" | "=>" => Self::GreaterEqual,
            "<=" | "=<" => Self::LessEqual,
            "~" | "~>" => Self::Tilde,
            "^" => Self::Caret,
            _ => return None,
        })
    }
}

/// Why a version does not satisfy a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mismatch {
    Prerelease,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    OtherMajor,
    OtherMinor,
    OtherMajorOrMinor,
    OtherMinorOfZero,
    OtherPatchOfZero,
}

impl Mismatch {
    /// The library's error message.
    pub fn message(self, version: &Version, constraint: &Constraint, profile: Profile) -> Str {
        let (says, then) = match self {
            Self::Prerelease => {
                let version = display(&version.to_string(), profile);
                let why = "is a prerelease version and the constraint is only looking for release versions";
                return format!("{version} {why}").into();
            }
            Self::Equal => ("is equal to", ""),
            Self::NotEqual => ("is not equal to", ""),
            Self::Less => ("is less than", ""),
            Self::LessOrEqual => ("is less than or equal to", ""),
            Self::Greater => ("is greater than", ""),
            Self::GreaterOrEqual => ("is greater than or equal to", ""),
            Self::OtherMajor => ("does not have same major version as", ""),
            Self::OtherMinor => ("does not have same minor version as", ""),
            Self::OtherMajorOrMinor => ("does not have same major and minor version as", ""),
            Self::OtherMinorOfZero => (
                "does not have same minor version as",
                ". Expected minor versions to match when constraint major version is 0",
            ),
            Self::OtherPatchOfZero => (
                "does not equal",
                ". Expect version and constraint to equal when major and minor versions are 0",
            ),
        };
        let (version, wanted) =
            (display(&version.to_string(), profile), display(&constraint.version_text, profile));
        format!("{version} {says} {wanted}{then}").into()
    }
}

fn display(text: &str, profile: Profile) -> String {
    if profile == Profile::Helm3 { text.to_owned() } else { quote(text) }
}

fn fail_if(broken: bool, reason: Mismatch) -> Result<(), Mismatch> {
    if broken { Err(reason) } else { Ok(()) }
}

impl Constraint {
    /// Whether the version satisfies the comparison. The caller has already checked whether pre-releases are allowed.
    pub fn check(&self, version: &Version) -> Result<(), Mismatch> {
        let order = version.compare(&self.version);
        match self.operator {
            Operator::Equal if self.is_open => self.tilde(version),
            Operator::Equal => fail_if(order.is_ne(), Mismatch::NotEqual),
            Operator::NotEqual => self.not_equal(version),
            Operator::Greater => self.greater(version),
            Operator::Less => fail_if(order.is_ge(), Mismatch::GreaterOrEqual),
            Operator::GreaterEqual => fail_if(order.is_lt(), Mismatch::Less),
            Operator::LessEqual if !self.is_open => fail_if(order.is_gt(), Mismatch::Greater),
            Operator::LessEqual => {
                let above = match version.major.cmp(&self.version.major) {
                    Ordering::Greater => true,
                    Ordering::Equal => version.minor > self.version.minor && !self.open_minor,
                    Ordering::Less => false,
                };
                fail_if(above, Mismatch::Greater)
            }
            Operator::Tilde => self.tilde(version),
            Operator::Caret => self.caret(version),
        }
    }

    fn not_equal(&self, version: &Version) -> Result<(), Mismatch> {
        let it = &self.version;
        if self.is_open {
            if it.major != version.major || (it.minor != version.minor && !self.open_minor) {
                return Ok(());
            }
            if self.open_minor {
                return Err(Mismatch::Equal);
            }
            if it.patch != version.patch && !self.open_patch {
                return Ok(());
            }
            if self.open_patch {
                let names_pre = version.is_prerelease() || it.is_prerelease();
                let differs = names_pre && compare_pre(&version.pre, &it.pre).is_ne();
                return fail_if(!differs, Mismatch::Equal);
            }
        }
        fail_if(version.compare(it).is_eq(), Mismatch::Equal)
    }

    /// For an open version, the version must exceed everything it covers: `> 11` starts at 12.
    fn greater(&self, version: &Version) -> Result<(), Mismatch> {
        let it = &self.version;
        let above = if self.is_open && version.major != it.major {
            version.major > it.major
        } else if self.open_minor {
            false
        } else if self.open_patch {
            version.minor > it.minor
        } else {
            version.compare(it).is_gt()
        };
        fail_if(!above, Mismatch::LessOrEqual)
    }

    /// `~1.2.3` allows versions below 1.3, `~1` below 2; `~0.0.0` and `~*` have no upper bound.
    fn tilde(&self, version: &Version) -> Result<(), Mismatch> {
        let it = &self.version;
        if version.compare(it).is_lt() {
            return Err(Mismatch::Less);
        }
        if (it.major, it.minor, it.patch) == (0, 0, 0) && !self.open_minor && !self.open_patch {
            return Ok(());
        }
        if version.major != it.major {
            return Err(Mismatch::OtherMajor);
        }
        fail_if(version.minor != it.minor && !self.open_minor, Mismatch::OtherMajorOrMinor)
    }

    /// `^` allows changes to the right of the first non-zero number.
    fn caret(&self, version: &Version) -> Result<(), Mismatch> {
        let it = &self.version;
        if version.compare(it).is_lt() {
            return Err(Mismatch::Less);
        }
        if it.major > 0 || self.open_minor {
            return fail_if(version.major != it.major, Mismatch::OtherMajor);
        }
        if version.major > 0 {
            return Err(Mismatch::OtherMajor);
        }
        if it.minor > 0 || self.open_patch {
            return fail_if(version.minor != it.minor, Mismatch::OtherMinorOfZero);
        }
        if version.minor > 0 {
            return Err(Mismatch::OtherMinor);
        }
        fail_if(version.patch != it.patch, Mismatch::OtherPatchOfZero)
    }
}
