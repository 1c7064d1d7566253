//! Times as Go writes them into JSON.

use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time, or one of the two ways in which Helm versions write an unset time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HelmTime {
    /// Helm 4: the field is missing.
    #[default]
    Absent,
    /// Helm 3: the field is an empty string.
    Empty,
    /// A time with the UTC offset of its writer.
    At(Timestamp, Offset),
}

/// Go's zero time: 0001-01-01T00:00:00Z.
const GO_ZERO_TIME: i64 = -62_135_596_800;

impl HelmTime {
    /// The timestamp, if set.
    pub fn timestamp(self) -> Option<Timestamp> {
        match self {
            Self::At(at, _) if at.as_second() != GO_ZERO_TIME || at.subsec_nanosecond() != 0 => Some(at),
            _ => None,
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        *self == Self::Absent
    }
}

impl From<Timestamp> for HelmTime {
    fn from(at: Timestamp) -> Self {
        Self::At(at, Offset::UTC)
    }
}

impl Display for HelmTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent | Self::Empty => Ok(()),
            Self::At(at, offset) if *offset == Offset::UTC => write!(f, "{at}"),
            Self::At(at, offset) => write!(f, "{}", at.display_with_offset(*offset)),
        }
    }
}

impl Serialize for HelmTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HelmTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::Empty);
        }
        let pieces = DateTimeParser::new().parse_pieces(&text).map_err(D::Error::custom)?;
        let offset =
            pieces.to_numeric_offset().ok_or_else(|| D::Error::custom("a time without an offset"))?;
        let at = text.parse().map_err(D::Error::custom)?;
        Ok(Self::At(at, offset))
    }
}
