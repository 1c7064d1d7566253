//! The values of a release: layers from several sources, merged as Helm merges values files.
//!
//! In ascending precedence: `valuesFrom` in its order, `values` (base64), `valuesRef`, `valuesObject`.
//!
//! Texts are fetched first and merged afterwards on the renderer's pool ([`work`]), because parsed values take many times the memory of
//! their text.
//!
//! Invariants: an error names the reference and never its content. [`Gathered`] records which leaves came from a tenant's Secret.
//!
//! See also: reading references with the right client ([`read`]), masking ([`sensitive`]).

pub(crate) mod hash;
pub(crate) mod leaves;
pub mod read;
mod schema;
pub mod sensitive;
pub(crate) mod work;

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Kind;
use helm_chart::set;
use helm_chart::values::{overlay, read as read_values};
use helm_release::render::share::WorkError;
use helm_template::budget::Admission;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::{json, yaml};
use kube_types::release::{HelmReleaseSpec, Reference, ValuesKind, ValuesReference};
use serde_json::{Map, Value};

pub use hash::spec_hash;
use leaves::Weight;
pub use read::{Contents, InNamespace, Reader, Unread};
pub use sensitive::Sensitive;

/// The default key of a `ConfigMap` or Secret.
pub const KEY: &str = "values.yaml";

/// The sources of a release's values.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    pub values_from: &'a [ValuesReference],
    /// YAML in base64.
    pub values: &'a str,
    pub values_ref: Option<&'a Reference>,
    /// The Secret was written by the platform for a request, so its values are not sensitive merely because they are in a Secret.
    pub values_ref_is_ours: bool,
    pub values_object: Option<&'a Map<String, Value>>,
}

impl<'a> Layers<'a> {
    pub fn of(spec: &'a HelmReleaseSpec) -> Self {
        Self {
            values_from: &spec.values_from,
            values: &spec.values,
            values_ref: spec.values_ref.as_ref(),
            values_ref_is_ours: spec.request_ref.is_some(),
            values_object: spec.values_object.as_ref(),
        }
    }
}

/// Merged values.
#[derive(Clone, PartialEq)]
pub struct Gathered {
    pub values: Members,
    /// JSON pointers of the leaves that came from a tenant's Secret.
    pub from_secrets: BTreeSet<String>,
    /// MD5 of the values, or of the text if there is only one layer, as in KubeSphere.
    pub hash: String,
}

/// Omits the values, for logs.
impl fmt::Debug for Gathered {
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
    kind: Kind,
}

impl ValuesError {
    fn invalid(place: &str, why: impl Into<String>) -> Self {
        Self { place: place.to_owned(), why: why.into(), kind: Kind::Invalid }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// Why texts could not be fetched or merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The pool has no memory, slot or time for them.
    #[error("the values cannot be read now: {0}")]
    Work(#[from] WorkError),
    /// The admission callback stopped the work.
    #[error("{0}")]
    Stopped(Str),
}

/// A layer before it is parsed.
struct Layer {
    place: String,
    text: Vec<u8>,
    /// The path of the single value that it sets.
    target: Option<String>,
    /// Whether it comes from a tenant's Secret.
    secret: bool,
}

/// The texts of all layers, in ascending precedence.
#[derive(Default)]
pub struct Texts {
    layers: Vec<Layer>,
    bytes: usize,
}

impl Texts {
    /// Total bytes of the texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A single text of a caller.
    pub fn one(place: &str, text: String) -> Self {
        let mut texts = Self::default();
        texts.push_unchecked(Layer {
            place: place.to_owned(),
            text: text.into_bytes(),
            target: None,
            secret: false,
        });
        texts
    }

    /// Adds a text with the highest precedence.
    #[must_use]
    pub fn over(mut self, place: &str, text: String) -> Self {
        self.push_unchecked(Layer {
            place: place.to_owned(),
            text: text.into_bytes(),
            target: None,
            secret: false,
        });
        self
    }

    fn push_unchecked(&mut self, layer: Layer) {
        self.bytes = self.bytes.saturating_add(layer.bytes());
        self.layers.push(layer);
    }

    /// Adds a layer. Fails if the total exceeds the limit, before the next text is fetched.
    fn push(&mut self, layer: Layer, reserve: &mut Reserve<'_>) -> Result<(), GatherError> {
        let bytes = self.bytes.saturating_add(layer.bytes());
        if bytes > LAYERS_BYTES {
            let why = format!("the values of the release exceed {LAYERS_BYTES} bytes");
            return Err(ValuesError::invalid(&layer.place, why).into());
        }
        reserve(layer.bytes() as u64)?;
        self.push_unchecked(layer);
        Ok(())
    }
}

impl Layer {
    fn bytes(&self) -> usize {
        self.text.len().saturating_add(self.target.as_ref().map_or(0, String::len))
    }
}

/// Reserves memory for texts as they are fetched.
pub type Reserve<'r> = dyn FnMut(u64) -> Result<(), WorkError> + Send + 'r;

/// Fetches the texts of all layers. `theirs` reads references with the release's identity; `ours` reads values that the platform saved.
pub async fn fetch(
    layers: &Layers<'_>,
    theirs: &impl Reader,
    ours: &impl Reader,
    reserve: &mut Reserve<'_>,
) -> Result<Texts, GatherError> {
    let mut texts = Texts::default();
    for (index, reference) in layers.values_from.iter().enumerate() {
        let place = format!("spec.valuesFrom[{index}]");
        let key = reference.values_key.as_deref().unwrap_or(KEY);
        let named = Named { place: &place, kind: reference.kind, name: &reference.name, key };
        let Some(text) = named.text(theirs, reference.optional).await? else { continue };
        let (target, secret) = (reference.target_path.clone(), reference.kind == ValuesKind::Secret);
        texts.push(Layer { place, text, target, secret }, reserve)?;
    }
    let whole = |place: &str, text, secret| Layer { place: place.to_owned(), text, target: None, secret };
    if !layers.values.is_empty() {
        let decoded = STANDARD.decode(layers.values.split_whitespace().collect::<String>());
        let text = decoded.map_err(|_| ValuesError::invalid("spec.values", "is not base64"))?;
        texts.push(whole("spec.values", text, false), reserve)?;
    }
    if let Some(Reference { name, key }) = layers.values_ref {
        let key = key.as_deref().unwrap_or(KEY);
        let named = Named { place: "spec.valuesRef", kind: ValuesKind::Secret, name, key };
        let text = if layers.values_ref_is_ours {
            named.text(ours, false).await?
        } else {
            named.text(theirs, false).await?
        };
        let text = text.unwrap_or_default();
        texts.push(whole("spec.valuesRef", text, !layers.values_ref_is_ours), reserve)?;
    }
    if let Some(object) = layers.values_object {
        // Through JSON, so that numbers are parsed as in a file.
        let text = Value::Object(object.clone()).to_string();
        texts.push(whole("spec.valuesObject", text.into_bytes(), false), reserve)?;
    }
    Ok(texts)
}

/// Merges all layers. Memory is reserved before it is allocated.
pub fn merge(texts: Texts, admission: &dyn Admission) -> Result<Gathered, GatherError> {
    let mut pile = Pile::new(admission);
    for Layer { place, text, target, secret } in texts.layers {
        admission.check().map_err(GatherError::Stopped)?;
        match target {
            None => pile.lay(&place, &text, secret)?,
            Some(path) => pile.set(&place, &path, &text, secret)?,
        }
    }
    Ok(pile.gathered())
}

/// A reference to one key of an object.
struct Named<'a> {
    place: &'a str,
    kind: ValuesKind,
    name: &'a str,
    key: &'a str,
}

impl Named<'_> {
    /// Reads the text; `None` if it is missing and optional.
    async fn text(&self, reader: &impl Reader, optional: bool) -> Result<Option<Vec<u8>>, ValuesError> {
        let Self { place, kind, name, key } = self;
        let missing = |why: String| {
            if optional {
                return Ok(None);
            }
            Err(ValuesError { place: (*place).to_owned(), why, kind: Kind::NotFound })
        };
        let contents = reader.read(*kind, name).await.map_err(|failed| ValuesError {
            place: (*place).to_owned(),
            why: format!("cannot read {kind:?} {name}: {}", failed.why),
            kind: failed.kind,
        })?;
        let Some(mut contents) = contents else {
            return missing(format!("there is no {kind:?} {name} in the release's namespace"));
        };
        match contents.remove(*key) {
            Some(text) => Ok(Some(text)),
            None => missing(format!("{kind:?} {name} has no key {key}")),
        }
    }
}

/// Maximum bytes of all layers of a release.
const LAYERS_BYTES: usize = 4 << 20;

/// Maximum memory of the maps and lists of the merged values.
const PARSED_BYTES: usize = 8 << 20;
/// Maximum memory of the maps and lists of all parsed documents.
const DECODED_BYTES: usize = 64 << 20;

/// Maximum bytes of the leaves with their pointers: for one comparison, and over all comparisons.
const LEAVES_BYTES: usize = 32 << 20;
const COMPARED_BYTES: usize = 512 << 20;

/// Memory for parsing per byte of text.
const PARSED_FACTOR: usize = 32;
/// Additional memory for parsing a document with aliases: the parser permits them to expand to 400,000 values, and some more per byte of
/// text.
const ALIASES_BYTES: usize = 48 << 20;
const ALIASES_FACTOR: usize = 160;
/// Maximum length of a document with aliases.
const ALIASED_BYTES: usize = 256 << 10;

/// Accumulates layers.
struct Pile<'a> {
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

impl<'a> Pile<'a> {
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

    /// Reserves memory for the texts so far and for `more`, minus what is reserved already.
    fn ensure(&mut self, more: usize) -> Result<(), GatherError> {
        let needed = self.bytes.saturating_mul(PARSED_FACTOR).saturating_add(more);
        let missing = needed.saturating_sub(self.reserved);
        if missing > 0 {
            self.admission.reserve(missing as u64).map_err(GatherError::Stopped)?;
            self.reserved = needed;
        }
        Ok(())
    }

    fn lay(&mut self, place: &str, text: &[u8], secret: bool) -> Result<(), GatherError> {
        self.grow(place, text.len())?;
        let over = self.read(place, text)?;
        self.changed(secret, |values| {
            overlay(values, over);
            Ok(())
        })?;
        self.count(text);
        self.check(place)
    }

    /// Parses all documents of a text and merges them. The error omits the parser's message, which may quote the text.
    fn read(&mut self, place: &str, text: &[u8]) -> Result<Members, GatherError> {
        let no_map = || ValuesError::invalid(place, "the values are no YAML, or no map");
        let mut values = Members::new();
        for document in yaml::documents(text) {
            let document = document.map_err(|_| no_map())?;
            self.admission.check().map_err(GatherError::Stopped)?;
            if has_aliases(&document) {
                if document.len() > ALIASED_BYTES {
                    let why = format!("a document with aliases exceeds {ALIASED_BYTES} bytes");
                    return Err(ValuesError::invalid(place, why).into());
                }
                self.ensure(document.len().saturating_mul(ALIASES_FACTOR).saturating_add(ALIASES_BYTES))?;
            }
            // All versions of Helm parse a single document alike.
            let over = read_values(&document, Profile::Helm3).map_err(|_| no_map())?;
            self.decoded = self.decoded.saturating_add(Weight::of(&over).structure);
            if self.decoded > DECODED_BYTES {
                let why = format!("the values take more than {DECODED_BYTES} bytes before they are merged");
                return Err(ValuesError::invalid(place, why).into());
            }
            overlay(&mut values, over);
        }
        Ok(values)
    }

    /// Sets one value as Flux does: `--set PATH=TEXT`, or `--set-string` if the text is quoted.
    fn set(&mut self, place: &str, path: &str, text: &[u8], secret: bool) -> Result<(), GatherError> {
        let text =
            std::str::from_utf8(text).map_err(|_| ValuesError::invalid(place, "the value is no text"))?;
        let quoted = |quote: char| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
        let (kind, value) = if quoted('\'') || quoted('"') {
            (set::Kind::Text, text.trim_matches(['\'', '"']))
        } else {
            (set::Kind::Typed, text)
        };
        self.grow(place, path.len().saturating_add(value.len()))?;
        let line = format!("{path}={value}");
        let no_file = &mut |_: &str| Err("no file is read here".into());
        self.changed(secret, |values| {
            set::apply(kind, &line, values, Profile::Helm4, no_file)
                .map_err(|_| ValuesError::invalid(place, format!("the value cannot be set at {path}")))
        })?;
        self.count(line.as_bytes());
        self.check(place)
    }

    /// Counts a text before it is parsed.
    fn grow(&mut self, place: &str, bytes: usize) -> Result<(), GatherError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > LAYERS_BYTES {
            let why = format!("the values of the release exceed {LAYERS_BYTES} bytes");
            return Err(ValuesError::invalid(place, why).into());
        }
        self.ensure(0)
    }

    /// Fails if the parsed values or their leaves exceed the limits.
    fn check(&mut self, place: &str) -> Result<(), GatherError> {
        if Weight::of(&self.values).structure > PARSED_BYTES {
            let why = format!("the parsed values take more than {PARSED_BYTES} bytes");
            return Err(ValuesError::invalid(place, why).into());
        }
        let bytes = leaves::bytes(&self.values);
        self.compared = self.compared.saturating_add(bytes);
        if bytes > LEAVES_BYTES || self.compared > COMPARED_BYTES {
            let why =
                format!("the values exceed {LEAVES_BYTES} bytes with the paths that lead to each of them");
            return Err(ValuesError::invalid(place, why).into());
        }
        Ok(())
    }

    fn count(&mut self, text: &[u8]) {
        self.only = (self.layers == 0).then(|| text.to_vec());
        self.layers = self.layers.saturating_add(1);
    }

    /// Applies a change and attributes the leaves that it changes to the layer.
    fn changed(
        &mut self,
        secret: bool,
        change: impl FnOnce(&mut Members) -> Result<(), ValuesError>,
    ) -> Result<(), GatherError> {
        if !secret && self.from_secrets.is_empty() {
            return Ok(change(&mut self.values)?);
        }
        self.ensure(self.compared_bytes())?;
        let before = leaves::of(&self.values);
        change(&mut self.values)?;
        if leaves::bytes(&self.values) > LEAVES_BYTES {
            // The caller's `check` fails next.
            return Ok(());
        }
        self.ensure(self.compared_bytes().saturating_mul(3))?;
        let after = leaves::of(&self.values);
        self.from_secrets.retain(|pointer| before.get(pointer) == after.get(pointer));
        if secret {
            let news = after.iter().filter(|(pointer, value)| before.get(*pointer) != Some(*value));
            self.from_secrets.extend(news.map(|(pointer, _)| pointer.clone()));
        }
        Ok(())
    }

    /// Memory of the values as leaves.
    fn compared_bytes(&self) -> usize {
        leaves::bytes(&self.values).saturating_add(Weight::of(&self.values).structure)
    }

    fn gathered(self) -> Gathered {
        let Self { values, from_secrets, only, .. } = self;
        let hash = match only {
            Some(text) => hash::md5(&text),
            None => hash::md5(canonical(&values).as_bytes()),
        };
        Gathered { values, from_secrets, hash }
    }
}

/// Whether a document may contain aliases.
fn has_aliases(document: &[u8]) -> bool {
    document.contains(&b'&') && document.contains(&b'*')
}

/// Canonical JSON of the values.
fn canonical(values: &Members) -> String {
    json::write(&Data::Map(values.clone()), json::Style::Raw)
        .expect("values that were read from YAML can be written as JSON")
}

#[cfg(test)]
mod tests;
