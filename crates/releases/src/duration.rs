//! Lengths of time as Go and Flux write them: `1h30m`, `10m`, `2.5s`, `500ms`.

use std::time::Duration;

const UNITS: &[(&str, f64)] = &[("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Longer than anything is waited for.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

/// The length, unless the text is none or far too long.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit = rest[end..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == &rest[end..unit])?;
        seconds += number * factor;
        rest = &rest[unit..];
    }
    (!text.is_empty() && seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_writes_is_understood_and_nothing_else() {
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
