//! The fields that Helm reads from every rendered manifest: apiVersion, kind, name and annotations.
//!
//! Helm decodes the whole manifest for this. Here most manifests are only scanned event by event, without retaining anything.
//! Unusual manifests are decoded in full, so that results and errors are the same.

use std::collections::BTreeMap;

use super::decode::{coerced, scalar};
use super::events::{Event, Events, Properties, Scalar};
use super::problem::Problem;
use super::resolve::{self, Meaning};
use super::shape::{Shape, same_letters};
use super::source::Source;
use super::tape::MAX_DEPTH;
use super::{json_kind, parse_as};
use crate::data::{Data, Members};
use crate::profile::Profile;
use crate::value::Str;

/// The head of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
    pub annotations: BTreeMap<Str, Str>,
}

const SHAPE: Shape = Shape::Struct(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    ("metadata", Shape::Struct(&[("name", Shape::Text), ("annotations", Shape::Map(&Shape::Text))])),
]);
/// Nesting level of an annotation: in `annotations`, in `metadata`, in the document.
const ANNOTATION: usize = 3;
const METADATA: &str = "struct { Name string \"json:\\\"name\\\"\"; \
    Annotations map[string]string \"json:\\\"annotations\\\"\" }";

/// Reads the head of a manifest. Invalid YAML and values of the wrong type fail with Helm's message.
pub fn head(text: &[u8], profile: Profile) -> Result<Head, Str> {
    let source = Source::new(text);
    match look_through(&mut source.events()) {
        Ok(Some(head)) => Ok(head),
        Ok(None) => in_full(&parse_as(text, &SHAPE)?, profile),
        Err(problem) => Err(format!("error converting YAML to JSON: {problem}").into()),
    }
}

/// The next expected item in an open collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Item,
    Key,
    Value,
}

/// The field that the next value belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nothing,
    ApiVersion,
    Kind,
    Metadata,
    Name,
    Annotations,
    Annotation,
}

/// The state of a scan over the events of a manifest.
struct Look {
    head: Head,
    places: Vec<Place>,
    /// The number of open collections on the path to a wanted field.
    inside: usize,
    wanted: Wanted,
    seen: Vec<Wanted>,
    annotation: Str,
}

/// Scans a manifest. Returns `None` if it must be decoded in full.
fn look_through(events: &mut Events<'_>) -> Result<Option<Head>, Problem> {
    let mut look = Look {
        head: Head::default(),
        places: Vec::with_capacity(16),
        inside: 0,
        wanted: Wanted::Nothing,
        seen: Vec::new(),
        annotation: "".into(),
    };
    events.skim(true);
    loop {
        let plain = match events.read()? {
            Event::DocumentStart => true,
            Event::StreamEnd | Event::DocumentEnd => return Ok(Some(look.head)),
            Event::Alias { .. } => false,
            Event::Scalar(scalar) => {
                let at_key = look.places.last() == Some(&Place::Key);
                let plain = look.scalar(&scalar);
                if at_key {
                    events.skim(look.inside < 2 && look.wanted == Wanted::Nothing);
                }
                plain
            }
            Event::SequenceStart { properties, .. } => look.open(Place::Item, &properties),
            Event::MappingStart { properties, .. } => look.open(Place::Key, &properties),
            Event::SequenceEnd | Event::MappingEnd => {
                look.places.pop();
                look.inside = look.inside.min(look.places.len());
                look.next();
                true
            }
        };
        if !plain {
            return Ok(None);
        }
    }
}

impl Look {
    fn next(&mut self) {
        if let Some(place) = self.places.last_mut() {
            *place = match *place {
                Place::Item => Place::Item,
                Place::Key => Place::Value,
                Place::Value => Place::Key,
            };
        }
    }

    /// Handles the start of a collection. Returns false if it is unusual.
    fn open(&mut self, place: Place, properties: &Properties<'_>) -> bool {
        // A collection as a key is an error.
        let bare = *properties == Properties::default() && self.places.last() != Some(&Place::Key);
        let leads = match self.wanted {
            Wanted::Metadata | Wanted::Annotations => true,
            Wanted::Nothing => self.places.is_empty(),
            _ => return false,
        };
        self.wanted = Wanted::Nothing;
        self.places.push(place);
        self.inside += usize::from(leads);
        bare && self.places.len() < MAX_DEPTH && (!leads || place == Place::Key)
    }

    /// Handles a key or a value. Returns false if it is unusual.
    fn scalar(&mut self, scalar: &Scalar<'_>) -> bool {
        let plain = match self.places.last() {
            None => false,
            Some(Place::Key) => self.key(scalar),
            Some(Place::Item | Place::Value) => self.value(scalar),
        };
        self.next();
        plain && scalar.properties == Properties::default()
    }

    fn key(&mut self, scalar: &Scalar<'_>) -> bool {
        if scalar.implicit && !scalar.skimmed && !is_common_key(&scalar.text) {
            return false;
        }
        self.wanted = Wanted::Nothing;
        if self.inside < self.places.len() {
            return true;
        }
        if scalar.skimmed {
            return false;
        }
        if self.inside == ANNOTATION {
            self.wanted = Wanted::Annotation;
            self.annotation = (*scalar.text).into();
            return !scalar.implicit || resolve::plain(&scalar.text) == Meaning::Text;
        }
        let names: &[_] = if self.inside == 1 {
            &[("apiVersion", Wanted::ApiVersion), ("kind", Wanted::Kind), ("metadata", Wanted::Metadata)]
        } else {
            &[("name", Wanted::Name), ("annotations", Wanted::Annotations)]
        };
        let Some((name, wanted)) = names.iter().find(|(name, _)| same_letters(name, &scalar.text)) else {
            return true;
        };
        let first = !self.seen.contains(wanted);
        self.seen.push(*wanted);
        self.wanted = *wanted;
        first && *name == scalar.text
    }

    fn value(&mut self, value: &Scalar<'_>) -> bool {
        let wanted = std::mem::replace(&mut self.wanted, Wanted::Nothing);
        if wanted == Wanted::Nothing {
            // Only infinities and NaN are refused, and they start with a point or a sign.
            return !value.implicit
                || !value.text.starts_with(['.', '+', '-'])
                || !matches!(resolve::plain(&value.text), Meaning::Float(n) if !n.is_finite());
        }
        let Ok((meaning, text)) = scalar(&value.text, value.implicit, None) else { return false };
        if value.skimmed
            || (matches!(wanted, Wanted::Metadata | Wanted::Annotations) && meaning != Meaning::Null)
        {
            return false;
        }
        let text = coerced(meaning, &text).unwrap_or_default();
        match wanted {
            Wanted::ApiVersion => self.head.api_version = text,
            Wanted::Kind => self.head.kind = text,
            Wanted::Name => self.head.name = text,
            Wanted::Annotation => {
                self.head.annotations.insert(std::mem::take(&mut self.annotation), text);
            }
            Wanted::Nothing | Wanted::Metadata | Wanted::Annotations => {}
        }
        true
    }
}

/// Whether the key is text, or has a JSON form and is neither null nor a merge key.
fn is_common_key(text: &str) -> bool {
    match text.as_bytes().first() {
        None | Some(b'~' | b'<') => false,
        Some(b'n' | b'N' | b'0'..=b'9') => !matches!(resolve::plain(text), Meaning::Null | Meaning::Uint(_)),
        Some(_) => true,
    }
}

/// Fills the head as Go's JSON decoder fills a struct: in key order, ignoring case. The first type mismatch is reported.
fn in_full(data: &Data, profile: Profile) -> Result<Head, Str> {
    let mut filled = Filled::default();
    match data {
        Data::Null => {}
        Data::Map(members) => filled.document(members),
        other => {
            let package = match profile {
                Profile::Helm3 => "releaseutil",
                Profile::Helm4 => "util",
            };
            filled.mismatch =
                Some(format!("{} into Go value of type {package}.SimpleHead", json_kind(other)));
        }
    }
    match filled.mismatch {
        None => Ok(filled.head),
        Some(mismatch) => {
            Err(format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {mismatch}")
                .into())
        }
    }
}

/// A head filled from decoded data, and the first type mismatch.
#[derive(Default)]
struct Filled {
    head: Head,
    mismatch: Option<String>,
}

impl Filled {
    fn document(&mut self, members: &Members) {
        for (key, value) in members {
            if same_letters("apiVersion", key) {
                if let Some(text) = self.text(value, "SimpleHead.apiVersion") {
                    self.head.api_version = text;
                }
            } else if same_letters("kind", key) {
                if let Some(text) = self.text(value, "SimpleHead.kind") {
                    self.head.kind = text;
                }
            } else if same_letters("metadata", key) {
                match value {
                    Data::Null => {
                        self.head.name = "".into();
                        self.head.annotations.clear();
                    }
                    Data::Map(members) => self.metadata(members),
                    other => self.refuse(other, "SimpleHead.metadata", METADATA),
                }
            }
        }
    }

    fn metadata(&mut self, members: &Members) {
        for (key, value) in members {
            if same_letters("name", key) {
                if let Some(text) = self.text(value, ".metadata.name") {
                    self.head.name = text;
                }
            } else if same_letters("annotations", key) {
                match value {
                    Data::Null => self.head.annotations.clear(),
                    Data::Map(members) => {
                        for (key, value) in members {
                            let text = self.text(value, ".metadata.annotations").unwrap_or_default();
                            self.head.annotations.insert(key.clone(), text);
                        }
                    }
                    other => self.refuse(other, ".metadata.annotations", "map[string]string"),
                }
            }
        }
    }

    fn text(&mut self, value: &Data, field: &str) -> Option<Str> {
        match value {
            Data::Null => None,
            Data::String(text) => Some(text.clone()),
            other => {
                self.refuse(other, field, "string");
                None
            }
        }
    }

    fn refuse(&mut self, found: &Data, field: &str, wanted: &str) {
        self.mismatch.get_or_insert_with(|| {
            format!("{} into Go struct field {field} of type {wanted}", json_kind(found))
        });
    }
}
