//! Go's times and durations: the calendar, zones, layouts.
//!
//! Zones come from the database that is built into the program. All else is reckoned here, because Go's times reach
//! much further than those of other libraries and its layouts are its own.

mod calendar;
mod duration;
mod format;
mod instant;
mod layout;
mod parse;
mod read;
mod zone;

pub use calendar::{Date, MONTHS, WEEKDAYS, days_in};
pub use duration::Duration;
pub use instant::Time;
pub use zone::Zone;

/// The layout in which times stand in JSON, YAML and TOML.
pub const RFC3339: &str = "2006-01-02T15:04:05.999999999Z07:00";
