//! Conversion of nodes to data in JSON types, as in `sigs.k8s.io/yaml`.

use std::sync::Arc;

use foldhash::{HashSet, HashSetExt};

use super::alias::{self, AliasLimitError};
use super::go_syntax;
use super::resolve::{self, ResolvedScalar, TAG_PREFIX};
use super::shape::Shape;
use super::tape::{Content, MAX_DEPTH, TOO_DEEP, Tape};
use crate::data::{Data, Members};
use crate::go::{FloatFormat, base64_decode, format_float};
use crate::stack;
use crate::value::Str;

/// Decoder of one document.
pub(super) struct YamlDecoder<'t, 'a> {
    tape: &'t Tape<'a>,
    strict: bool,
    alias_error: Option<AliasLimitError>,
    depth: usize,
    /// Duplicate keys, for strict decoding. The document is decoded to its end before they are reported.
    duplicate_keys: Vec<String>,
    /// Whether a key without a JSON form was found. It is an error only if its map is still in the result.
    has_unsupported_key: bool,
    has_infinite: bool,
}

/// A map while it is decoded, including merged maps.
struct PartialMap<'s> {
    shape: Option<&'s Shape>,
    members: Members,
    /// Keys set so far, distinguished as in go-yaml: `1` is not `"1"`. Used only for strict decoding.
    keys: HashSet<(bool, Str)>,
}

pub(super) fn decode(tape: &Tape<'_>, shape: &Shape, strict: bool) -> Result<Data, Str> {
    let refusal = alias::check_aliases(tape);
    let mut decoder = YamlDecoder {
        tape,
        strict,
        alias_error: refusal,
        depth: 0,
        duplicate_keys: Vec::new(),
        has_unsupported_key: false,
        has_infinite: false,
    };
    let data = if tape.nodes.is_empty() { Data::Null } else { decoder.value(0, Some(shape))? };
    if !decoder.duplicate_keys.is_empty() {
        return Err(format!("yaml: unmarshal errors:\n  {}", decoder.duplicate_keys.join("\n  ")).into());
    }
    if decoder.has_unsupported_key
        && let Some(problem) = go_syntax::unsupported_key(tape)
    {
        return Err(problem.into());
    }
    if decoder.has_infinite
        && let Some(number) = infinite(&data)
    {
        let number = format_float(number, FloatFormat::General, None);
        return Err(format!("json: unsupported value: {number}").into());
    }
    Ok(data)
}

/// The first number that JSON cannot represent, in Go's encoding order.
fn infinite(data: &Data) -> Option<f64> {
    match data {
        Data::Float(n) if !n.is_finite() => Some(*n),
        Data::List(items) => items.iter().find_map(infinite),
        Data::Map(members) => members.values().find_map(infinite),
        _ => None,
    }
}

impl YamlDecoder<'_, '_> {
    fn value(&mut self, at: usize, shape: Option<&Shape>) -> Result<Data, Str> {
        let Some(node) = self.tape.nodes.get(at) else { return Ok(Data::Null) };
        match &node.content {
            Content::Scalar { text, implicit, tag } => {
                self.check_alias(at)?;
                let (meaning, text) = scalar(text, *implicit, tag.as_deref())?;
                Ok(self.scalar_data(meaning, &text, shape))
            }
            Content::Alias { target, .. } => {
                self.check_alias(at)?;
                self.deeper(node.line, |decoder| decoder.value(*target, shape))
            }
            Content::Sequence => self.deeper(node.line, |decoder| {
                let shape = shape.and_then(Shape::item);
                let items = decoder.tape.children(at).map(|child| decoder.value(child, shape));
                Ok(Data::List(items.collect::<Result<_, _>>()?))
            }),
            Content::Mapping => self.deeper(node.line, |decoder| {
                let mut map = PartialMap { shape, members: Members::new(), keys: HashSet::new() };
                decoder.members(at, &mut map)?;
                Ok(Data::Map(map.members))
            }),
        }
    }

    fn deeper<T>(&mut self, line: usize, read: impl FnOnce(&mut Self) -> Result<T, Str>) -> Result<T, Str> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("yaml: line {}: {TOO_DEEP}", line + 1).into());
        }
        let read = stack::grow_for_value(|| read(self));
        self.depth -= 1;
        read
    }

    fn check_alias(&self, at: usize) -> Result<(), Str> {
        match &self.alias_error {
            Some(refusal) if refusal.at == at => Err(refusal.text.as_str().into()),
            _ => Ok(()),
        }
    }

    fn scalar_data(&mut self, meaning: ResolvedScalar, text: &Str, shape: Option<&Shape>) -> Data {
        if shape == Some(&Shape::Text) {
            return coerce_to_string(meaning, text).map_or(Data::Null, Data::String);
        }
        #[expect(clippy::cast_precision_loss, reason = "JSON's numbers are floats")]
        let number = match meaning {
            ResolvedScalar::Null => return Data::Null,
            ResolvedScalar::Text => return Data::String(text.clone()),
            ResolvedScalar::Bool(truth) => return Data::Bool(truth),
            ResolvedScalar::Int(n) => n as f64,
            ResolvedScalar::Uint(n) => n as f64,
            ResolvedScalar::Float(n) => n,
        };
        self.has_infinite |= !number.is_finite();
        Data::Float(number)
    }

    fn members(&mut self, at: usize, map: &mut PartialMap<'_>) -> Result<(), Str> {
        let mut children = self.tape.children(at);
        while let (Some(key_at), Some(value_at)) = (children.next(), children.next()) {
            if self.tape.is_merge(key_at) {
                self.merge(value_at, map)?;
                continue;
            }
            let (meaning, text) = self.key(key_at)?;
            let key = match meaning {
                ResolvedScalar::Text => text,
                ResolvedScalar::Int(n) => n.to_string().into(),
                ResolvedScalar::Float(n) => match short(n) {
                    // Includes numbers too large for 32 bits.
                    text if text == "+Inf" => ".inf".into(),
                    text if text == "-Inf" => "-.inf".into(),
                    text if text == "NaN" => ".nan".into(),
                    text => text.into(),
                },
                ResolvedScalar::Bool(truth) => if truth { "true" } else { "false" }.into(),
                ResolvedScalar::Null | ResolvedScalar::Uint(_) => "".into(),
            };
            let value = self.value(value_at, map.shape.and_then(|shape| shape.member(&key)))?;
            // NaN does not equal itself.
            let comparable = !matches!(meaning, ResolvedScalar::Float(n) if n.is_nan());
            if self.strict && comparable && !map.keys.insert(key_identity(meaning, &key)) {
                let line = self.tape.nodes.get(value_at).map_or(0, |node| node.line) + 1;
                let key = go_syntax::key(meaning, &key);
                self.duplicate_keys.push(format!("line {line}: key {key} already set in map"));
            } else if matches!(meaning, ResolvedScalar::Null | ResolvedScalar::Uint(_)) {
                self.has_unsupported_key = true;
            } else {
                map.members.insert(key, value);
            }
        }
        Ok(())
    }

    fn key(&mut self, at: usize) -> Result<(ResolvedScalar, Str), Str> {
        let Some(node) = self.tape.nodes.get(at) else { return Ok((ResolvedScalar::Null, "".into())) };
        match &node.content {
            Content::Scalar { text, implicit, tag } => {
                self.check_alias(at)?;
                scalar(text, *implicit, tag.as_deref())
            }
            Content::Alias { target, .. } => {
                self.check_alias(at)?;
                self.deeper(node.line, |decoder| decoder.key(*target))
            }
            Content::Sequence | Content::Mapping => {
                self.value(at, None)?;
                Err(format!("yaml: invalid map key: {}", go_syntax::write(self.tape, at)).into())
            }
        }
    }

    fn merge(&mut self, at: usize, map: &mut PartialMap<'_>) -> Result<(), Str> {
        match self.tape.nodes.get(at).map(|node| &node.content) {
            Some(Content::Sequence) => {
                let sources: Vec<_> = self.tape.children(at).collect();
                // The first source has the highest precedence, so it is merged last.
                sources.into_iter().rev().try_for_each(|source| self.merge_one(source, map))
            }
            _ => self.merge_one(at, map),
        }
    }

    fn merge_one(&mut self, at: usize, map: &mut PartialMap<'_>) -> Result<(), Str> {
        let Some(node) = self.tape.nodes.get(at) else { return Ok(()) };
        let source = match &node.content {
            Content::Mapping => at,
            Content::Alias { target, .. } if self.tape.is_mapping(*target) => {
                self.check_alias(at)?;
                *target
            }
            _ => return Err("yaml: map merge requires map or sequence of maps as the value".into()),
        };
        self.deeper(node.line, |decoder| decoder.members(source, map))
    }
}

impl Tape<'_> {
    /// Whether the key is the merge key `<<`.
    pub(super) fn is_merge(&self, at: usize) -> bool {
        match self.nodes.get(at).map(|node| &node.content) {
            Some(Content::Scalar { text, implicit, tag }) => {
                text == "<<"
                    && (*implicit
                        || tag
                            .as_deref()
                            .and_then(|tag| tag.strip_prefix(TAG_PREFIX))
                            .is_some_and(|tag| tag == "merge"))
            }
            _ => false,
        }
    }

    fn is_mapping(&self, at: usize) -> bool {
        matches!(self.nodes.get(at).map(|node| &node.content), Some(Content::Mapping))
    }
}

/// The resolved meaning of a scalar, and its text if it is a string.
pub(super) fn scalar(text: &str, implicit: bool, tag: Option<&str>) -> Result<(ResolvedScalar, Str), Str> {
    let meaning = match tag {
        None if implicit => resolve::plain(text),
        None => ResolvedScalar::Text,
        Some(tag) if tag.strip_prefix(TAG_PREFIX) == Some("binary") => {
            return match base64_decode(text.as_bytes()) {
                Ok(bytes) => Ok((ResolvedScalar::Text, lossy(&bytes))),
                Err(_) => Err("yaml: !!binary value contains invalid base64 data".into()),
            };
        }
        Some(tag) => resolve::tagged(tag, text)?,
    };
    Ok((meaning, if meaning == ResolvedScalar::Text { Arc::from(text) } else { Arc::from("") }))
}

/// The text of a scalar where a string is required.
pub(super) fn coerce_to_string(meaning: ResolvedScalar, text: &Str) -> Option<Str> {
    Some(match meaning {
        ResolvedScalar::Null => return None,
        ResolvedScalar::Text => text.clone(),
        ResolvedScalar::Bool(truth) => if truth { "true" } else { "false" }.into(),
        ResolvedScalar::Int(n) => n.to_string().into(),
        ResolvedScalar::Uint(n) => n.to_string().into(),
        ResolvedScalar::Float(n) => short(n).into(),
    })
}

/// The identity of a key for duplicate detection: whether it is a string, and its text.
fn key_identity(meaning: ResolvedScalar, key: &Str) -> (bool, Str) {
    match meaning {
        ResolvedScalar::Text => (true, key.clone()),
        other => (false, go_syntax::key(other, key).into()),
    }
}

/// Converts bytes to text as Go's JSON encoder does: one U+FFFD per invalid byte.
fn lossy(bytes: &[u8]) -> Str {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| text.push(char::REPLACEMENT_CHARACTER));
    }
    text.into()
}

/// Formats a float with no more digits than a 32-bit float needs.
fn short(n: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "that is the point")]
    let short = n as f32;
    // Parsing the shortest form of the 32-bit float yields its digits.
    let digits = format!("{short:e}").parse().unwrap_or(n);
    format_float(digits, FloatFormat::General, None)
}
