//! YAML as Helm reads and writes it.
//!
//! Reading is libyaml's grammar ([`events`]) and go-yaml v2's idea of what a plain scalar means, brought to JSON's types
//! as `sigs.k8s.io/yaml` does ([`parse`]). Helm 3 and Helm 4 read alike: their copies of go-yaml are the same. Writing
//! is go-yaml v2's style ([`write`]), and v3's for `toYamlPretty` ([`write_pretty`]).
//!
//! The way of a text: `source` (bytes to characters), `scan` (to tokens), [`events`] (to events), `tape` (to nodes),
//! `decode` with `resolve` (to data).

mod alias;
mod decode;
mod documents;
mod emit;
pub mod events;
mod events_flow;
mod go_syntax;
mod head;
mod pretty;
mod problem;
mod resolve;
mod scan;
mod scan_key;
mod scan_scalar;
mod scan_tag;
mod scan_text;
mod shape;
mod source;
mod tape;
mod timestamp;
mod write;

use crate::data::{Data, Members};
use crate::value::Str;

pub use documents::{Documents, documents};
pub use head::{Head, head};
pub use pretty::write_pretty;
pub use problem::Problem;
pub use shape::Shape;
pub use source::Source;
pub use tape::MAX_DEPTH;
pub use write::{write, write_value};

/// The first document of a text, in JSON's types: all numbers are floats, keys are strings. An empty text is null.
/// Errors are worded as `sigs.k8s.io/yaml` words them: `error converting YAML to JSON: yaml: line 3: ...`.
pub fn parse(text: &[u8]) -> Result<Data, Str> {
    parse_as(text, &Shape::Any)
}

/// As [`parse`], for a reader that wants text in some places.
pub fn parse_as(text: &[u8], shape: &Shape) -> Result<Data, Str> {
    read(text, shape, false)
}

/// As [`parse_as`], where a key that stands twice in a map is an error.
pub fn parse_strict(text: &[u8], shape: &Shape) -> Result<Data, Str> {
    read(text, shape, true)
}

/// As [`parse`], for a reader that wants a map and whose Go type has this name. An empty text is an empty map.
pub fn parse_map(text: &[u8], go_type: &str) -> Result<Members, Str> {
    match parse(text)? {
        Data::Map(members) => Ok(members),
        Data::Null => Ok(Members::new()),
        other => Err(mismatch(&other, go_type)),
    }
}

/// As [`parse`], for a reader that wants a list and whose Go type has this name. An empty text is an empty list.
pub fn parse_list(text: &[u8], go_type: &str) -> Result<Vec<Data>, Str> {
    match parse(text)? {
        Data::List(items) => Ok(items),
        Data::Null => Ok(Vec::new()),
        other => Err(mismatch(&other, go_type)),
    }
}

fn read(text: &[u8], shape: &Shape, strict: bool) -> Result<Data, Str> {
    let source = Source::new(text);
    tape::Tape::read(&mut source.events())
        .and_then(|tape| decode::decode(&tape, shape, strict))
        .map_err(|problem| format!("error converting YAML to JSON: {problem}").into())
}

fn mismatch(data: &Data, go_type: &str) -> Str {
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type {go_type}",
        json_kind(data)
    )
    .into()
}

/// What Go's JSON calls it.
pub fn json_kind(data: &Data) -> &'static str {
    match data {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
        Data::Map(_) => "object",
    }
}

#[cfg(test)]
mod tests;
