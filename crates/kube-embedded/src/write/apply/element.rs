//! One element of a field path: a member, or a list element by keys, value or index.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use crate::go;

/// Ordered as Kubernetes orders them in `fieldsV1`.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// `f:name`: a struct's field or a map's key.
    Field(Box<str>),
    /// `k:{"name":"c"}`: an element of a list map. Sorted by name.
    Key(Box<[(Box<str>, Value)]>),
    /// `v:"x"`: an element of a set.
    Value(Value),
    /// `i:0`: an element of an atomic list, by index.
    Index(i64),
}

impl PathElement {
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Parses `f:name` and the other forms. `None` for unknown kinds of elements, which are skipped.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let (kind, rest) = match text.as_bytes() {
            [kind, b':', ..] => (*kind, &text[2..]),
            [_, _, ..] => return Err(format!("missing colon: {text}")),
            _ => return Err("key must be 2 characters long:".to_owned()),
        };
        let json = |what: &str| serde_json::from_str::<Value>(what).map_err(|error| error.to_string());
        Ok(Some(match kind {
            b'f' => Self::Field(rest.into()),
            b'v' => Self::Value(json(rest)?),
            b'k' => match json(rest)? {
                Value::Object(keys) => {
                    Self::Key(keys.into_iter().map(|(name, value)| (name.into(), value)).collect())
                }
                _ => return Err(format!("expected an object: {text}")),
            },
            b'i' => Self::Index(rest.parse().map_err(|_| format!("invalid index: {text}"))?),
            _ => return Ok(None),
        }))
    }

    /// Encodes the element for `fieldsV1`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Map<_, _> =
                    keys.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
                format!("k:{}", go::json(&Value::Object(keys)))
            }
            Self::Value(value) => format!("v:{}", go::json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// Formats the element as in conflict messages: `.image`, `[name="c"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (i, (name, value)) in keys.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", format_value(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", format_value(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => go::quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(format_value).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            members.iter().map(|(k, v)| format!("{k}={}", format_value(v))).collect::<Vec<_>>().concat()
        }
        other => go::format_v(other),
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let mut pairs = a.iter().zip(b.iter());
                let differ = pairs.find_map(|((name, value), (other_name, other_value))| {
                    let order = name.cmp(other_name).then_with(|| compare(value, other_value));
                    order.is_ne().then_some(order)
                });
                differ.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PathElement {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// Total order of JSON values: numbers (by value), strings, booleans, lists, maps, null.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differ = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            differ.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a.iter().zip(b);
            let mut orders = pairs.map(|((k, v), (l, w))| k.cmp(l).then_with(|| compare(v, w)));
            orders.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
