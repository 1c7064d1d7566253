//! Ages in the format of `kubectl get`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The age of a time in an object; `<unknown>` if absent.
pub fn age_since(at: &Value, now: Timestamp) -> String {
    parse_time(at).map_or_else(|| "<unknown>".to_owned(), |at| human_duration(now.duration_since(at)))
}

/// Parses a `Time` or `MicroTime` of an object.
pub fn parse_time(at: &Value) -> Option<Timestamp> {
    at.as_str()?.parse().ok()
}

/// Formats with fewer units for longer durations: `119s`, `2m52s`, `12m`, `3h4m`, `47h`, `5d4h`, `700d`, `3y2d`, `9y`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    // Allows for clock skew: the near future counts as now.
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => format_two_units(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => format_two_units(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => format_two_units(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => format_two_units(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// Two units, the second only if it is not zero.
fn format_two_units(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_units_get_coarser() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (2 * minute + 52, "2m52s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour + 4 * minute, "3h4m"),
            (8 * hour, "8h"),
            (48 * hour, "2d"),
            (5 * day + 4 * hour, "5d4h"),
            (8 * day, "8d"),
            (730 * day - 1, "729d"),
            (732 * day, "2y2d"),
            (8 * 365 * day, "8y"),
        ];
        for (seconds, text) in table {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn absent_time_is_unknown() {
        let now = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_eq!(age_since(&Value::Null, now), "<unknown>");
        assert_eq!(age_since(&"2026-01-01T00:00:01Z".into(), now), "119s");
    }
}
