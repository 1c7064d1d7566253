//! `toYaml`: encoding in the style of go-yaml v2, with the effects of a round trip through JSON.
//!
//! Helm encodes a value as JSON, decodes that as YAML, and encodes the result. The round trip is observable: numbers are what YAML
//! makes of their JSON form, and characters that JSON does not escape but YAML does not accept in quotes are rejected or folded.
//! This module produces the same result without the round trip.

use std::borrow::Cow;
use std::fmt::Write;

use super::emit::{Dialect, Emitter, LeafEncoder};
use crate::data::Data;
use crate::go::{FloatFormat, format_float, lossy_text};
use crate::nesting::EncodeError;
use crate::value::Value;

/// Encodes as `toYaml` does, with a trailing newline. Values that cannot be encoded fail with the message of `sigs.k8s.io/yaml`.
pub fn write_value(value: &Value) -> Result<String, EncodeError> {
    Emitter::new(JsonRoundTripEncoder).document(value)
}

/// Like [`write_value`].
pub fn write(data: &Data) -> Result<String, EncodeError> {
    write_value(&Value::from(data))
}

/// Maximum length of a JSON key that the YAML decoder accepts, in characters including quotes and escapes.
const MAX_KEY_LEN: usize = 1024;

/// Leaf conversion of `toYaml`, with the effects of JSON.
struct JsonRoundTripEncoder;

impl LeafEncoder for JsonRoundTripEncoder {
    const DIALECT: Dialect = Dialect::V2;

    fn number(&self, out: &mut String, number: f64) {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        // JSON writes integers without an exponent up to here, and YAML decodes them as integers up to 64 bits.
        const UNSIGNED: f64 = 18_446_744_073_709_551_616.0;
        const SIGNED: f64 = 9_223_372_036_854_775_808.0;
        // Writing to a String cannot fail.
        if number.fract() == 0.0 && number.abs() < EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and less than 2^53")]
            let _ = write!(out, "{}", number as i64);
        } else if number.fract() == 0.0 && (-SIGNED..UNSIGNED).contains(&number) && fits_64_bits(number) {
            out.push_str(&format_float(number, FloatFormat::Fixed, None));
        } else {
            out.push_str(&format_float(number, FloatFormat::General, None));
        }
    }

    fn to_plain(&self, value: &Value) -> Result<Value, EncodeError> {
        match value {
            Value::Object(object) => object.data().map(|data| Value::from(&data)),
            Value::Raw(bytes) => Ok(Value::String(lossy_text(bytes).into())),
            value => Data::try_from(value).map(|data| Value::from(&data)),
        }
        .map_err(|why| EncodeError::Unsupported(format!("error marshaling into JSON: {why}").into()))
    }

    fn text<'t>(&self, text: &'t str, is_key: bool) -> Result<Cow<'t, str>, EncodeError> {
        if is_key && text.len() > MAX_KEY_LEN / 6 - 2 && crate::json::length(text) > MAX_KEY_LEN {
            return Err(unsupported("did not find expected ',' or '}'"));
        }
        // All characters checked below start with one of these bytes.
        if memchr::memchr3(0x7F, 0xC2, 0xEF, text.as_bytes()).is_none() {
            return Ok(Cow::Borrowed(text));
        }
        if text.contains(|c| matches!(c, '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}') && c != NEXT_LINE) {
            return Err(unsupported("control characters are not allowed"));
        }
        if !text.contains(NEXT_LINE) {
            return Ok(Cow::Borrowed(text));
        }
        if is_key {
            return Err(unsupported("did not find expected ',' or '}'"));
        }
        fold(text).map(Cow::Owned)
    }
}

/// Whether the formatted digits fit 64 bits. They can exceed the number: 2^64 is formatted as 18446744073709552000.
fn fits_64_bits(number: f64) -> bool {
    let digits = format_float(number, FloatFormat::Fixed, None);
    digits.parse::<i64>().is_ok() || digits.parse::<u64>().is_ok()
}

fn unsupported(why: &str) -> EncodeError {
    EncodeError::Unsupported(format!("yaml: {why}").into())
}

/// A line break in YAML, but not in JSON.
const NEXT_LINE: char = '\u{85}';

/// Folds line breaks within quotes: a single one becomes a space, of several all but the first are kept; adjacent spaces are removed.
fn fold(text: &str) -> Result<String, EncodeError> {
    let mut folded = String::with_capacity(text.len());
    let mut lines = text.split(NEXT_LINE).enumerate().peekable();
    let mut breaks = 0;
    while let Some((at, line)) = lines.next() {
        if at > 0 {
            breaks += 1;
            let marker = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
            if marker.is_some_and(|rest| is_terminated(rest, lines.peek().is_some())) {
                return Err(unsupported("found unexpected document indicator"));
            }
        }
        let line = if at > 0 { line.trim_start_matches(' ') } else { line };
        let line = if lines.peek().is_some() { line.trim_end_matches(' ') } else { line };
        if line.is_empty() && lines.peek().is_some() && at > 0 {
            continue;
        }
        match breaks {
            0 => {}
            1 => folded.push(' '),
            several => (1..several).for_each(|_| folded.push('\n')),
        }
        breaks = 0;
        folded.push_str(line);
    }
    Ok(folded)
}

/// Whether a document indicator is terminated. A tab would be escaped here, and a quote would end the text.
fn is_terminated(rest: &str, by_a_break: bool) -> bool {
    rest.starts_with(' ') || (rest.is_empty() && by_a_break)
}
