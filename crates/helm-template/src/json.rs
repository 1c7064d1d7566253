//! JSON as Go's `encoding/json` reads and writes it.

use crate::data::Data;
use crate::value::Str;

/// How JSON is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `toJson`: on one line, `<`, `>` and `&` escaped.
    Plain,
    /// `toPrettyJson`: indented by two.
    Pretty,
    /// `toRawJson`: on one line, nothing escaped for HTML.
    Raw,
}

pub fn write(data: &Data, style: Style) -> String {
    todo!("{data:?} {style:?}")
}

/// Reads one JSON text. Errors are Go's.
pub fn parse(text: &str) -> Result<Data, Str> {
    todo!("{text}")
}
