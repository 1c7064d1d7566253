//! Command output: tables in kubectl's style, or the platform's response as JSON or YAML.
//!
//! No colours. Control characters in text from other users are escaped: see [`tame`].

use std::fmt::Write;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::Value;

use super::Failure;

/// Output format of a response.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// As what to print it: all there is, only `kind/name`, or a table with more columns
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
    Name,
    Wide,
}

/// Result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// For standard output.
    pub out: String,
    /// Lines for standard error.
    pub notes: Vec<String>,
}

impl Said {
    pub fn line(text: impl Into<String>) -> Self {
        let mut out = text.into();
        out.push('\n');
        Self { out, notes: Vec::new() }
    }

    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// Format of a cell.
#[derive(Clone, Copy, Debug)]
pub enum Show {
    /// Unchanged; a list is joined.
    Text,
    /// Time since, or until.
    Age,
    /// The value at this path of each list item.
    Each(&'static str),
    /// `cpu=4,memory=8Gi`
    Pairs,
}

/// A column: title, JSON pointer into the response, format, and whether only `-o wide` shows it.
pub type Column = (&'static str, &'static str, Show, bool);

/// A kind of object, for printing.
#[derive(Debug)]
pub struct Kind {
    pub word: &'static str,
    pub plural: &'static str,
    /// JSON pointer to the object's name.
    pub name: &'static str,
    pub columns: &'static [Column],
}

impl Kind {
    /// Prints a list response.
    pub fn list(&self, answer: &Value, args: OutputArgs, now: Timestamp) -> Result<Said, Failure> {
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut said = Said { out: self.print(answer, items, args, now)?, notes: Vec::new() };
        if items.is_empty() && matches!(args.output, None | Some(Format::Wide)) {
            said = Said::default().note(format!("there are no {}", self.plural));
        }
        match answer["stale"].as_f64() {
            Some(seconds) => {
                Ok(said.note(format!("this is {seconds:.0} s old: the cluster does not answer the platform")))
            }
            None => Ok(said),
        }
    }

    /// Prints one object.
    pub fn one(&self, answer: &Value, args: OutputArgs, now: Timestamp) -> Result<Said, Failure> {
        Ok(Said { out: self.print(answer, std::slice::from_ref(answer), args, now)?, notes: Vec::new() })
    }

    /// Prints `kind/name` with the action that was done, or the whole object if a format was requested.
    pub fn done(&self, answer: &Value, act: &str, args: OutputArgs, now: Timestamp) -> Result<Said, Failure> {
        match args.output {
            None => Ok(Said::line(format!("{} {act}", self.named(answer)))),
            Some(_) => self.one(answer, args, now),
        }
    }

    fn named(&self, item: &Value) -> String {
        self.reference(&cell(item, self.name, Show::Text, Timestamp::UNIX_EPOCH))
    }

    /// `kind/name`
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{}", self.word, tame(name))
    }

    fn print(
        &self,
        whole: &Value,
        items: &[Value],
        args: OutputArgs,
        now: Timestamp,
    ) -> Result<String, Failure> {
        match args.output {
            Some(Format::Json) => json(whole),
            Some(Format::Yaml) => yaml(whole),
            Some(Format::Name) => Ok(items.iter().map(|item| self.named(item) + "\n").collect()),
            Some(Format::Wide) => Ok(self.table(items, true, now)),
            None => Ok(self.table(items, false, now)),
        }
    }

    fn table(&self, items: &[Value], wide: bool, now: Timestamp) -> String {
        let columns = self.columns.iter().filter(|column| wide || !column.3);
        let columns: Vec<&Column> = columns.collect();
        let titles = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
        let rows = items
            .iter()
            .map(|item| columns.iter().map(|(_, place, show, _)| cell(item, place, *show, now)).collect());
        lines(&std::iter::once(titles).chain(rows).collect::<Vec<Vec<String>>>())
    }
}

/// Indented JSON with a trailing newline.
pub fn json(value: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Print(error.to_string()))?;
    Ok(text + "\n")
}

pub fn yaml(value: &Value) -> Result<String, Failure> {
    serde_norway::to_string(value).map_err(|error| Failure::Print(error.to_string()))
}

/// Aligns columns, with three spaces between them and no trailing space.
pub fn lines(rows: &[Vec<String>]) -> String {
    let width = |place: usize| {
        rows.iter()
            .filter_map(|row| row.get(place))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (place, cell) in row.iter().enumerate() {
            write!(line, "{cell:0$}", width(place) + 3).expect("writing to a String cannot fail");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Text of a cell; `-` if the value is absent.
pub fn cell(item: &Value, place: &str, show: Show, now: Timestamp) -> String {
    let value = item.pointer(place).unwrap_or(&Value::Null);
    let text = match (show, value) {
        (Show::Age, Value::String(time)) => time.parse().map_or_else(|_| tame(time), |time| age(time, now)),
        (Show::Each(inner), Value::Array(items)) => {
            items.iter().map(|item| plain(item.pointer(inner).unwrap_or(item))).collect::<Vec<_>>().join(",")
        }
        (Show::Pairs, Value::Object(pairs)) => pairs
            .iter()
            .map(|(key, value)| format!("{}={}", tame(key), plain(value)))
            .collect::<Vec<_>>()
            .join(","),
        (_, value) => plain(value),
    };
    if text.is_empty() { "-".to_owned() } else { text }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => tame(text),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => tame(&other.to_string()),
    }
}

/// Escapes control characters and bidirectional formatting characters.
pub fn tame(text: &str) -> String {
    let wild = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if wild(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Duration in kubectl's short form.
fn age(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - time.as_second();
    // Future times are rounded up, so that a 30 day token still shows 30 days shortly after creation.
    let (seconds, prefix) = if seconds < 0 { ((59 - seconds) / 60 * 60, "in ") } else { (seconds, "") };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    let text = match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    };
    format!("{prefix}{text}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const THINGS: Kind = Kind {
        word: "thing",
        plural: "things",
        name: "/name",
        columns: &[
            ("NAME", "/name", Show::Text, false),
            ("ROLES", "/roles", Show::Text, false),
            ("PARTS", "/parts", Show::Each("/name"), false),
            ("QUOTA", "/quota", Show::Pairs, true),
            ("AGE", "/created", Show::Age, false),
        ],
    };

    fn now() -> Timestamp {
        "2026-01-02T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_same_things_in_every_format() {
        let answer = json!({"items": [
            {"name": "one", "roles": ["admin", "isv"], "parts": [{"name": "a"}, {"name": "b"}], "quota": {"cpu": "4", "pods": 9}, "created": "2026-01-01T23:00:00Z"},
            {"name": "a longer one", "roles": [], "created": "2026-01-01T23:59:59Z"},
        ], "at": 7});
        let mut picture = String::new();
        for output in [None, Some(Format::Wide), Some(Format::Name), Some(Format::Yaml), Some(Format::Json)] {
            let said = THINGS.list(&answer, OutputArgs { output }, now()).unwrap();
            assert_eq!(said.notes, [""; 0]);
            writeln!(picture, "{output:?}\n{}", said.out).unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn nothing_and_something_old_are_told_beside_it() {
        let table = OutputArgs::default();
        let json = OutputArgs { output: Some(Format::Json) };
        assert_eq!(
            THINGS.list(&json!({"items": []}), table, now()).unwrap(),
            Said::default().note("there are no things")
        );
        let old = json!({"items": [], "stale": 12});
        let said = THINGS.list(&old, json, now()).unwrap();
        assert!(said.out.contains("\"items\": []"));
        assert_eq!(said.notes, ["this is 12 s old: the cluster does not answer the platform"]);
        assert_eq!(
            THINGS.done(&json!({"name": "x"}), "created", table, now()).unwrap().out,
            "thing/x created\n"
        );
    }

    #[test]
    fn what_others_wrote_moves_no_cursor() {
        let item = json!({"name": "a\u{1b}[2Jb\nc\u{202e}d", "roles": ["x\ry"]});
        let table = THINGS.one(&item, OutputArgs::default(), now()).unwrap().out;
        assert!(table.contains(r"a\u{1b}[2Jb\nc\u{202e}d   x\ry"), "{table}");
        let name = THINGS.one(&item, OutputArgs { output: Some(Format::Name) }, now()).unwrap().out;
        assert_eq!(name.lines().count(), 1);
    }

    #[test]
    fn ages_are_as_short_as_kubectls() {
        let rows = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (315_360_000, "10y"),
            (-7200, "in 120m"),
            (-2_591_999, "in 30d"),
            (-1, "in 60s"),
            (-2_592_000, "in 30d"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(age(now() - jiff::SignedDuration::from_secs(seconds), now()), expected, "{seconds}");
        }
    }
}
