//! The values of a release: layers from several sources, merged as Helm merges values files.
//!
//! In ascending precedence: `valuesFrom` in its order, `values` (base64), `valuesRef`, `valuesObject`.
//!
//! Texts are fetched first and merged afterwards on the renderer's pool ([`pool`]), because parsed values take many times the memory of
//! their text.
//!
//! Invariants: an error names the reference and never its content. [`MergedValues`] records which leaves came from a tenant's Secret.
//!
//! See also: reading references with the right client ([`read`]), masking ([`sensitive`]).

pub(crate) mod hash;
pub(crate) mod leaves;
pub(crate) mod pool;
pub mod read;
mod schema;
pub mod sensitive;

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::ErrorKind;
use helm_chart::set;
use helm_chart::values::{overlay, read as read_values};
use helm_release::render::share::WorkError;
use helm_template::budget::Admission;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::{json, yaml};
use kube_types::release::{HelmReleaseSpec, ValuesKind, ValuesReference, ValuesSecretRef};
use serde_json::{Map, Value};

pub use hash::spec_hash;
use leaves::Weight;
pub use read::{Contents, NamespaceReader, ReadError, ValuesReader};
pub use sensitive::SensitiveValues;

/// The default key of a `ConfigMap` or Secret.
pub const DEFAULT_KEY: &str = "values.yaml";

/// The sources of a release's values.
#[derive(Clone, Copy, Debug)]
pub struct ValuesSources<'a> {
    pub values_from: &'a [ValuesReference],
    /// YAML in base64.
    pub values: &'a str,
    pub values_ref: Option<&'a ValuesSecretRef>,
    /// The Secret was written by the platform for a request, so its values are not sensitive merely because they are in a Secret.
    pub is_values_ref_managed: bool,
    pub values_object: Option<&'a Map<String, Value>>,
}

impl<'a> ValuesSources<'a> {
    pub fn from_spec(spec: &'a HelmReleaseSpec) -> Self {
        Self {
            values_from: &spec.values_from,
            values: &spec.values,
            values_ref: spec.values_ref.as_ref(),
            is_values_ref_managed: spec.request_ref.is_some(),
            values_object: spec.values_object.as_ref(),
        }
    }
}

/// Merged values.
#[derive(Clone, PartialEq)]
pub struct MergedValues {
    pub values: Members,
    /// JSON pointers of the leaves that came from a tenant's Secret.
    pub from_secrets: BTreeSet<String>,
    /// MD5 of the values, or of the text if there is only one layer, as in KubeSphere.
    pub hash: String,
}

/// Omits the values, for logs.
impl fmt::Debug for MergedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// Why values cannot be read. Names paths, never content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ValuesError {
    /// The path in the spec, e.g. `spec.valuesFrom[1]`.
    pub place: String,
    pub why: String,
    kind: ErrorKind,
}

impl ValuesError {
    fn invalid(place: &str, why: impl Into<String>) -> Self {
        Self { place: place.to_owned(), why: why.into(), kind: ErrorKind::Invalid }
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// Why texts could not be fetched or merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadValuesError {
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The pool has no memory, slot or time for them.
    #[error("cannot read the values now: {0}")]
    Work(#[from] WorkError),
    /// The admission callback stopped the work.
    #[error("{0}")]
    Stopped(Str),
}

/// A layer before it is parsed.
struct ValuesLayer {
    place: String,
    text: Vec<u8>,
    /// The path of the single value that it sets.
    target_path: Option<String>,
    /// Whether it comes from a tenant's Secret.
    is_secret: bool,
}

/// The texts of all layers, in ascending precedence.
#[derive(Default)]
pub struct ValuesTexts {
    layers: Vec<ValuesLayer>,
    bytes: usize,
}

impl ValuesTexts {
    /// Total bytes of the texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A single text of a caller.
    pub fn single(place: &str, text: String) -> Self {
        let mut texts = Self::default();
        texts.push_unchecked(ValuesLayer {
            place: place.to_owned(),
            text: text.into_bytes(),
            target_path: None,
            is_secret: false,
        });
        texts
    }

    /// Adds a text with the highest precedence.
    #[must_use]
    pub fn with_override(mut self, place: &str, text: String) -> Self {
        self.push_unchecked(ValuesLayer {
            place: place.to_owned(),
            text: text.into_bytes(),
            target_path: None,
            is_secret: false,
        });
        self
    }

    fn push_unchecked(&mut self, layer: ValuesLayer) {
        self.bytes = self.bytes.saturating_add(layer.bytes());
        self.layers.push(layer);
    }

    /// Adds a layer. Fails if the total exceeds the limit, before the next text is fetched.
    fn push(&mut self, layer: ValuesLayer, reserve: &mut ReserveFn<'_>) -> Result<(), LoadValuesError> {
        let bytes = self.bytes.saturating_add(layer.bytes());
        if bytes > MAX_LAYERS_BYTES {
            let why = format!("the values of the release exceed {MAX_LAYERS_BYTES} bytes");
            return Err(ValuesError::invalid(&layer.place, why).into());
        }
        reserve(layer.bytes() as u64)?;
        self.push_unchecked(layer);
        Ok(())
    }
}

impl ValuesLayer {
    fn bytes(&self) -> usize {
        self.text.len().saturating_add(self.target_path.as_ref().map_or(0, String::len))
    }
}

/// Reserves memory for texts as they are fetched.
pub type ReserveFn<'r> = dyn FnMut(u64) -> Result<(), WorkError> + Send + 'r;

/// Fetches the texts of all layers. `theirs` reads references with the release's identity; `ours` reads values that the platform saved.
pub async fn fetch(
    layers: &ValuesSources<'_>,
    theirs: &impl ValuesReader,
    ours: &impl ValuesReader,
    reserve: &mut ReserveFn<'_>,
) -> Result<ValuesTexts, LoadValuesError> {
    let mut texts = ValuesTexts::default();
    for (index, reference) in layers.values_from.iter().enumerate() {
        let place = format!("spec.valuesFrom[{index}]");
        let key = reference.values_key.as_deref().unwrap_or(DEFAULT_KEY);
        let named = ValuesKeyRef { place: &place, kind: reference.kind, name: &reference.name, key };
        let Some(text) = named.read_text(theirs, reference.optional).await? else { continue };
        let (target, secret) = (reference.target_path.clone(), reference.kind == ValuesKind::Secret);
        texts.push(ValuesLayer { place, text, target_path: target, is_secret: secret }, reserve)?;
    }
    let full_layer = |place: &str, text, secret| ValuesLayer {
        place: place.to_owned(),
        text,
        target_path: None,
        is_secret: secret,
    };
    if !layers.values.is_empty() {
        let decoded = STANDARD.decode(layers.values.split_whitespace().collect::<String>());
        let text = decoded.map_err(|_| ValuesError::invalid("spec.values", "is not base64"))?;
        texts.push(full_layer("spec.values", text, false), reserve)?;
    }
    if let Some(ValuesSecretRef { name, key }) = layers.values_ref {
        let key = key.as_deref().unwrap_or(DEFAULT_KEY);
        let named = ValuesKeyRef { place: "spec.valuesRef", kind: ValuesKind::Secret, name, key };
        let text = if layers.is_values_ref_managed {
            named.read_text(ours, false).await?
        } else {
            named.read_text(theirs, false).await?
        };
        let text = text.unwrap_or_default();
        texts.push(full_layer("spec.valuesRef", text, !layers.is_values_ref_managed), reserve)?;
    }
    if let Some(object) = layers.values_object {
        // Through JSON, so that numbers are parsed as in a file.
        let text = Value::Object(object.clone()).to_string();
        texts.push(full_layer("spec.valuesObject", text.into_bytes(), false), reserve)?;
    }
    Ok(texts)
}

/// Merges all layers. Memory is reserved before it is allocated.
pub fn merge(texts: ValuesTexts, admission: &dyn Admission) -> Result<MergedValues, LoadValuesError> {
    let mut builder = ValuesBuilder::new(admission);
    for ValuesLayer { place, text, target_path: target, is_secret: secret } in texts.layers {
        admission.check().map_err(LoadValuesError::Stopped)?;
        match target {
            None => builder.add_layer(&place, &text, secret)?,
            Some(path) => builder.set_path(&place, &path, &text, secret)?,
        }
    }
    Ok(builder.finish())
}

/// A reference to one key of an object.
struct ValuesKeyRef<'a> {
    place: &'a str,
    kind: ValuesKind,
    name: &'a str,
    key: &'a str,
}

impl ValuesKeyRef<'_> {
    /// Reads the text; `None` if it is missing and optional.
    async fn read_text(
        &self,
        reader: &impl ValuesReader,
        optional: bool,
    ) -> Result<Option<Vec<u8>>, ValuesError> {
        let Self { place, kind, name, key } = self;
        let missing = |why: String| {
            if optional {
                return Ok(None);
            }
            Err(ValuesError { place: (*place).to_owned(), why, kind: ErrorKind::NotFound })
        };
        let contents = reader.read(*kind, name).await.map_err(|failed| ValuesError {
            place: (*place).to_owned(),
            why: format!("cannot read {kind:?} {name}: {}", failed.message),
            kind: failed.kind,
        })?;
        let Some(mut contents) = contents else {
            return missing(format!("{kind:?} {name} not found in the release's namespace"));
        };
        match contents.remove(*key) {
            Some(text) => Ok(Some(text)),
            None => missing(format!("{kind:?} {name} has no key {key}")),
        }
    }
}

/// Maximum bytes of all layers of a release.
const MAX_LAYERS_BYTES: usize = 4 << 20;

/// Maximum memory of the maps and lists of the merged values.
const MAX_PARSED_BYTES: usize = 8 << 20;
/// Maximum memory of the maps and lists of all parsed documents.
const MAX_DECODED_BYTES: usize = 64 << 20;

/// Maximum bytes of the leaves with their pointers: for one comparison, and over all comparisons.
const MAX_LEAVES_BYTES: usize = 32 << 20;
const MAX_COMPARED_BYTES: usize = 512 << 20;

/// Memory for parsing per byte of text.
const PARSED_FACTOR: usize = 32;
/// Additional memory for parsing a document with aliases: the parser permits them to expand to 400,000 values, and some more per byte of
/// text.
const ALIASES_BYTES: usize = 48 << 20;
const ALIASES_FACTOR: usize = 160;
/// Maximum length of a document with aliases.
const MAX_ALIASED_DOCUMENT_BYTES: usize = 256 << 10;

/// Accumulates layers.
struct ValuesBuilder<'a> {
    admission: &'a dyn Admission,
    /// Memory reserved so far.
    reserved: usize,
    /// Memory of all documents parsed so far.
    decoded: usize,
    /// Bytes of the texts so far.
    bytes: usize,
    /// Bytes of the leaves compared so far.
    compared: usize,
    values: Members,
    from_secrets: BTreeSet<String>,
    /// The text of the first layer while it is the only one.
    only: Option<Vec<u8>>,
    layers: usize,
}

impl<'a> ValuesBuilder<'a> {
    fn new(admission: &'a dyn Admission) -> Self {
        Self {
            admission,
            reserved: 0,
            decoded: 0,
            bytes: 0,
            compared: 0,
            values: Members::new(),
            from_secrets: BTreeSet::new(),
            only: None,
            layers: 0,
        }
    }

    /// Reserves memory for the texts so far and for `more`, minus the memory that is already reserved.
    fn ensure_reserved(&mut self, more: usize) -> Result<(), LoadValuesError> {
        let needed = self.bytes.saturating_mul(PARSED_FACTOR).saturating_add(more);
        let missing = needed.saturating_sub(self.reserved);
        if missing > 0 {
            self.admission.reserve(missing as u64).map_err(LoadValuesError::Stopped)?;
            self.reserved = needed;
        }
        Ok(())
    }

    fn add_layer(&mut self, place: &str, text: &[u8], secret: bool) -> Result<(), LoadValuesError> {
        self.count_bytes(place, text.len())?;
        let over = self.parse_documents(place, text)?;
        self.apply_layer(secret, |values| {
            overlay(values, over);
            Ok(())
        })?;
        self.count_layer(text);
        self.check_limits(place)
    }

    /// Parses all documents of a text and merges them. The error omits the parser's message, which may quote the text.
    fn parse_documents(&mut self, place: &str, text: &[u8]) -> Result<Members, LoadValuesError> {
        let no_map = || ValuesError::invalid(place, "the values must be a YAML map");
        let mut values = Members::new();
        for document in yaml::documents(text) {
            let document = document.map_err(|_| no_map())?;
            self.admission.check().map_err(LoadValuesError::Stopped)?;
            if has_aliases(&document) {
                if document.len() > MAX_ALIASED_DOCUMENT_BYTES {
                    let why =
                        format!("a YAML document with aliases exceeds {MAX_ALIASED_DOCUMENT_BYTES} bytes");
                    return Err(ValuesError::invalid(place, why).into());
                }
                self.ensure_reserved(
                    document.len().saturating_mul(ALIASES_FACTOR).saturating_add(ALIASES_BYTES),
                )?;
            }
            // All versions of Helm parse a single document alike.
            let over = read_values(&document, Profile::Helm3).map_err(|_| no_map())?;
            self.decoded = self.decoded.saturating_add(Weight::from_values(&over).structure);
            if self.decoded > MAX_DECODED_BYTES {
                let why = format!("the values exceed {MAX_DECODED_BYTES} bytes before merging");
                return Err(ValuesError::invalid(place, why).into());
            }
            overlay(&mut values, over);
        }
        Ok(values)
    }

    /// Sets one value as Flux does: `--set PATH=TEXT`, or `--set-string` if the text is quoted.
    fn set_path(
        &mut self,
        place: &str,
        path: &str,
        text: &[u8],
        secret: bool,
    ) -> Result<(), LoadValuesError> {
        let text =
            std::str::from_utf8(text).map_err(|_| ValuesError::invalid(place, "the value is not UTF-8"))?;
        let quoted = |quote: char| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
        let (kind, value) = if quoted('\'') || quoted('"') {
            (set::SetFlag::Text, text.trim_matches(['\'', '"']))
        } else {
            (set::SetFlag::Typed, text)
        };
        self.count_bytes(place, path.len().saturating_add(value.len()))?;
        let line = format!("{path}={value}");
        let no_file = &mut |_: &str| Err("files cannot be read here".into());
        self.apply_layer(secret, |values| {
            set::apply(kind, &line, values, Profile::Helm4, no_file)
                .map_err(|_| ValuesError::invalid(place, format!("cannot set the value at {path}")))
        })?;
        self.count_layer(line.as_bytes());
        self.check_limits(place)
    }

    /// Counts a text before it is parsed.
    fn count_bytes(&mut self, place: &str, bytes: usize) -> Result<(), LoadValuesError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_LAYERS_BYTES {
            let why = format!("the values of the release exceed {MAX_LAYERS_BYTES} bytes");
            return Err(ValuesError::invalid(place, why).into());
        }
        self.ensure_reserved(0)
    }

    /// Fails if the parsed values or their leaves exceed the limits.
    fn check_limits(&mut self, place: &str) -> Result<(), LoadValuesError> {
        if Weight::from_values(&self.values).structure > MAX_PARSED_BYTES {
            let why = format!("the parsed values exceed {MAX_PARSED_BYTES} bytes");
            return Err(ValuesError::invalid(place, why).into());
        }
        let bytes = leaves::bytes(&self.values);
        self.compared = self.compared.saturating_add(bytes);
        if bytes > MAX_LEAVES_BYTES || self.compared > MAX_COMPARED_BYTES {
            let why = format!("the values exceed {MAX_LEAVES_BYTES} bytes including the path of each value");
            return Err(ValuesError::invalid(place, why).into());
        }
        Ok(())
    }

    fn count_layer(&mut self, text: &[u8]) {
        self.only = (self.layers == 0).then(|| text.to_vec());
        self.layers = self.layers.saturating_add(1);
    }

    /// Applies a change and attributes the leaves that it changes to the layer.
    fn apply_layer(
        &mut self,
        secret: bool,
        change: impl FnOnce(&mut Members) -> Result<(), ValuesError>,
    ) -> Result<(), LoadValuesError> {
        if !secret && self.from_secrets.is_empty() {
            return Ok(change(&mut self.values)?);
        }
        self.ensure_reserved(self.compared_bytes())?;
        let before = leaves::collect(&self.values);
        change(&mut self.values)?;
        if leaves::bytes(&self.values) > MAX_LEAVES_BYTES {
            // The caller's `check` fails next.
            return Ok(());
        }
        self.ensure_reserved(self.compared_bytes().saturating_mul(3))?;
        let after = leaves::collect(&self.values);
        self.from_secrets.retain(|pointer| before.get(pointer) == after.get(pointer));
        if secret {
            let news = after.iter().filter(|(pointer, value)| before.get(*pointer) != Some(*value));
            self.from_secrets.extend(news.map(|(pointer, _)| pointer.clone()));
        }
        Ok(())
    }

    /// Memory of the values as leaves.
    fn compared_bytes(&self) -> usize {
        leaves::bytes(&self.values).saturating_add(Weight::from_values(&self.values).structure)
    }

    fn finish(self) -> MergedValues {
        let Self { values, from_secrets, only, .. } = self;
        let hash = match only {
            Some(text) => hash::md5(&text),
            None => hash::md5(canonical_json(&values).as_bytes()),
        };
        MergedValues { values, from_secrets, hash }
    }
}

/// Whether a document may contain aliases.
fn has_aliases(document: &[u8]) -> bool {
    document.contains(&b'&') && document.contains(&b'*')
}

/// Canonical JSON of the values.
fn canonical_json(values: &Members) -> String {
    json::write(&Data::Map(values.clone()), json::JsonStyle::Raw)
        .expect("values that were read from YAML can be written as JSON")
}

#[cfg(test)]
mod tests;
