//! The fields that Helm reads from every rendered manifest: apiVersion, kind, name and annotations.
//!
//! Helm decodes the whole manifest for this. Here most manifests are only scanned event by event, without retaining anything.
//! Unusual manifests are decoded in full, so that results and errors are the same.

use std::collections::BTreeMap;

use super::decode::{coerce_to_string, scalar};
use super::events::{Event, Events, Properties, Scalar};
use super::problem::YamlSyntaxError;
use super::resolve::{self, ResolvedScalar};
use super::shape::{Shape, eq_ignore_case};
use super::source::YamlSource;
use super::tape::MAX_DEPTH;
use super::{json_kind, parse_as};
use crate::data::{Data, Members};
use crate::profile::Profile;
use crate::value::Str;

/// The head of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestHeader {
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
pub fn read_header(text: &[u8], profile: Profile) -> Result<ManifestHeader, Str> {
    let source = YamlSource::new(text);
    match scan_header(&mut source.events()) {
        Ok(Some(head)) => Ok(head),
        Ok(None) => header_from_data(&parse_as(text, &SHAPE)?, profile),
        Err(problem) => Err(format!("error converting YAML to JSON: {problem}").into()),
    }
}

/// The next expected item in an open collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedItem {
    Item,
    Key,
    Value,
}

/// The field that the next value belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderField {
    Other,
    ApiVersion,
    Kind,
    Metadata,
    Name,
    Annotations,
    Annotation,
}

/// The state of a scan over the events of a manifest.
struct HeaderScan {
    header: ManifestHeader,
    places: Vec<ExpectedItem>,
    /// The number of open collections on the path to a wanted field.
    matched_depth: usize,
    current_field: HeaderField,
    seen_fields: Vec<HeaderField>,
    annotation: Str,
}

/// Scans a manifest. Returns `None` if it must be decoded in full.
fn scan_header(events: &mut Events<'_>) -> Result<Option<ManifestHeader>, YamlSyntaxError> {
    let mut look = HeaderScan {
        header: ManifestHeader::default(),
        places: Vec::with_capacity(16),
        matched_depth: 0,
        current_field: HeaderField::Other,
        seen_fields: Vec::new(),
        annotation: "".into(),
    };
    events.skim(true);
    loop {
        let plain = match events.next_event()? {
            Event::DocumentStart => true,
            Event::StreamEnd | Event::DocumentEnd => return Ok(Some(look.header)),
            Event::Alias { .. } => false,
            Event::Scalar(scalar) => {
                let at_key = look.places.last() == Some(&ExpectedItem::Key);
                let plain = look.scalar(&scalar);
                if at_key {
                    events.skim(look.matched_depth < 2 && look.current_field == HeaderField::Other);
                }
                plain
            }
            Event::SequenceStart { properties, .. } => look.open(ExpectedItem::Item, &properties),
            Event::MappingStart { properties, .. } => look.open(ExpectedItem::Key, &properties),
            Event::SequenceEnd | Event::MappingEnd => {
                look.places.pop();
                look.matched_depth = look.matched_depth.min(look.places.len());
                look.next();
                true
            }
        };
        if !plain {
            return Ok(None);
        }
    }
}

impl HeaderScan {
    fn next(&mut self) {
        if let Some(place) = self.places.last_mut() {
            *place = match *place {
                ExpectedItem::Item => ExpectedItem::Item,
                ExpectedItem::Key => ExpectedItem::Value,
                ExpectedItem::Value => ExpectedItem::Key,
            };
        }
    }

    /// Handles the start of a collection. Returns false if it is unusual.
    fn open(&mut self, place: ExpectedItem, properties: &Properties<'_>) -> bool {
        // A collection as a key is an error.
        let bare = *properties == Properties::default() && self.places.last() != Some(&ExpectedItem::Key);
        let leads = match self.current_field {
            HeaderField::Metadata | HeaderField::Annotations => true,
            HeaderField::Other => self.places.is_empty(),
            _ => return false,
        };
        self.current_field = HeaderField::Other;
        self.places.push(place);
        self.matched_depth += usize::from(leads);
        bare && self.places.len() < MAX_DEPTH && (!leads || place == ExpectedItem::Key)
    }

    /// Handles a key or a value. Returns false if it is unusual.
    fn scalar(&mut self, scalar: &Scalar<'_>) -> bool {
        let plain = match self.places.last() {
            None => false,
            Some(ExpectedItem::Key) => self.key(scalar),
            Some(ExpectedItem::Item | ExpectedItem::Value) => self.value(scalar),
        };
        self.next();
        plain && scalar.properties == Properties::default()
    }

    fn key(&mut self, scalar: &Scalar<'_>) -> bool {
        if scalar.is_implicit && !scalar.is_skimmed && !is_common_key(&scalar.text) {
            return false;
        }
        self.current_field = HeaderField::Other;
        if self.matched_depth < self.places.len() {
            return true;
        }
        if scalar.is_skimmed {
            return false;
        }
        if self.matched_depth == ANNOTATION {
            self.current_field = HeaderField::Annotation;
            self.annotation = (*scalar.text).into();
            return !scalar.is_implicit || resolve::plain(&scalar.text) == ResolvedScalar::Text;
        }
        let names: &[_] = if self.matched_depth == 1 {
            &[
                ("apiVersion", HeaderField::ApiVersion),
                ("kind", HeaderField::Kind),
                ("metadata", HeaderField::Metadata),
            ]
        } else {
            &[("name", HeaderField::Name), ("annotations", HeaderField::Annotations)]
        };
        let Some((name, wanted)) = names.iter().find(|(name, _)| eq_ignore_case(name, &scalar.text)) else {
            return true;
        };
        let first = !self.seen_fields.contains(wanted);
        self.seen_fields.push(*wanted);
        self.current_field = *wanted;
        first && *name == scalar.text
    }

    fn value(&mut self, value: &Scalar<'_>) -> bool {
        let wanted = std::mem::replace(&mut self.current_field, HeaderField::Other);
        if wanted == HeaderField::Other {
            // Only infinities and NaN are refused, and they start with a point or a sign.
            return !value.is_implicit
                || !value.text.starts_with(['.', '+', '-'])
                || !matches!(resolve::plain(&value.text), ResolvedScalar::Float(n) if !n.is_finite());
        }
        let Ok((meaning, text)) = scalar(&value.text, value.is_implicit, None) else { return false };
        if value.is_skimmed
            || (matches!(wanted, HeaderField::Metadata | HeaderField::Annotations)
                && meaning != ResolvedScalar::Null)
        {
            return false;
        }
        let text = coerce_to_string(meaning, &text).unwrap_or_default();
        match wanted {
            HeaderField::ApiVersion => self.header.api_version = text,
            HeaderField::Kind => self.header.kind = text,
            HeaderField::Name => self.header.name = text,
            HeaderField::Annotation => {
                self.header.annotations.insert(std::mem::take(&mut self.annotation), text);
            }
            HeaderField::Other | HeaderField::Metadata | HeaderField::Annotations => {}
        }
        true
    }
}

/// Whether the key is text, or has a JSON form and is neither null nor a merge key.
fn is_common_key(text: &str) -> bool {
    match text.as_bytes().first() {
        None | Some(b'~' | b'<') => false,
        Some(b'n' | b'N' | b'0'..=b'9') => {
            !matches!(resolve::plain(text), ResolvedScalar::Null | ResolvedScalar::Uint(_))
        }
        Some(_) => true,
    }
}

/// Fills the head as Go's JSON decoder fills a struct: in key order, ignoring case. The first type mismatch is reported.
fn header_from_data(data: &Data, profile: Profile) -> Result<ManifestHeader, Str> {
    let mut filled = FilledHeader::default();
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
        None => Ok(filled.header),
        Some(mismatch) => {
            Err(format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {mismatch}")
                .into())
        }
    }
}

/// A head filled from decoded data, and the first type mismatch.
#[derive(Default)]
struct FilledHeader {
    header: ManifestHeader,
    mismatch: Option<String>,
}

impl FilledHeader {
    fn document(&mut self, members: &Members) {
        for (key, value) in members {
            if eq_ignore_case("apiVersion", key) {
                if let Some(text) = self.text(value, "SimpleHead.apiVersion") {
                    self.header.api_version = text;
                }
            } else if eq_ignore_case("kind", key) {
                if let Some(text) = self.text(value, "SimpleHead.kind") {
                    self.header.kind = text;
                }
            } else if eq_ignore_case("metadata", key) {
                match value {
                    Data::Null => {
                        self.header.name = "".into();
                        self.header.annotations.clear();
                    }
                    Data::Map(members) => self.metadata(members),
                    other => self.refuse(other, "SimpleHead.metadata", METADATA),
                }
            }
        }
    }

    fn metadata(&mut self, members: &Members) {
        for (key, value) in members {
            if eq_ignore_case("name", key) {
                if let Some(text) = self.text(value, ".metadata.name") {
                    self.header.name = text;
                }
            } else if eq_ignore_case("annotations", key) {
                match value {
                    Data::Null => self.header.annotations.clear(),
                    Data::Map(members) => {
                        for (key, value) in members {
                            let text = self.text(value, ".metadata.annotations").unwrap_or_default();
                            self.header.annotations.insert(key.clone(), text);
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
