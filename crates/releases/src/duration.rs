//! Durations in the notation of Go and Flux: `1h30m`, `10m`, `2.5s`, `500ms`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

const UNITS: &[(&str, f64)] = &[("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// The longest duration that parses, in seconds: one year.
const MAX_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

/// Parses a duration. Returns `None` for invalid text and for more than a year.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit = rest[end..]
            .find(|letter: char| letter.is_ascii_digit())
            .map_or(rest.len(), |at| end.saturating_add(at));
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == &rest[end..unit])?;
        seconds += number * factor;
        rest = &rest[unit..];
    }
    (!text.is_empty() && seconds <= MAX_SECONDS).then(|| Duration::from_secs_f64(seconds))
}

/// The shortest interval of a release. The schema rejects shorter ones; objects from before that rule are clamped.
pub const MIN_INTERVAL: Duration = Duration::from_secs(30);
pub const MAX_INTERVAL: Duration = Duration::from_hours(24 * 30);
/// The bounds of `options.timeout`. The schema rejects others; objects from before that rule are clamped.
pub const MIN_TIMEOUT: Duration = Duration::from_secs(1);
pub const MAX_TIMEOUT: Duration = Duration::from_hours(1);

/// Parses an interval and clamps it. Returns `None` for invalid text.
pub fn parse_interval(text: &str, min: Duration) -> Option<Duration> {
    parse_clamped(text, min, MAX_INTERVAL)
}

/// Parses a timeout and clamps it. Returns `None` for invalid text.
pub fn parse_timeout(text: &str) -> Option<Duration> {
    parse_clamped(text, MIN_TIMEOUT, MAX_TIMEOUT)
}

fn parse_clamped(text: &str, min: Duration, max: Duration) -> Option<Duration> {
    parse(text).map(|length| length.clamp(min, max))
}

/// Adds up to 10 % to `length`, always the same for one key, so that timers started together do not fire together.
pub fn with_jitter(length: Duration, key: impl Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let thousandths = u32::try_from(hasher.finish() % 100).unwrap_or_default();
    let thousandth = length.checked_div(1000).unwrap_or_default();
    length.saturating_add(thousandth.saturating_mul(thousandths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_timeouts_are_clamped() {
        for (text, seconds) in [("0s", 30), ("0.0000000001ms", 30), ("1m", 60), ("8783h", 30 * 24 * 3600)] {
            assert_eq!(parse_interval(text, MIN_INTERVAL), Some(Duration::from_secs(seconds)), "{text}");
        }
        for (text, seconds) in [("0s", 1), ("5m", 300), ("2h", 3600), ("8783h", 3600)] {
            assert_eq!(parse_timeout(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!((parse_interval("soon", MIN_INTERVAL), parse_timeout("")), (None, None));
    }

    #[test]
    fn jitter_adds_up_to_a_tenth_and_differs_between_keys() {
        let length = Duration::from_secs(100);
        let all: Vec<Duration> = (0..100).map(|key| with_jitter(length, key)).collect();
        assert!(all.iter().all(|one| (length..length * 11 / 10).contains(one)), "{all:?}");
        assert!(all.iter().any(|one| *one != all[0]));
        assert_eq!(with_jitter(length, 7), with_jitter(length, 7));
        assert_eq!(with_jitter(Duration::MAX, 7), Duration::MAX);
    }

    #[test]
    fn go_durations_parse() {
        for (text, milliseconds) in
            [("10m", 600_000), ("1h30m", 5_400_000), ("2.5s", 2500), ("500ms", 500), ("1m1ms", 60_001)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "10", "m", "1.2.3s", "-5m", "1d", "10 m", "99999999h", "1e9s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
