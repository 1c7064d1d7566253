//! The values of a release: layers from several places, one over the other, as Helm lays files of values over each other.
//!
//! From the weakest: `valuesFrom` in its order, `values` (base64), `valuesRef`, `valuesObject`.
//!
//! Always true: an error names the reference, and nothing of what stands there; [`Gathered`] knows which of its leaves came
//! from a Secret of somebody's.
//! Elsewhere: who may read a reference ([`read`]: whose client it is), what of all this nobody may see ([`sensitive`]).

pub(crate) mod hash;
mod leaves;
pub mod read;
mod schema;
pub mod sensitive;

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Kind;
use helm_chart::set;
use helm_chart::values::{overlay, read as read_values};
use helm_template::data::{Data, Members};
use helm_template::json;
use helm_template::profile::Profile;
use kube_types::release::{HelmReleaseSpec, Reference, ValuesKind, ValuesReference};
use serde_json::{Map, Value};

pub use hash::spec_hash;
pub use read::{Contents, InNamespace, Reader, Unread};
pub use sensitive::Sensitive;

/// The key of a ConfigMap or Secret that has the values, where nothing else is said.
pub const KEY: &str = "values.yaml";

/// Where the values of a release are.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    pub values_from: &'a [ValuesReference],
    /// YAML in base64.
    pub values: &'a str,
    pub values_ref: Option<&'a Reference>,
    /// We wrote that Secret ourselves, to keep what came through a door: nothing in it is a secret for being there.
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

/// All values together.
#[derive(Clone, PartialEq)]
pub struct Gathered {
    pub values: Members,
    /// Which leaves came from a Secret of somebody's, as JSON pointers.
    pub from_secrets: BTreeSet<String>,
    /// The md5 of the values: of the text where there is but one, as KubeSphere has it.
    pub hash: String,
}

/// Values are not for logs.
impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// Why the values cannot be had. The words name places, and repeat nothing of what stands there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ValuesError {
    /// `spec.valuesFrom[1]`
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

/// All layers together. `theirs` reads what the release refers to, as the release's own identity; `ours` reads what we
/// keep for it.
pub async fn gather(
    layers: &Layers<'_>,
    theirs: &impl Reader,
    ours: &impl Reader,
) -> Result<Gathered, ValuesError> {
    let mut pile = Pile::default();
    for (index, reference) in layers.values_from.iter().enumerate() {
        let place = format!("spec.valuesFrom[{index}]");
        let key = reference.values_key.as_deref().unwrap_or(KEY);
        let named = Named { place: &place, kind: reference.kind, name: &reference.name, key };
        let Some(text) = named.text(theirs, reference.optional).await? else { continue };
        let secret = reference.kind == ValuesKind::Secret;
        match reference.target_path.as_deref() {
            None => pile.lay(&place, &text, secret)?,
            Some(path) => pile.set(&place, path, &text, secret)?,
        }
    }
    if !layers.values.is_empty() {
        let decoded = STANDARD.decode(layers.values.split_whitespace().collect::<String>());
        let text = decoded.map_err(|_| ValuesError::invalid("spec.values", "is not base64"))?;
        pile.lay("spec.values", &text, false)?;
    }
    if let Some(Reference { name, key }) = layers.values_ref {
        let key = key.as_deref().unwrap_or(KEY);
        let named = Named { place: "spec.valuesRef", kind: ValuesKind::Secret, name, key };
        let text = if layers.values_ref_is_ours {
            named.text(ours, false).await?
        } else {
            named.text(theirs, false).await?
        };
        pile.lay("spec.valuesRef", &text.unwrap_or_default(), !layers.values_ref_is_ours)?;
    }
    if let Some(object) = layers.values_object {
        // By way of JSON, so that numbers are what they would be in a file.
        let text = Value::Object(object.clone()).to_string();
        pile.lay("spec.valuesObject", text.as_bytes(), false)?;
    }
    Ok(pile.gathered())
}

/// A key of an object that is referred to.
struct Named<'a> {
    place: &'a str,
    kind: ValuesKind,
    name: &'a str,
    key: &'a str,
}

impl Named<'_> {
    /// What stands there; `None` if it is missing and may be.
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

/// Bytes of all layers of a release together, as their texts have them.
const LAYERS_BYTES: usize = 8 << 20;

/// Bytes of the values leaf by leaf, each with its pointer: once, and over all layers that are compared so.
const LEAVES_BYTES: usize = 32 << 20;
const COMPARED_BYTES: usize = 512 << 20;

/// Layers as they are laid.
#[derive(Default)]
struct Pile {
    /// Bytes of the texts so far.
    bytes: usize,
    /// Bytes of leaves that were compared so far.
    compared: usize,
    values: Members,
    from_secrets: BTreeSet<String>,
    /// The text of the only layer so far.
    only: Option<Vec<u8>>,
    layers: usize,
}

impl Pile {
    fn lay(&mut self, place: &str, text: &[u8], secret: bool) -> Result<(), ValuesError> {
        self.grow(place, text.len())?;
        // What a parser says may quote the text; that there is something wrong has to do.
        let over = read_values(text, Profile::Helm4)
            .map_err(|_| ValuesError::invalid(place, "the values are no YAML, or no map"))?;
        self.changed(secret, |values| {
            overlay(values, over);
            Ok(())
        })?;
        self.count(text);
        self.check(place)
    }

    /// As Flux does it: `--set PATH=TEXT`, or `--set-string` if the text is in quotes.
    fn set(&mut self, place: &str, path: &str, text: &[u8], secret: bool) -> Result<(), ValuesError> {
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

    /// Counts a text before it is read.
    fn grow(&mut self, place: &str, bytes: usize) -> Result<(), ValuesError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= LAYERS_BYTES {
            return Ok(());
        }
        Err(ValuesError::invalid(place, format!("the values of the release exceed {LAYERS_BYTES} bytes")))
    }

    /// Refuses values that take too much leaf by leaf, which is how they are compared and masked.
    fn check(&mut self, place: &str) -> Result<(), ValuesError> {
        let bytes = leaves::bytes(&self.values);
        self.compared = self.compared.saturating_add(bytes);
        if bytes > LEAVES_BYTES || self.compared > COMPARED_BYTES {
            let why =
                format!("the values exceed {LEAVES_BYTES} bytes with the paths that lead to each of them");
            return Err(ValuesError::invalid(place, why));
        }
        Ok(())
    }

    fn count(&mut self, text: &[u8]) {
        self.only = (self.layers == 0).then(|| text.to_vec());
        self.layers = self.layers.saturating_add(1);
    }

    /// Leaves that a change makes other than they were are the layer's.
    fn changed(
        &mut self,
        secret: bool,
        change: impl FnOnce(&mut Members) -> Result<(), ValuesError>,
    ) -> Result<(), ValuesError> {
        if !secret && self.from_secrets.is_empty() {
            return change(&mut self.values);
        }
        let before = leaves::of(&self.values);
        change(&mut self.values)?;
        if leaves::bytes(&self.values) > LEAVES_BYTES {
            // Refused right after this.
            return Ok(());
        }
        let after = leaves::of(&self.values);
        self.from_secrets.retain(|pointer| before.get(pointer) == after.get(pointer));
        if secret {
            let news = after.iter().filter(|(pointer, value)| before.get(*pointer) != Some(*value));
            self.from_secrets.extend(news.map(|(pointer, _)| pointer.clone()));
        }
        Ok(())
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

/// Values as JSON, the same for the same values.
fn canonical(values: &Members) -> String {
    json::write(&Data::Map(values.clone()), json::Style::Raw)
        .expect("values that were read from YAML can be written as JSON")
}

#[cfg(test)]
mod tests;
