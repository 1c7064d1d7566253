//! Lists in Helm's formats: tables with padded, tab-separated columns, JSON, YAML.

use clap::ValueEnum;
use helm_template::{json, yaml};
use serde::Serialize;

/// Output format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Table,
    Json,
    Yaml,
}

/// Rows as JSON or YAML in Go's format.
pub fn encode_rows(rows: &[impl Serialize], form: Form) -> Result<Vec<u8>, String> {
    let text = serde_json::to_string(rows).map_err(|error| error.to_string())?;
    if form == Form::Yaml {
        let data = json::parse(&text).map_err(|why| why.to_string())?;
        return Ok(yaml::write(&data).map_err(|error| error.to_string())?.into_bytes());
    }
    let escaped = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    Ok((escaped + "\n").into_bytes())
}

/// Rows as a table. Cells longer than `max_width` are truncated with an ellipsis.
pub fn render_table<const COLUMNS: usize>(rows: &[[String; COLUMNS]], max_width: usize) -> String {
    let length = |cell: &String| cell.chars().count();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let widest = rows.iter().map(|row| length(&row[column])).max().unwrap_or_default();
        if max_width == 0 { widest } else { widest.min(max_width) }
    });
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            if length(cell) <= width {
                return format!("{cell:width$}");
            }
            let kept: String = cell.chars().take(width.saturating_sub(3).max(1)).collect();
            format!("{kept}...")
        });
        text.push_str(&cells.collect::<Vec<_>>().join("\t"));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_table_pads_and_truncates_cells() {
        let rows = [["a".to_owned(), "b".to_owned()], ["abcdefgh".to_owned(), "c".to_owned()]];
        assert_eq!(render_table(&rows, 80), "a       \tb\nabcdefgh\tc\n");
        assert_eq!(render_table(&rows, 6), "a     \tb\nabc...\tc\n");
    }
}
