//! Go's `time`: calendar, time zones, durations and layouts.
//!
//! Time zone data comes from the database embedded in the program. Everything else is implemented here, because Go's range of times
//! is much larger than that of other libraries, and its layouts are unique.

mod calendar;
mod duration;
mod elements;
mod format;
mod instant;
mod layout;
mod parse;
mod zone;

pub use calendar::{Date, MONTHS, WEEKDAYS, days_in};
pub use duration::Duration;
pub use instant::Time;
pub use zone::Zone;

/// The layout of times in JSON, YAML and TOML.
pub const RFC3339: &str = "2006-01-02T15:04:05.999999999Z07:00";
