//! Depth and length limits of the JSON, YAML and TOML encoders, and cycle detection.

use crate::value::{Map, Str};

/// Maximum nesting of an encoded value. Charts have a dozen levels; the limit protects the stack.
const MAX_DEPTH: usize = 1_000;

/// Maximum length of one encoded value, in bytes. Shared values are written once per reference, so a small value can have an
/// arbitrarily long encoding.
const MAX_ENCODED_LEN: usize = 64 << 20;

/// Fails if the text is too long. Encoders call this for every part of a value.
pub(crate) fn check_length(text: &str) -> Result<(), EncodeError> {
    if text.len() > MAX_ENCODED_LEN { Err(EncodeError::TooLong) } else { Ok(()) }
}

/// Why a value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The format cannot represent the value. Helm refuses it too, with this message.
    Unsupported(Str),
    /// Nested deeper than our limit. Helm might have encoded it.
    TooDeep,
    /// Longer than our limit. Helm might have encoded it.
    TooLong,
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsupported(why) => f.write_str(why),
            Self::TooDeep => write!(f, "the value is nested more than {MAX_DEPTH} deep"),
            Self::TooLong => write!(f, "the text of the value is longer than {MAX_ENCODED_LEN} bytes"),
        }
    }
}

impl std::error::Error for EncodeError {}

impl From<Str> for EncodeError {
    fn from(why: Str) -> Self {
        Self::Unsupported(why)
    }
}

impl From<EncodeError> for Str {
    fn from(why: EncodeError) -> Self {
        match why {
            EncodeError::Unsupported(why) => why,
            EncodeError::TooDeep | EncodeError::TooLong => why.to_string().into(),
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
    pub fn inside_list(&'n self) -> Result<Self, EncodeError> {
        self.nested(None)
    }

    pub fn inside_map(&'n self, map: &'n Map) -> Result<Self, EncodeError> {
        self.nested(Some(map))
    }

    fn nested(&'n self, map: Option<&'n Map>) -> Result<Self, EncodeError> {
        let inner = Self { map, outer: Some(self), depth: self.depth + 1 };
        if inner.depth <= MAX_DEPTH {
            return Ok(inner);
        }
        let mut maps = std::iter::successors(Some(&inner), |nesting| nesting.outer).filter_map(|n| n.map);
        match maps.next() {
            Some(last) if maps.any(|map| map.ptr_eq(last)) => Err(EncodeError::Unsupported(
                format!("json: unsupported value: encountered a cycle via {}", last.type_name()).into(),
            )),
            _ => Err(EncodeError::TooDeep),
        }
    }
}
