//! Parses, merges and evaluates values on the renderer's pool, in the share of a flow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use helm_chart::chart::Chart;
use helm_release::render::ReservedBytes;
use helm_release::render::share::WorkError;
use helm_release::render::{PoolAdmission, Renderer};
use helm_template::budget::{Admission, Unlimited};
use helm_template::data::Members;
use serde::Serialize;

use super::leaves::{self, Weight};
use super::{
    LoadValuesError, MergedValues, SensitiveValues, ValuesReader, ValuesSources, ValuesTexts, fetch,
    has_aliases, merge, schema, spec_hash,
};

/// Texts below this size are processed inline: they take less than a millisecond.
const MAX_INLINE_BYTES: usize = 8 << 10;
/// Time limit for the values of one release.
const MERGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Copies of parsed values: in the operation, in the record that it builds, and in the record that it writes.
const VALUES_COPIES: usize = 3;
/// Memory of a mask: `ENCODED_FORMS_FACTOR` bytes per byte of text for the encoded forms, and `AUTOMATON_FACTOR` bytes per byte of
/// forms, of which at most `MAX_AUTOMATON_BYTES` count.
const ENCODED_FORMS_FACTOR: usize = 12;
const AUTOMATON_FACTOR: usize = 40;
const MAX_AUTOMATON_BYTES: usize = 1 << 20;

/// The values of a release and data derived from them.
pub struct ResolvedValues {
    pub values: Arc<Members>,
    pub hash: String,
    pub spec_hash: String,
    pub sensitive: SensitiveValues,
    /// The memory of all of it while an operation holds it.
    pub bytes: u64,
}

/// The renderer's pool for one flow.
#[derive(Clone)]
pub struct ValuesPool {
    renderer: Renderer,
    flow: String,
}

impl ValuesPool {
    pub fn new(renderer: &Renderer, flow: &str) -> Self {
        Self { renderer: renderer.clone(), flow: flow.to_owned() }
    }

    /// Reserves the memory that an operation holds.
    pub fn reserve_operation(&self, bytes: u64) -> Result<ReservedBytes, WorkError> {
        Ok(self.renderer.operations().reserve(&self.flow, bytes)?)
    }

    /// Fetches the texts of all layers, and reserves their bytes.
    pub async fn fetch(
        &self,
        layers: &ValuesSources<'_>,
        theirs: &impl ValuesReader,
        ours: &impl ValuesReader,
    ) -> Result<(ValuesTexts, ReservedBytes), LoadValuesError> {
        let pool = self.renderer.pool();
        let mut held = pool.reserve(pool.flow(self.flow.as_str()), 0).map_err(WorkError::from)?;
        let mut reserve = |bytes| held.grow(bytes).map_err(WorkError::from);
        let texts = fetch(layers, theirs, ours, &mut reserve).await?;
        Ok((texts, held))
    }

    /// Merges texts and processes the result: inline if they are short, else on the pool.
    pub async fn merge<T: Send + 'static>(
        &self,
        texts: ValuesTexts,
        work: impl FnOnce(MergedValues, &dyn Admission) -> Result<T, LoadValuesError> + Send + 'static,
    ) -> Result<T, LoadValuesError> {
        if texts.bytes() < MAX_INLINE_BYTES && !texts.layers.iter().any(|layer| has_aliases(&layer.text)) {
            return work(merge(texts, &Unlimited)?, &Unlimited);
        }
        let pool = self.renderer.pool();
        let merged = pool.run(pool.flow(self.flow.as_str()), 0, MERGE_TIMEOUT, move |ticket| {
            let admission = PoolAdmission::new(ticket);
            let done = merge(texts, &admission).and_then(|gathered| work(gathered, &admission));
            match (done, admission.failure()) {
                (Err(_), Some(error)) => Err(error.into()),
                (done, _) => done,
            }
        });
        merged.await?
    }
}

/// Derives hashes and mask from the values of a release of this chart.
pub fn resolve_values(
    chart: &Chart,
    digest: &str,
    options: &impl Serialize,
    gathered: MergedValues,
    admission: &dyn Admission,
) -> Result<ResolvedValues, LoadValuesError> {
    let weight = Weight::from_values(&gathered.values);
    let schemas = schema::schema_bytes(chart).saturating_mul(super::PARSED_FACTOR);
    reserve(admission, weight.bytes(VALUES_COPIES).saturating_add(schemas))?;
    let spec_hash = spec_hash(digest, &gathered.values, options);
    let places = SensitiveValues::sensitive_pointers(chart, &gathered);
    let masked = mask_bytes(&gathered.values, &places);
    reserve(admission, masked)?;
    let sensitive = SensitiveValues::from_pointers(places, &gathered.values, &[]);
    let bytes = weight.bytes(VALUES_COPIES).saturating_add(masked) as u64;
    let MergedValues { values, hash, .. } = gathered;
    Ok(ResolvedValues { values: Arc::new(values), hash, spec_hash, sensitive, bytes })
}

/// Approximate memory of the mask for the values at these pointers.
fn mask_bytes(values: &Members, places: &BTreeSet<String>) -> usize {
    let texts = leaves::leaves_below(values, places);
    let texts =
        texts.into_iter().map(|leaf| leaf.as_str().map_or(0, str::len)).fold(0, usize::saturating_add);
    let forms = texts.saturating_mul(ENCODED_FORMS_FACTOR);
    let automaton = forms.min(MAX_AUTOMATON_BYTES).saturating_mul(AUTOMATON_FACTOR);
    let pointers = places.iter().map(String::len).fold(0, usize::saturating_add);
    forms.saturating_add(automaton).saturating_add(pointers)
}

fn reserve(admission: &dyn Admission, bytes: usize) -> Result<(), LoadValuesError> {
    admission.reserve(bytes as u64).map_err(LoadValuesError::Stopped)
}
