//! YAML with the semantics of Helm.
//!
//! Decoding uses libyaml's grammar ([`events`]) and go-yaml v2's resolution of plain scalars, converted to JSON types as
//! `sigs.k8s.io/yaml` does ([`parse`]). Helm 3 and Helm 4 decode identically: their copies of go-yaml are the same. Encoding uses the
//! style of go-yaml v2 ([`write`]), or of v3 for `toYamlPretty` ([`write_pretty`]).
//!
//! Decoding stages: `source` (bytes to characters), `scan` (to tokens), [`events`] (to events), `tape` (to nodes), `decode` with
//! `resolve` (to data).

mod alias;
mod decode;
mod documents;
mod emit;
pub mod events;
mod events_flow;
mod go_syntax;
mod header;
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
pub use header::{ManifestHeader, read_header};
pub use pretty::write_pretty;
pub use problem::YamlSyntaxError;
pub use shape::Shape;
pub use source::YamlSource;
pub use tape::MAX_DEPTH;
pub use write::{write, write_value};

/// Decodes the first document of a text into JSON types: all numbers are floats, all keys strings. An empty text is null. Errors
/// have the message of `sigs.k8s.io/yaml`: `error converting YAML to JSON: yaml: line 3: ...`.
pub fn parse(text: &[u8]) -> Result<Data, Str> {
    parse_as(text, &Shape::Any)
}

/// Like [`parse`], with text required in some places.
pub fn parse_as(text: &[u8], shape: &Shape) -> Result<Data, Str> {
    read(text, shape, false)
}

/// Like [`parse_as`], with duplicate keys in a map as an error.
pub fn parse_strict(text: &[u8], shape: &Shape) -> Result<Data, Str> {
    read(text, shape, true)
}

/// Like [`parse`], for a map; `go_type` names the target type in errors. An empty text is an empty map.
pub fn parse_map(text: &[u8], go_type: &str) -> Result<Members, Str> {
    match parse(text)? {
        Data::Map(members) => Ok(members),
        Data::Null => Ok(Members::new()),
        other => Err(mismatch(&other, go_type)),
    }
}

/// Like [`parse`], for a list; `go_type` names the target type in errors. An empty text is an empty list.
pub fn parse_list(text: &[u8], go_type: &str) -> Result<Vec<Data>, Str> {
    match parse(text)? {
        Data::List(items) => Ok(items),
        Data::Null => Ok(Vec::new()),
        other => Err(mismatch(&other, go_type)),
    }
}

fn read(text: &[u8], shape: &Shape, strict: bool) -> Result<Data, Str> {
    let source = YamlSource::new(text);
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

/// The name of the JSON type, as in Go's error messages.
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
