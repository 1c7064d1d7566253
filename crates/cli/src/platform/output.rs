//! Command output: tables in kubectl's style, or the platform's response as JSON or YAML.
//!
//! No colours. Control characters in text from other users are escaped: see [`escape_control`].

use std::fmt::Write;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::Value;

use super::PlatformError;

/// Output format of a response.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// Output format: `json` and `yaml` print all fields, `name` only `kind/name`, `wide` more columns
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
pub struct CommandOutput {
    /// For standard output.
    pub stdout: String,
    /// Lines for standard error.
    pub notes: Vec<String>,
}

impl CommandOutput {
    pub fn from_line(text: impl Into<String>) -> Self {
        let mut out = text.into();
        out.push('\n');
        Self { stdout: out, notes: Vec::new() }
    }

    #[must_use]
    pub fn with_note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// Format of a cell.
#[derive(Clone, Copy, Debug)]
pub enum CellFormat {
    /// Unchanged; a list is joined.
    Text,
    /// Time since, or until.
    Age,
    /// The value at this path of each list item.
    EachItem(&'static str),
    /// `cpu=4,memory=8Gi`
    Pairs,
}

/// A column: title, JSON pointer into the response, format, and whether only `-o wide` shows it.
pub type Column = (&'static str, &'static str, CellFormat, bool);

/// A kind of object, for printing.
#[derive(Debug)]
pub struct ResourcePrinter {
    pub singular: &'static str,
    pub plural: &'static str,
    /// JSON pointer to the object's name.
    pub name_pointer: &'static str,
    pub columns: &'static [Column],
}

impl ResourcePrinter {
    /// Prints a list response.
    pub fn print_list(
        &self,
        answer: &Value,
        args: OutputArgs,
        now: Timestamp,
    ) -> Result<CommandOutput, PlatformError> {
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut output = CommandOutput { stdout: self.print(answer, items, args, now)?, notes: Vec::new() };
        if items.is_empty() && matches!(args.output, None | Some(Format::Wide)) {
            output = CommandOutput::default().with_note(format!("no {}", self.plural));
        }
        match answer["stale"].as_f64() {
            Some(seconds) => Ok(output.with_note(format!(
                "this list is {seconds:.0} s old: the platform cannot reach the cluster"
            ))),
            None => Ok(output),
        }
    }

    /// Prints one object.
    pub fn print_object(
        &self,
        answer: &Value,
        args: OutputArgs,
        now: Timestamp,
    ) -> Result<CommandOutput, PlatformError> {
        Ok(CommandOutput {
            stdout: self.print(answer, std::slice::from_ref(answer), args, now)?,
            notes: Vec::new(),
        })
    }

    /// Prints `kind/name` with the action that was done, or the whole object if a format was requested.
    pub fn print_result(
        &self,
        answer: &Value,
        act: &str,
        args: OutputArgs,
        now: Timestamp,
    ) -> Result<CommandOutput, PlatformError> {
        match args.output {
            None => Ok(CommandOutput::from_line(format!("{} {act}", self.qualified_name(answer)))),
            Some(_) => self.print_object(answer, args, now),
        }
    }

    fn qualified_name(&self, item: &Value) -> String {
        self.reference(&format_cell(item, self.name_pointer, CellFormat::Text, Timestamp::UNIX_EPOCH))
    }

    /// `kind/name`
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{}", self.singular, escape_control(name))
    }

    fn print(
        &self,
        whole: &Value,
        items: &[Value],
        args: OutputArgs,
        now: Timestamp,
    ) -> Result<String, PlatformError> {
        match args.output {
            Some(Format::Json) => to_json(whole),
            Some(Format::Yaml) => to_yaml(whole),
            Some(Format::Name) => Ok(items.iter().map(|item| self.qualified_name(item) + "\n").collect()),
            Some(Format::Wide) => Ok(self.table(items, true, now)),
            None => Ok(self.table(items, false, now)),
        }
    }

    fn table(&self, items: &[Value], wide: bool, now: Timestamp) -> String {
        let columns = self.columns.iter().filter(|column| wide || !column.3);
        let columns: Vec<&Column> = columns.collect();
        let titles = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
        let rows = items.iter().map(|item| {
            columns.iter().map(|(_, place, show, _)| format_cell(item, place, *show, now)).collect()
        });
        align_columns(&std::iter::once(titles).chain(rows).collect::<Vec<Vec<String>>>())
    }
}

/// Indented JSON with a trailing newline.
pub fn to_json(value: &Value) -> Result<String, PlatformError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| PlatformError::Print(error.to_string()))?;
    Ok(text + "\n")
}

pub fn to_yaml(value: &Value) -> Result<String, PlatformError> {
    serde_norway::to_string(value).map_err(|error| PlatformError::Print(error.to_string()))
}

/// Aligns columns, with three spaces between them and no trailing space.
pub fn align_columns(rows: &[Vec<String>]) -> String {
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
pub fn format_cell(item: &Value, place: &str, show: CellFormat, now: Timestamp) -> String {
    let value = item.pointer(place).unwrap_or(&Value::Null);
    let text = match (show, value) {
        (CellFormat::Age, Value::String(time)) => {
            time.parse().map_or_else(|_| escape_control(time), |time| format_age(time, now))
        }
        (CellFormat::EachItem(inner), Value::Array(items)) => items
            .iter()
            .map(|item| format_value(item.pointer(inner).unwrap_or(item)))
            .collect::<Vec<_>>()
            .join(","),
        (CellFormat::Pairs, Value::Object(pairs)) => pairs
            .iter()
            .map(|(key, value)| format!("{}={}", escape_control(key), format_value(value)))
            .collect::<Vec<_>>()
            .join(","),
        (_, value) => format_value(value),
    };
    if text.is_empty() { "-".to_owned() } else { text }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape_control(text),
        Value::Array(items) => items.iter().map(format_value).collect::<Vec<_>>().join(","),
        other => escape_control(&other.to_string()),
    }
}

/// Escapes control characters and bidirectional formatting characters.
pub fn escape_control(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Duration in kubectl's short form.
fn format_age(time: Timestamp, now: Timestamp) -> String {
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

    const WIDGETS: ResourcePrinter = ResourcePrinter {
        singular: "thing",
        plural: "things",
        name_pointer: "/name",
        columns: &[
            ("NAME", "/name", CellFormat::Text, false),
            ("ROLES", "/roles", CellFormat::Text, false),
            ("PARTS", "/parts", CellFormat::EachItem("/name"), false),
            ("QUOTA", "/quota", CellFormat::Pairs, true),
            ("AGE", "/created", CellFormat::Age, false),
        ],
    };

    fn fixed_now() -> Timestamp {
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
            let said = WIDGETS.print_list(&answer, OutputArgs { output }, fixed_now()).unwrap();
            assert_eq!(said.notes, [""; 0]);
            writeln!(picture, "{output:?}\n{}", said.stdout).unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn print_list_notes_empty_and_stale_results() {
        let table = OutputArgs::default();
        let json = OutputArgs { output: Some(Format::Json) };
        assert_eq!(
            WIDGETS.print_list(&json!({"items": []}), table, fixed_now()).unwrap(),
            CommandOutput::default().with_note("no things")
        );
        let old = json!({"items": [], "stale": 12});
        let said = WIDGETS.print_list(&old, json, fixed_now()).unwrap();
        assert!(said.stdout.contains("\"items\": []"));
        assert_eq!(said.notes, ["this list is 12 s old: the platform cannot reach the cluster"]);
        assert_eq!(
            WIDGETS.print_result(&json!({"name": "x"}), "created", table, fixed_now()).unwrap().stdout,
            "thing/x created\n"
        );
    }

    #[test]
    fn escape_control_neutralizes_terminal_sequences() {
        let item = json!({"name": "a\u{1b}[2Jb\nc\u{202e}d", "roles": ["x\ry"]});
        let table = WIDGETS.print_object(&item, OutputArgs::default(), fixed_now()).unwrap().stdout;
        assert!(table.contains(r"a\u{1b}[2Jb\nc\u{202e}d   x\ry"), "{table}");
        let name = WIDGETS
            .print_object(&item, OutputArgs { output: Some(Format::Name) }, fixed_now())
            .unwrap()
            .stdout;
        assert_eq!(name.lines().count(), 1);
    }

    #[test]
    fn format_age_matches_kubectl() {
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
            assert_eq!(
                format_age(fixed_now() - jiff::SignedDuration::from_secs(seconds), fixed_now()),
                expected,
                "{seconds}"
            );
        }
    }
}
