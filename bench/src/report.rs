//! What was measured, as a table for people and as JSON for programs.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

/// What counts as good enough.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// So many times less than the peer.
    Times(f64),
    /// No more than this, whatever the peer needs.
    AtMost(f64),
}

/// What the figures of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Microseconds of server CPU for one request.
    #[serde(rename = "µs CPU")]
    CpuMicros,
    #[serde(rename = "ms")]
    Millis,
    #[serde(rename = "MiB")]
    Mebibytes,
    #[serde(rename = "%")]
    Percent,
}

/// One turn on one server.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub value: f64,
    /// Microseconds for one request as the clients saw it, all of them together.
    pub wall: Option<f64>,
}

/// The figures of one server: the medians of its turns.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub median: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_micros: Option<f64>,
    pub turns: Vec<f64>,
}

impl Figures {
    /// `None` without any turn.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let turns: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let walls: Vec<f64> = samples.iter().filter_map(|sample| sample.wall).collect();
        Some(Self { median: median(&turns)?, wall_micros: median(&walls), turns })
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    pub work: &'static str,
    pub unit: Unit,
    pub goal: Goal,
    pub ours: Figures,
    pub peer: Option<Figures>,
}

impl Line {
    /// How many times less ours is.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|peer| peer.median / self.ours.median)
    }

    /// `None` where the goal is about a peer that was not measured.
    pub fn met(&self) -> Option<bool> {
        match self.goal {
            Goal::Times(times) => self.ratio().map(|ratio| ratio >= times),
            Goal::AtMost(limit) => Some(self.ours.median <= limit),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.met() {
            Some(true) => "met",
            Some(false) => "short",
            None => "no peer",
        }
    }

    fn goal(&self) -> String {
        match self.goal {
            Goal::Times(times) => format!("≥ {times} ×"),
            Goal::AtMost(limit) => format!("≤ {}", quantity(limit, self.unit)),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "work": self.work, "unit": self.unit, "ours": self.ours, "peer": self.peer,
            "ratio": self.ratio(), "goal": self.goal(), "result": self.verdict(),
        })
    }
}

/// The table, as Markdown that also reads well in a terminal.
pub fn table(lines: &[Line]) -> String {
    let head =
        ["work", "ours", "peer", "ratio", "goal", "result", "wall, ours", "wall, peer"].map(str::to_owned);
    let wall = |figures: Option<&Figures>| {
        figures.and_then(|figures| figures.wall_micros).map_or_else(String::new, duration)
    };
    let rows = lines.iter().map(|line| {
        let peer = line.peer.as_ref();
        [
            line.work.to_owned(),
            quantity(line.ours.median, line.unit),
            peer.map_or_else(|| "not measured".to_owned(), |peer| quantity(peer.median, line.unit)),
            line.ratio().map_or_else(String::new, |ratio| format!("{ratio:.1} ×")),
            line.goal(),
            line.verdict().to_owned(),
            wall(Some(&line.ours)),
            wall(peer),
        ]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..rows[0].len())
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

pub fn document(lines: &[Line], machine: &str, rounds: usize) -> Value {
    let rows: Vec<_> = lines.iter().map(Line::json).collect();
    json!({"benchmark": "kube", "machine": machine, "rounds": rounds, "rows": rows})
}

fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::CpuMicros => format!("{} CPU", duration(value)),
        Unit::Millis => duration(value * 1000.0),
        Unit::Mebibytes => format!("{value:.0} MiB"),
        Unit::Percent => format!("{value:.1} %"),
    }
}

fn duration(micros: f64) -> String {
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        ..10_000.0 => format!("{:.1} ms", micros / 1000.0),
        ..1_000_000.0 => format!("{:.0} ms", micros / 1000.0),
        _ => format!("{:.1} s", micros / 1_000_000.0),
    }
}

fn median(values: &[f64]) -> Option<f64> {
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
        Figures::of(&samples)
    }

    fn line(ours: &[f64], peer: &[f64], unit: Unit, goal: Goal) -> Line {
        Line { name: "row", work: "some work", unit, goal, ours: figures(ours).unwrap(), peer: figures(peer) }
    }

    #[test]
    fn the_median_is_the_middle_turn() {
        assert_eq!(median(&[3.0, 1.0, 200.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 200.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_line_says_how_it_stands_to_its_goal() {
        let lines = [
            line(&[50.0], &[400.0], Unit::CpuMicros, Goal::Times(8.0)),
            line(&[50.0], &[399.0], Unit::CpuMicros, Goal::Times(8.0)),
            line(&[120.0], &[3500.0], Unit::Millis, Goal::AtMost(150.0)),
            line(&[60.5], &[], Unit::Mebibytes, Goal::Times(8.0)),
        ];
        let table = table(&lines);
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows: Vec<_> = table.lines().skip(2).map(cells).collect();
        assert_eq!(
            rows[0][1..9],
            ["some work", "50 µs CPU", "400 µs CPU", "8.0 ×", "≥ 8 ×", "met", "100 µs", "800 µs"]
        );
        assert_eq!(rows[1][6], "short");
        assert_eq!(rows[2][2..7], ["120 ms", "3.5 s", "29.2 ×", "≤ 150 ms", "met"]);
        assert_eq!(rows[3][2..7], ["60 MiB", "not measured", "", "≥ 8 ×", "no peer"]);
    }
}
