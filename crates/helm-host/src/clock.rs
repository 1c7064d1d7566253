//! The system clock and time zone.

use helm_template::env::Clock;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Host;

impl Clock for Host {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::system()
    }
}
