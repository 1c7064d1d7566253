//! `toYamlPretty`: values encoded by go-yaml v3, without conversion through JSON.

use std::borrow::Cow;

use super::emit::{Dialect, Emitter, LeafEncoder};
use crate::data::Data;
use crate::go::{FloatFormat, format_float, print};
use crate::nesting::EncodeError;
use crate::value::time::as_duration;
use crate::value::{Kind, List, Map, Value};

/// Encodes as `toYamlPretty` does, with a trailing newline.
pub fn write_pretty(value: &Value) -> Result<String, EncodeError> {
    Emitter::new(PrettyEncoder).document(value)
}

/// Leaf conversion of `toYamlPretty`.
struct PrettyEncoder;

impl LeafEncoder for PrettyEncoder {
    const DIALECT: Dialect = Dialect::V3;

    fn number(&self, out: &mut String, number: f64) {
        let text = format_float(number, FloatFormat::General, None);
        out.push_str(match text.as_str() {
            "+Inf" => ".inf",
            "-Inf" => "-.inf",
            "NaN" => ".nan",
            text => text,
        });
    }

    fn to_plain(&self, value: &Value) -> Result<Value, EncodeError> {
        match value {
            // The emitter handles floats and strings itself.
            Value::Float(_) | Value::Raw(_) => Ok(value.clone()),
            Value::Bytes(_) => Ok(List::any([]).into()),
            Value::Complex(..) => Err(EncodeError::Unsupported("cannot marshal type: complex128".into())),
            Value::Object(object) => match object.entries().filter(|_| object.kind() == Kind::Map) {
                Some(entries) => {
                    let entries = entries.into_iter().map(|(key, value)| (print(&key).into(), value));
                    Ok(Map::from_entries(entries).into())
                }
                // Go's library supports durations.
                None if as_duration(value).is_some() => Ok(print(value).into()),
                None => Ok(Value::from(&object.data()?)),
            },
            value => Ok(Value::from(&Data::try_from(value)?)),
        }
    }

    fn text<'t>(&self, text: &'t str, _: bool) -> Result<Cow<'t, str>, EncodeError> {
        Ok(Cow::Borrowed(text))
    }
}
