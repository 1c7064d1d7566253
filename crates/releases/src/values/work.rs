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
    GatherError, Gathered, Layers, Reader, Sensitive, Texts, fetch, has_aliases, merge, schema, spec_hash,
};

/// Texts below this size are processed inline: they take less than a millisecond.
const INLINE_BYTES: usize = 8 << 10;
/// Time limit for the values of one release.
const DEADLINE: Duration = Duration::from_mins(1);
/// Copies of parsed values: in the operation, in the record that it builds, and in the one that it writes.
const COPIES: usize = 3;
/// Memory of a mask: `FORMS` bytes per byte of text for the encoded forms, and `AUTOMATON_FACTOR` bytes per byte of forms, of which at
/// most `AUTOMATON_BYTES` count.
const FORMS: usize = 12;
const AUTOMATON_FACTOR: usize = 40;
const AUTOMATON_BYTES: usize = 1 << 20;

/// The values of a release and what is derived from them.
pub struct ResolvedValues {
    pub values: Arc<Members>,
    pub hash: String,
    pub spec_hash: String,
    pub sensitive: Sensitive,
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
    pub fn hold(&self, bytes: u64) -> Result<ReservedBytes, WorkError> {
        Ok(self.renderer.operations().hold(&self.flow, bytes)?)
    }

    /// Fetches the texts of all layers, and reserves their bytes.
    pub async fn fetch(
        &self,
        layers: &Layers<'_>,
        theirs: &impl Reader,
        ours: &impl Reader,
    ) -> Result<(Texts, ReservedBytes), GatherError> {
        let pool = self.renderer.pool();
        let mut held = pool.reserve(pool.flow(self.flow.as_str()), 0).map_err(WorkError::from)?;
        let mut reserve = |bytes| held.grow(bytes).map_err(WorkError::from);
        let texts = fetch(layers, theirs, ours, &mut reserve).await?;
        Ok((texts, held))
    }

    /// Merges texts and processes the result: inline if they are short, else on the pool.
    pub async fn merge<T: Send + 'static>(
        &self,
        texts: Texts,
        work: impl FnOnce(Gathered, &dyn Admission) -> Result<T, GatherError> + Send + 'static,
    ) -> Result<T, GatherError> {
        if texts.bytes() < INLINE_BYTES && !texts.layers.iter().any(|layer| has_aliases(&layer.text)) {
            return work(merge(texts, &Unlimited)?, &Unlimited);
        }
        let pool = self.renderer.pool();
        let merged = pool.run(pool.flow(self.flow.as_str()), 0, DEADLINE, move |ticket| {
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
pub fn resolve(
    chart: &Chart,
    digest: &str,
    options: &impl Serialize,
    gathered: Gathered,
    admission: &dyn Admission,
) -> Result<ResolvedValues, GatherError> {
    let weight = Weight::of(&gathered.values);
    let schemas = schema::bytes(chart).saturating_mul(super::PARSED_FACTOR);
    reserve(admission, weight.bytes(COPIES).saturating_add(schemas))?;
    let spec_hash = spec_hash(digest, &gathered.values, options);
    let places = Sensitive::places(chart, &gathered);
    let masked = mask_bytes(&gathered.values, &places);
    reserve(admission, masked)?;
    let sensitive = Sensitive::at(places, &gathered.values, &[]);
    let bytes = weight.bytes(COPIES).saturating_add(masked) as u64;
    let Gathered { values, hash, .. } = gathered;
    Ok(ResolvedValues { values: Arc::new(values), hash, spec_hash, sensitive, bytes })
}

/// Approximate memory of the mask for the values at these pointers.
fn mask_bytes(values: &Members, places: &BTreeSet<String>) -> usize {
    let texts = leaves::within(values, places);
    let texts =
        texts.into_iter().map(|leaf| leaf.as_str().map_or(0, str::len)).fold(0, usize::saturating_add);
    let forms = texts.saturating_mul(FORMS);
    let automaton = forms.min(AUTOMATON_BYTES).saturating_mul(AUTOMATON_FACTOR);
    let pointers = places.iter().map(String::len).fold(0, usize::saturating_add);
    forms.saturating_add(automaton).saturating_add(pointers)
}

fn reserve(admission: &dyn Admission, bytes: usize) -> Result<(), GatherError> {
    admission.reserve(bytes as u64).map_err(GatherError::Stopped)
}
