//! `toYamlPretty`: values encoded by go-yaml v3, without conversion through JSON.

use std::borrow::Cow;

use super::emit::{Dialect, Emitter, Leaves};
use crate::data::Data;
use crate::go::{Form, format_float, print};
use crate::nesting::Unwritable;
use crate::value::moments::as_duration;
use crate::value::{Kind, List, Map, Value};

/// Encodes as `toYamlPretty` does, with a trailing newline.
pub fn write_pretty(value: &Value) -> Result<String, Unwritable> {
    Emitter::new(AsItIs).document(value)
}

/// Leaf conversion of `toYamlPretty`.
struct AsItIs;

impl Leaves for AsItIs {
    const DIALECT: Dialect = Dialect::V3;

    fn number(&self, out: &mut String, number: f64) {
        let text = format_float(number, Form::General, None);
        out.push_str(match text.as_str() {
            "+Inf" => ".inf",
            "-Inf" => "-.inf",
            "NaN" => ".nan",
            text => text,
        });
    }

    fn plainly(&self, value: &Value) -> Result<Value, Unwritable> {
        match value {
            // The emitter handles floats and strings itself.
            Value::Float(_) | Value::Raw(_) => Ok(value.clone()),
            Value::Bytes(_) => Ok(List::any([]).into()),
            Value::Complex(..) => Err(Unwritable::Refused("cannot marshal type: complex128".into())),
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

    fn text<'t>(&self, text: &'t str, _: bool) -> Result<Cow<'t, str>, Unwritable> {
        Ok(Cow::Borrowed(text))
    }
}
