//! How deep a writer is inside a value, and what keeps it from going on.

use crate::value::{Map, Str};

/// How deep values may be nested for those who write them. Charts have a dozen levels, and a stack has its end.
const LIMIT: usize = 1_000;

/// How long the text of one value may become. What is shared stands in the text as often as it is met, so that little
/// memory can come to any length.
const LONGEST: usize = 64 << 20;

/// Refuses to go on with a text that is too long. Every part of a value is asked about.
pub(crate) fn check_length(text: &str) -> Result<(), Unwritable> {
    if text.len() > LONGEST { Err(Unwritable::TooLong) } else { Ok(()) }
}

/// Why a value was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The format has no way to say it. Helm refuses it too, in these words.
    Refused(Str),
    /// More than we go into. Helm might have written it.
    TooDeep,
    /// The same.
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

/// A list or a map that the writer is inside of, with all around it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Nesting<'n> {
    /// None for a list, and outside of everything.
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
