//! Depth and length limits of the JSON, YAML and TOML encoders, and cycle detection.

use crate::value::{Map, Str};

/// Maximum nesting of an encoded value. Charts have a dozen levels; the limit protects the stack.
const LIMIT: usize = 1_000;

/// Maximum length of one encoded value, in bytes. Shared values are written once per reference, so a small value can have an
/// arbitrarily long encoding.
const LONGEST: usize = 64 << 20;

/// Fails if the text is too long. Encoders call this for every part of a value.
pub(crate) fn check_length(text: &str) -> Result<(), Unwritable> {
    if text.len() > LONGEST { Err(Unwritable::TooLong) } else { Ok(()) }
}

/// Why a value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The format cannot represent the value. Helm refuses it too, with this message.
    Refused(Str),
    /// Nested deeper than our limit. Helm might have encoded it.
    TooDeep,
    /// Longer than our limit. Helm might have encoded it.
    TooLong,
}

impl std::fmt::Display for Unwritable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(why) => f.write_str(why),
            Self::TooDeep => write!(f, "the value is nested more than {LIMIT} deep"),
            Self::TooLong => write!(f, "the text of the value is longer than {LONGEST} bytes"),
        }
    }
}

impl std::error::Error for Unwritable {}

impl From<Str> for Unwritable {
    fn from(why: Str) -> Self {
        Self::Refused(why)
    }
}

impl From<Unwritable> for Str {
    fn from(why: Unwritable) -> Self {
        match why {
            Unwritable::Refused(why) => why,
            Unwritable::TooDeep | Unwritable::TooLong => why.to_string().into(),
        }
    }
}

/// The list or map that the encoder is in, linked to the enclosing ones.
#[derive(Clone, Copy, Default)]
pub(crate) struct Nesting<'n> {
    /// `None` for a list, and at the top level.
    map: Option<&'n Map>,
    outer: Option<&'n Nesting<'n>>,
    depth: usize,
}

impl<'n> Nesting<'n> {
    pub fn inside_list(&'n self) -> Result<Self, Unwritable> {
        self.inside(None)
    }

    pub fn inside_map(&'n self, map: &'n Map) -> Result<Self, Unwritable> {
        self.inside(Some(map))
    }

    fn inside(&'n self, map: Option<&'n Map>) -> Result<Self, Unwritable> {
        let inner = Self { map, outer: Some(self), depth: self.depth + 1 };
        if inner.depth <= LIMIT {
            return Ok(inner);
        }
        let mut maps = std::iter::successors(Some(&inner), |nesting| nesting.outer).filter_map(|n| n.map);
        match maps.next() {
            Some(last) if maps.any(|map| map.is(last)) => Err(Unwritable::Refused(
                format!("json: unsupported value: encountered a cycle via {}", last.type_name()).into(),
            )),
            _ => Err(Unwritable::TooDeep),
        }
    }
}
