//! Go's `time.Time`: an instant and the zone in which it is displayed.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::calendar::{DAY, Date};
use super::duration::{Duration, SECOND};
use super::zone::Zone;
use crate::value::Str;

/// A point in time with its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970-01-01.
    unix: i64,
    nanosecond: i64,
    zone: Zone,
    /// Monotonic clock reading in nanoseconds since program start. Times from the clock print it.
    monotonic: Option<i64>,
}

/// Go's zero time, 0001-01-01, relative to 1970.
const ZERO: i64 = -62_135_596_800;

impl Time {
    pub fn new(unix: i64, nanosecond: i64, zone: Zone) -> Self {
        Self { unix, nanosecond, zone, monotonic: None }
    }

    /// Go's zero time.
    pub fn zero() -> Self {
        Self::new(ZERO, 0, Zone::Utc)
    }

    /// The current time.
    pub fn now(now: Timestamp, zone: Zone) -> Self {
        let nanosecond = i64::from(now.subsec_nanosecond());
        // An instant before 1970 has a negative fraction.
        let unix = now.as_second() - i64::from(nanosecond < 0);
        Self { monotonic: Some(0), ..Self::new(unix, nanosecond.rem_euclid(SECOND), zone) }
    }

    /// The time at which the clocks of a zone show this date and second of day. Ambiguous and skipped readings resolve as in Go: the
    /// offset is looked up at the reading itself, then again at the result.
    pub(super) fn from_local(date: Date, second: i64, nanosecond: i64, zone: Zone) -> Self {
        let clock = date.days().saturating_mul(DAY).saturating_add(second);
        let offset = zone.offset(clock.saturating_sub(zone.offset(clock)));
        Self::new(clock.saturating_sub(offset), nanosecond, zone)
    }

    /// The same instant in another zone.
    #[must_use]
    pub fn in_zone(&self, zone: Zone) -> Self {
        Self::new(self.unix, self.nanosecond, zone)
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    pub fn monotonic(&self) -> Option<i64> {
        self.monotonic
    }

    pub fn is_zero(&self) -> bool {
        (self.unix, self.nanosecond) == (ZERO, 0)
    }

    pub fn is_dst(&self) -> bool {
        self.zone.is_dst(self.unix)
    }

    pub fn unix(&self) -> i64 {
        self.unix
    }

    pub fn nanosecond(&self) -> i64 {
        self.nanosecond
    }

    /// Time since 1970 in units of 1/`per_second` second. Wraps around on overflow.
    pub fn unix_in(&self, per_second: i64) -> i64 {
        self.unix.wrapping_mul(per_second).wrapping_add(self.nanosecond / (SECOND / per_second))
    }

    fn clock(&self) -> i64 {
        self.unix.saturating_add(self.zone.offset(self.unix))
    }

    pub(super) fn offset_and_name(&self) -> (i64, Str) {
        self.zone.offset_and_name(self.unix)
    }

    pub fn date(&self) -> Date {
        Date::from_days(self.clock().div_euclid(DAY))
    }

    /// 0 is Sunday.
    pub fn weekday(&self) -> i64 {
        (self.clock().div_euclid(DAY) + 4).rem_euclid(7)
    }

    /// Seconds since midnight.
    pub fn second_of_day(&self) -> i64 {
        self.clock().rem_euclid(DAY)
    }

    #[must_use]
    pub fn add(&self, duration: Duration) -> Self {
        let nanoseconds = self.nanosecond + duration.0 % SECOND;
        let carry = nanoseconds.div_euclid(SECOND);
        Self {
            unix: self.unix.wrapping_add(duration.0 / SECOND).wrapping_add(carry),
            nanosecond: nanoseconds.rem_euclid(SECOND),
            zone: self.zone.clone(),
            monotonic: self.monotonic.and_then(|since| since.checked_add(duration.0)),
        }
    }

    /// Go's `AddDate`: the 31st of a shorter month falls into the next month.
    #[must_use]
    pub fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        // Far beyond any representable time; Go's results are meaningless there too.
        const FARTHEST: i64 = 1_000_000_000_000;
        let near = |count: i64| count.clamp(-FARTHEST, FARTHEST);
        let date = self.date();
        let date = Date {
            year: date.year + near(years),
            month: date.month + near(months),
            day: date.day + near(days),
        };
        Self::from_local(date, self.second_of_day(), self.nanosecond, self.zone.clone())
    }

    /// The duration since another time, saturating.
    pub fn since(&self, other: &Self) -> Duration {
        let seconds = i128::from(self.unix) - i128::from(other.unix);
        let all = seconds * i128::from(SECOND) + i128::from(self.nanosecond - other.nanosecond);
        Duration(i64::try_from(all).unwrap_or(if all < 0 { i64::MIN } else { i64::MAX }))
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        (self.unix, self.nanosecond).cmp(&(other.unix, other.nanosecond))
    }

    /// Nanoseconds since the last multiple of a duration, counted from the zero time.
    fn since_multiple(&self, multiple: Duration) -> i64 {
        let all =
            (i128::from(self.unix) - i128::from(ZERO)) * i128::from(SECOND) + i128::from(self.nanosecond);
        i64::try_from(all.rem_euclid(i128::from(multiple.0))).unwrap_or_default()
    }

    #[must_use]
    pub fn truncate(&self, multiple: Duration) -> Self {
        let bare = self.in_zone(self.zone.clone());
        if multiple.0 <= 0 { bare } else { bare.add(Duration(-self.since_multiple(multiple))) }
    }

    #[must_use]
    pub fn round(&self, multiple: Duration) -> Self {
        let bare = self.in_zone(self.zone.clone());
        if multiple.0 <= 0 {
            return bare;
        }
        let beyond = self.since_multiple(multiple);
        let up = beyond.unsigned_abs() * 2 >= multiple.0.unsigned_abs();
        bare.add(Duration(if up { multiple.0 - beyond } else { -beyond }))
    }
}
