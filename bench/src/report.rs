//! Results as a table and as JSON.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

/// Goal of a row.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// At least this many times less than the peer.
    Times(f64),
    /// At most this, independent of the peer.
    AtMost(f64),
    /// No goal.
    Unset,
}

/// Unit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Microseconds of server CPU for one request.
    #[serde(rename = "µs CPU")]
    CpuMicros,
    #[serde(rename = "µs")]
    Micros,
    #[serde(rename = "ms")]
    Millis,
    #[serde(rename = "MiB")]
    Mebibytes,
    #[serde(rename = "kB")]
    Kilobytes,
    #[serde(rename = "%")]
    Percent,
    /// A count of the row's subject.
    #[serde(rename = "")]
    Count,
}

/// Result of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub value: f64,
    /// Microseconds per request as measured by the clients.
    pub wall: Option<f64>,
}

/// Result of one side: the median of its turns.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub median: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_micros: Option<f64>,
    pub turns: Vec<f64>,
}

impl Figures {
    /// `None` without turns.
    pub fn from_samples(samples: &[Sample]) -> Option<Self> {
        let turns: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let walls: Vec<f64> = samples.iter().filter_map(|sample| sample.wall).collect();
        Some(Self { median: median(&turns)?, wall_micros: median(&walls), turns })
    }
}

/// A row of the table with results.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    pub description: &'static str,
    pub unit: Unit,
    pub goal: Goal,
    pub ours: Figures,
    pub peer: Option<Figures>,
    /// A second peer, for which there is no goal.
    pub second_peer: Option<Figures>,
}

/// Results of the requested rows.
pub struct Measured {
    pub lines: Vec<Line>,
    /// Rows that failed, with the error. The other rows are still reported.
    pub failures: Vec<String>,
}

/// A column: title and cell text.
pub type Column = (&'static str, fn(&Line) -> String);

impl Line {
    /// How many times less Longshore needs than the peer.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|peer| peer.median / self.ours.median)
    }

    /// `None` without a goal, or without the peer that it refers to.
    pub fn is_met(&self) -> Option<bool> {
        match self.goal {
            Goal::Times(times) => self.ratio().map(|ratio| ratio >= times),
            Goal::AtMost(limit) => Some(self.ours.median <= limit),
            Goal::Unset => None,
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "work": self.description, "unit": self.unit,
            "ours": self.ours, "peer": self.peer, "other": self.second_peer,
            "ratio": self.ratio(), "goal": goal(self), "result": result(self),
        })
    }
}

pub fn description(line: &Line) -> String {
    line.description.to_owned()
}

pub fn ours(line: &Line) -> String {
    format_quantity(line.ours.median, line.unit)
}

pub fn peer(line: &Line) -> String {
    line.peer
        .as_ref()
        .map_or_else(|| "not measured".to_owned(), |peer| format_quantity(peer.median, line.unit))
}

pub fn second_peer(line: &Line) -> String {
    line.second_peer.as_ref().map_or_else(String::new, |other| format_quantity(other.median, line.unit))
}

pub fn ratio(line: &Line) -> String {
    line.ratio().map_or_else(String::new, |ratio| format!("{ratio:.1} ×"))
}

pub fn goal(line: &Line) -> String {
    match line.goal {
        Goal::Times(times) => format!("≥ {times} ×"),
        Goal::AtMost(limit) => format!("≤ {}", format_quantity(limit, line.unit)),
        Goal::Unset => String::new(),
    }
}

pub fn result(line: &Line) -> String {
    let result = match (line.is_met(), line.goal) {
        (Some(true), _) => "met",
        (Some(false), _) => "short",
        (None, Goal::Unset) => "",
        (None, _) => "no peer",
    };
    result.to_owned()
}

pub fn wall_ours(line: &Line) -> String {
    wall(Some(&line.ours))
}

pub fn wall_peer(line: &Line) -> String {
    wall(line.peer.as_ref())
}

fn wall(figures: Option<&Figures>) -> String {
    figures.and_then(|figures| figures.wall_micros).map_or_else(String::new, format_duration)
}

/// Prints the table and writes the JSON file. Fails if rows could not be measured.
pub fn publish(
    name: &str,
    measured: &Measured,
    columns: &[Column],
    rounds: usize,
    output: &Path,
) -> Result<()> {
    let Measured { lines, failures: failed } = measured;
    let machine = machine()?;
    println!("\n{machine}; {rounds} rounds, medians\n\n{}", table(lines, columns));
    let rows: Vec<_> = lines.iter().map(Line::json).collect();
    let document = json!({"benchmark": name, "machine": machine, "rounds": rounds, "rows": rows});
    fs::write(output, serde_json::to_vec_pretty(&document)?)
        .with_context(|| format!("cannot write {}", output.display()))?;
    ensure!(failed.is_empty(), "not measured:\n{}", failed.join("\n"));
    Ok(())
}

fn machine() -> Result<String> {
    let cores = thread::available_parallelism()?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kilobytes =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("cannot read the size of the memory")?.trim().parse()?;
    Ok(format!("{cores} cores, {:.0} GiB of memory", kilobytes / f64::from(1 << 20)))
}

/// The table as Markdown, aligned for a terminal.
fn table(lines: &[Line], columns: &[Column]) -> String {
    let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let cells = lines.iter().map(|line| columns.iter().map(|(_, cell)| cell(line)).collect());
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(cells).collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(text, "| {} |", cells.join(" | ")).expect("writing to a String cannot fail");
        if at == 0 {
            let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
            writeln!(text, "|-{}-|", rule.join("-|-")).expect("writing to a String cannot fail");
        }
    }
    text
}

fn format_quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::CpuMicros => format!("{} CPU", format_duration(value)),
        Unit::Micros => format_duration(value),
        Unit::Millis => format_duration(value * 1000.0),
        Unit::Mebibytes => format!("{value:.0} MiB"),
        Unit::Kilobytes => format!("{value:.0} kB"),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Count => format!("{value:.0}"),
    }
}

fn format_duration(micros: f64) -> String {
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        ..10_000.0 => format!("{:.1} ms", micros / 1000.0),
        ..1_000_000.0 => format!("{:.0} ms", micros / 1000.0),
        _ => format!("{:.1} s", micros / 1_000_000.0),
    }
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[f64]) -> Option<Figures> {
        let samples: Vec<_> = values.iter().map(|&value| Sample { value, wall: Some(2.0 * value) }).collect();
        Figures::from_samples(&samples)
    }

    fn line(ours: &[f64], peer: &[f64], unit: Unit, goal: Goal) -> Line {
        let (ours, peer) = (figures(ours).unwrap(), figures(peer));
        Line { name: "row", description: "some work", unit, goal, ours, peer, second_peer: None }
    }

    #[test]
    fn median_is_middle_value() {
        assert_eq!(median(&[3.0, 1.0, 200.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 200.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn line_reports_result_against_goal() {
        let lines = [
            line(&[50.0], &[400.0], Unit::CpuMicros, Goal::Times(8.0)),
            line(&[50.0], &[399.0], Unit::CpuMicros, Goal::Times(8.0)),
            line(&[120.0], &[3500.0], Unit::Millis, Goal::AtMost(150.0)),
            line(&[60.5], &[], Unit::Mebibytes, Goal::Times(8.0)),
            line(&[60.5], &[121.0], Unit::Mebibytes, Goal::Unset),
        ];
        let columns: &[Column] = &[
            ("work", description),
            ("ours", ours),
            ("peer", peer),
            ("ratio", ratio),
            ("goal", goal),
            ("result", result),
            ("wall, ours", wall_ours),
            ("wall, peer", wall_peer),
        ];
        let table = table(&lines, columns);
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows: Vec<_> = table.lines().skip(2).map(cells).collect();
        assert_eq!(
            rows[0][1..9],
            ["some work", "50 µs CPU", "400 µs CPU", "8.0 ×", "≥ 8 ×", "met", "100 µs", "800 µs"]
        );
        assert_eq!(rows[1][6], "short");
        assert_eq!(rows[2][2..7], ["120 ms", "3.5 s", "29.2 ×", "≤ 150 ms", "met"]);
        assert_eq!(rows[3][2..7], ["60 MiB", "not measured", "", "≥ 8 ×", "no peer"]);
        assert_eq!(rows[4][2..7], ["60 MiB", "121 MiB", "2.0 ×", "", ""]);
    }
}
