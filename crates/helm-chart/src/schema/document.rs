//! A schema document and the resolution of its references.

use std::collections::HashMap;

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::value::Str;

/// Maximum nesting depth of a document.
const MAX_DEPTH: usize = 500;

/// Bytes of a pointer that count as one budget step.
const BYTES_PER_STEP: u64 = 16;

/// Result of resolving a reference.
pub enum Found<'d> {
    Here(Target<'d>),
    /// The document is known, but the pointer does not resolve in it.
    NoPointer {
        address: String,
        pointer: String,
        missing: Missing,
    },
    NoAnchor {
        address: String,
        anchor: String,
    },
    /// Another document, by its URL.
    Elsewhere(String),
}

/// A part of the document with the context to resolve references from it.
#[derive(Clone)]
pub struct Target<'d> {
    pub data: &'d Data,
    /// Base URL of references in this part.
    pub base: String,
    /// JSON pointer from the root of the document.
    pub at: String,
}

impl Target<'_> {
    /// Length of its strings in bytes.
    fn bytes(&self) -> usize {
        self.base.len() + self.at.len()
    }
}

/// Reason why a pointer does not resolve.
pub enum Missing {
    Key(String),
    Index(String),
    Bounds { length: usize, index: usize },
    Scalar(String),
}

pub struct Document<'d> {
    root: &'d Data,
    address: String,
    /// Parts with their own URL (`$id`).
    parts: HashMap<String, Target<'d>>,
    /// Parts with an anchor, by URL and name.
    anchors: HashMap<(String, String), Target<'d>>,
    /// Names of dynamic anchors (`$dynamicAnchor`), by URL.
    dynamic: HashMap<String, Vec<Str>>,
    /// Whether a reference depends on the evaluation path (dynamic scope).
    is_dynamic: bool,
    id: fn(&Data) -> Option<&str>,
}

impl<'d> Document<'d> {
    /// `id` returns the keyword that changes the base URL; `$anchor` names are always read.
    pub fn new(
        root: &'d Data,
        address: &str,
        id: fn(&Data) -> Option<&str>,
        budget: &Budget<'_>,
    ) -> Result<Self, String> {
        let mut document = Self {
            root,
            address: address.to_owned(),
            parts: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            is_dynamic: false,
            id,
        };
        document.collect(budget).map_err(|why| why.to_string())?;
        Ok(document)
    }

    pub fn root(&self) -> Target<'d> {
        Target { data: self.root, base: self.based(self.root, &self.address), at: String::new() }
    }

    fn collect(&mut self, budget: &Budget<'_>) -> Result<(), Str> {
        // Bytes of the queued parts.
        let mut queued = self.address.len();
        let mut left = vec![(Target { data: self.root, base: self.address.clone(), at: String::new() }, 0)];
        while let Some((target, depth)) = left.pop() {
            if depth > MAX_DEPTH {
                return Err(format!("the schema is nested deeper than {MAX_DEPTH}").into());
            }
            queued -= target.bytes();
            let mut inside = |key: &str, data: &'d Data, base: &str| {
                if !matches!(data, Data::Map(_) | Data::List(_)) {
                    return budget.charge(1);
                }
                let bytes = target.at.len() + 2 * key.len() + base.len();
                budget.charge(1 + bytes as u64 / BYTES_PER_STEP)?;
                budget.fits(queued + bytes)?;
                let at = format!("{}/{}", target.at, escaped(key));
                let target = Target { data, base: base.to_owned(), at };
                queued += target.bytes();
                left.push((target, depth + 1));
                Ok(())
            };
            match target.data {
                Data::Map(members) => {
                    let base = self.based(target.data, &target.base);
                    let own = Target { data: target.data, base: base.clone(), at: target.at.clone() };
                    if let Some(id) = (self.id)(target.data) {
                        let (address, fragment) = join(&target.base, id);
                        if fragment.is_empty() {
                            self.parts.entry(address).or_insert(own.clone());
                        } else {
                            self.anchors.entry((address, fragment)).or_insert(own.clone());
                        }
                    }
                    for key in ["$anchor", "$dynamicAnchor"] {
                        if let Some(Data::String(anchor)) = members.get(key) {
                            self.anchors.entry((base.clone(), anchor.to_string())).or_insert(own.clone());
                        }
                    }
                    if let Some(Data::String(anchor)) = members.get("$dynamicAnchor") {
                        self.dynamic.entry(base.clone()).or_default().push(anchor.clone());
                    }
                    self.is_dynamic |=
                        members.contains_key("$dynamicRef") || members.contains_key("$recursiveRef");
                    for (key, data) in members {
                        if !matches!(&**key, "const" | "enum" | "default" | "examples") {
                            inside(key, data, &base)?;
                        }
                    }
                }
                Data::List(items) => {
                    for (index, data) in items.iter().enumerate() {
                        inside(&index.to_string(), data, &target.base)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Base URL of references in `data`, which is located where `base` applies.
    pub fn based(&self, data: &Data, base: &str) -> String {
        match (self.id)(data) {
            Some(id) => match join(base, id) {
                (address, fragment) if fragment.is_empty() => address,
                _ => base.to_owned(),
            },
            None => base.to_owned(),
        }
    }

    /// Whether a reference depends on the evaluation path.
    pub fn is_dynamic(&self) -> bool {
        self.is_dynamic
    }

    /// The part with this URL.
    pub fn part(&self, address: &str) -> Target<'d> {
        self.parts.get(address).cloned().unwrap_or_else(|| self.root())
    }

    /// Dynamic anchors below this URL.
    pub fn dynamic_anchors(&self, address: &str) -> Vec<(Str, Target<'d>)> {
        let names = self.dynamic.get(address).into_iter().flatten();
        let found = |name: &Str| self.anchors.get(&(address.to_owned(), name.to_string())).cloned();
        names.filter_map(|name| Some((name.clone(), found(name)?))).collect()
    }

    /// Resolves a reference located where `base` applies.
    pub fn follow(&self, base: &str, reference: &str) -> Found<'d> {
        let (address, fragment) = join(base, reference);
        let start = match self.parts.get(&address) {
            Some(part) => part.clone(),
            None if address == self.address => self.root(),
            None => return Found::Elsewhere(address),
        };
        if fragment.is_empty() {
            return Found::Here(start);
        }
        if !fragment.starts_with('/') {
            return match self.anchors.get(&(address.clone(), fragment.clone())) {
                Some(target) => Found::Here(target.clone()),
                None => Found::NoAnchor { address, anchor: fragment },
            };
        }
        let mut target = start;
        for token in fragment.split('/').skip(1) {
            let key = token.replace("~1", "/").replace("~0", "~");
            let next = match target.data {
                Data::Map(members) => members.get(&*key).ok_or_else(|| Missing::Key(key.clone())),
                Data::List(items) => match key.parse::<usize>() {
                    Ok(index) => items.get(index).ok_or(Missing::Bounds { length: items.len(), index }),
                    Err(_) => Err(Missing::Index(key.clone())),
                },
                _ => Err(Missing::Scalar(key.clone())),
            };
            target = match next {
                Ok(data) => Target {
                    data,
                    base: self.based(data, &target.base),
                    at: format!("{}/{}", target.at, escaped(&key)),
                },
                Err(missing) => return Found::NoPointer { address, pointer: fragment, missing },
            };
        }
        Found::Here(target)
    }
}

/// Escapes a token of a JSON pointer.
pub fn escaped(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Resolves a reference against a base: the absolute URL and the decoded fragment.
fn join(base: &str, reference: &str) -> (String, String) {
    let (reference, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let base = base.split_once('#').map_or(base, |(base, _)| base);
    (absolute(base, reference), decoded(fragment))
}

fn absolute(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if has_scheme(reference) {
        return reference.to_owned();
    }
    let (scheme, rest) = base.split_once(':').unwrap_or(("", base));
    let colon = if scheme.is_empty() { "" } else { ":" };
    if let Some(authority) = reference.strip_prefix("//") {
        return format!("{scheme}{colon}//{authority}");
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash)),
        None => ("", rest),
    };
    let slashes = if rest.starts_with("//") { "//" } else { "" };
    let path = if reference.starts_with('/') {
        reference.to_owned()
    } else {
        let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
        format!("{folder}{reference}")
    };
    format!("{scheme}{colon}{slashes}{authority}{}", without_dots(&path))
}

fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    kept.join("/")
}

fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = (byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2)));
        if let (b'%', Some(high), Some(low)) = escape {
            decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
