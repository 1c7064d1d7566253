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
pub enum Resolution<'d> {
    Local(SchemaLocation<'d>),
    /// The document is known, but the pointer does not resolve in it.
    PointerNotFound {
        address: String,
        pointer: String,
        missing: PointerError,
    },
    AnchorNotFound {
        address: String,
        anchor: String,
    },
    /// Another document, by its URL.
    External(String),
}

/// A part of the document with the context to resolve references from it.
#[derive(Clone)]
pub struct SchemaLocation<'d> {
    pub data: &'d Data,
    /// Base URL of references in this part.
    pub base: String,
    /// JSON pointer from the root of the document.
    pub pointer: String,
}

impl SchemaLocation<'_> {
    /// Length of its strings in bytes.
    fn bytes(&self) -> usize {
        self.base.len() + self.pointer.len()
    }
}

/// Reason why a pointer does not resolve.
pub enum PointerError {
    Key(String),
    Index(String),
    Bounds { length: usize, index: usize },
    Scalar(String),
}

pub struct SchemaDocument<'d> {
    root: &'d Data,
    url: String,
    /// Parts with their own URL (`$id`).
    parts: HashMap<String, SchemaLocation<'d>>,
    /// Parts with an anchor, by URL and name.
    anchors: HashMap<(String, String), SchemaLocation<'d>>,
    /// Names of dynamic anchors (`$dynamicAnchor`), by URL.
    dynamic: HashMap<String, Vec<Str>>,
    /// Whether a reference depends on the evaluation path (dynamic scope).
    is_dynamic: bool,
    id: fn(&Data) -> Option<&str>,
}

impl<'d> SchemaDocument<'d> {
    /// `id` returns the keyword that changes the base URL; `$anchor` names are always read.
    pub fn new(
        root: &'d Data,
        address: &str,
        id: fn(&Data) -> Option<&str>,
        budget: &Budget<'_>,
    ) -> Result<Self, String> {
        let mut document = Self {
            root,
            url: address.to_owned(),
            parts: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            is_dynamic: false,
            id,
        };
        document.collect(budget).map_err(|why| why.to_string())?;
        Ok(document)
    }

    pub fn root(&self) -> SchemaLocation<'d> {
        SchemaLocation { data: self.root, base: self.base_url(self.root, &self.url), pointer: String::new() }
    }

    fn collect(&mut self, budget: &Budget<'_>) -> Result<(), Str> {
        // Bytes of the queued parts.
        let mut queued = self.url.len();
        let mut left =
            vec![(SchemaLocation { data: self.root, base: self.url.clone(), pointer: String::new() }, 0)];
        while let Some((target, depth)) = left.pop() {
            if depth > MAX_DEPTH {
                return Err(format!("the schema is nested deeper than {MAX_DEPTH}").into());
            }
            queued -= target.bytes();
            let mut inside = |key: &str, data: &'d Data, base: &str| {
                if !matches!(data, Data::Map(_) | Data::List(_)) {
                    return budget.charge(1);
                }
                let bytes = target.pointer.len() + 2 * key.len() + base.len();
                budget.charge(1 + bytes as u64 / BYTES_PER_STEP)?;
                budget.fits(queued + bytes)?;
                let at = format!("{}/{}", target.pointer, escape_token(key));
                let target = SchemaLocation { data, base: base.to_owned(), pointer: at };
                queued += target.bytes();
                left.push((target, depth + 1));
                Ok(())
            };
            match target.data {
                Data::Map(members) => {
                    let base = self.base_url(target.data, &target.base);
                    let own = SchemaLocation {
                        data: target.data,
                        base: base.clone(),
                        pointer: target.pointer.clone(),
                    };
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
    pub fn base_url(&self, data: &Data, base: &str) -> String {
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
    pub fn part(&self, address: &str) -> SchemaLocation<'d> {
        self.parts.get(address).cloned().unwrap_or_else(|| self.root())
    }

    /// Dynamic anchors below this URL.
    pub fn dynamic_anchors(&self, address: &str) -> Vec<(Str, SchemaLocation<'d>)> {
        let names = self.dynamic.get(address).into_iter().flatten();
        let found = |name: &Str| self.anchors.get(&(address.to_owned(), name.to_string())).cloned();
        names.filter_map(|name| Some((name.clone(), found(name)?))).collect()
    }

    /// Resolves a reference located where `base` applies.
    pub fn resolve(&self, base: &str, reference: &str) -> Resolution<'d> {
        let (address, fragment) = join(base, reference);
        let start = match self.parts.get(&address) {
            Some(part) => part.clone(),
            None if address == self.url => self.root(),
            None => return Resolution::External(address),
        };
        if fragment.is_empty() {
            return Resolution::Local(start);
        }
        if !fragment.starts_with('/') {
            return match self.anchors.get(&(address.clone(), fragment.clone())) {
                Some(target) => Resolution::Local(target.clone()),
                None => Resolution::AnchorNotFound { address, anchor: fragment },
            };
        }
        let mut target = start;
        for token in fragment.split('/').skip(1) {
            let key = token.replace("~1", "/").replace("~0", "~");
            let next = match target.data {
                Data::Map(members) => members.get(&*key).ok_or_else(|| PointerError::Key(key.clone())),
                Data::List(items) => match key.parse::<usize>() {
                    Ok(index) => items.get(index).ok_or(PointerError::Bounds { length: items.len(), index }),
                    Err(_) => Err(PointerError::Index(key.clone())),
                },
                _ => Err(PointerError::Scalar(key.clone())),
            };
            target = match next {
                Ok(data) => SchemaLocation {
                    data,
                    base: self.base_url(data, &target.base),
                    pointer: format!("{}/{}", target.pointer, escape_token(&key)),
                },
                Err(missing) => return Resolution::PointerNotFound { address, pointer: fragment, missing },
            };
        }
        Resolution::Local(target)
    }
}

/// Escapes a token of a JSON pointer.
pub fn escape_token(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Resolves a reference against a base: the absolute URL and the decoded fragment.
fn join(base: &str, reference: &str) -> (String, String) {
    let (reference, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let base = base.split_once('#').map_or(base, |(base, _)| base);
    (absolute(base, reference), percent_decode(fragment))
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
    format!("{scheme}{colon}{slashes}{authority}{}", remove_dot_segments(&path))
}

fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn remove_dot_segments(path: &str) -> String {
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

fn percent_decode(text: &str) -> String {
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
