//! CRDs of a chart's `crds/` directory: created and established before other objects, never updated.

use std::sync::Arc;

use domain::ErrorKind;
use helm_chart::{Chart, dependencies};
use helm_template::budget::{Budget, RenderLimits, VALUE_BYTES};
use helm_template::data::Members;
use helm_template::profile::Profile;
use kube_apply::{ApplyOptions, ApplyStrategy, Discovery, Object, apply, read_live};
use serde_json::Value;

use super::operation::Operation;
use crate::error::Error;
use crate::render::{PoolAdmission, PreparedChart, RenderError, ReservedBytes};

/// Parsed CRDs. Their memory stays reserved until they are dropped.
#[derive(Default)]
pub struct ParsedCrds {
    pub objects: Vec<Object>,
    _reserved: Option<ReservedBytes>,
}

/// Returns the CRDs of a chart and its enabled subcharts that the cluster does not serve yet. Makes no calls if the
/// chart has no CRDs, the usual case.
pub async fn find_missing(
    operation: &Operation<'_>,
    chart: &Arc<PreparedChart>,
    values: &Arc<Members>,
    profile: Profile,
) -> Result<ParsedCrds, Error> {
    if !has_crds(chart.chart()) {
        return Ok(ParsedCrds::default());
    }
    let reserved = operation.share().reserve_objects(crd_bytes(chart.chart())).map_err(RenderError::from)?;
    let (chart, values) = (chart.clone(), values.clone());
    let flow = operation.helm.flow.as_deref().unwrap_or(operation.namespace);
    let read = operation.helm.renderer.run(flow, move |ticket| {
        let admission = PoolAdmission::new(ticket);
        let budget = Budget::new(RenderLimits::default(), &admission);
        let read = parse_crds(chart.chart(), &values, profile, &budget);
        admission.failure().map_or(read, |error| Err(Error::Render(error.into())))
    });
    let mut objects = read.await.map_err(Error::Render)??;
    objects.retain(|object| !is_served(object, &operation.target.discovery));
    if objects.is_empty() {
        return Ok(ParsedCrds::default());
    }
    let found = read_live(&operation.crd_target(), &objects).await.map_err(|failure| Error::Crd {
        file: failure.source.clone().unwrap_or_default(),
        kind: failure.kind(),
        why: failure.to_string(),
    })?;
    let missing = found.into_iter().filter(|live| live.value.is_none()).map(|live| live.object);
    Ok(ParsedCrds { objects: missing.collect(), _reserved: reserved })
}

/// Parses all CRDs.
fn parse_crds(
    chart: &Chart,
    values: &Members,
    profile: Profile,
    budget: &Budget<'_>,
) -> Result<Vec<Object>, Error> {
    let settled = dependencies::prepare(chart, values, profile, budget, &mut Vec::new());
    // Errors of dependencies are reported by the rendering, with Helm's messages.
    let Ok(settled) = settled else { return Ok(Vec::new()) };
    let mut objects = Vec::new();
    collect_crds(&settled, &mut objects, budget)?;
    Ok(objects)
}

/// Creates CRDs and waits until the cluster serves their kinds.
pub async fn create_and_wait(operation: &Operation<'_>, definitions: &[Object]) -> Result<(), Error> {
    let options = ApplyOptions::new(ApplyStrategy::ServerSide { force_conflicts: false });
    let made = apply(&operation.crd_target(), &[], definitions, &options, operation.options.progress).await;
    made.map(|_| ()).map_err(|error| {
        let source = error.failures.first().and_then(|failure| failure.source.clone());
        Error::Crd { file: source.unwrap_or_default(), kind: error.kind(), why: error.to_string() }
    })
}

/// Total size of the CRD files of a chart and its subcharts.
fn crd_bytes(chart: &Chart) -> usize {
    let own = chart.crds().map(|file| file.data.len());
    own.chain(chart.dependencies.iter().map(crd_bytes)).fold(0, usize::saturating_add)
}

fn has_crds(chart: &Chart) -> bool {
    chart.crds().next().is_some() || chart.dependencies.iter().any(has_crds)
}

fn collect_crds(chart: &Chart, objects: &mut Vec<Object>, budget: &Budget<'_>) -> Result<(), Error> {
    for file in chart.crds() {
        let wrong = |why: &str| Error::Crd {
            file: file.name.to_string(),
            why: why.to_owned(),
            kind: ErrorKind::Invalid,
        };
        // A value takes at least two bytes of YAML; the number of punctuation characters bounds the number of values.
        let marks = file.data.iter().filter(|byte| b",:-[{\n".contains(byte)).count();
        let counted = budget.allocate_values(marks.saturating_add(file.data.len() / VALUE_BYTES));
        counted.map_err(|why| wrong(&format!("definitions of chart {}: {why}", chart.metadata.name)))?;
        let parsed = Object::parse_all(&String::from_utf8_lossy(&file.data));
        let parsed = parsed.map_err(|error| wrong(&error.to_string()))?;
        if parsed.is_empty() {
            return Err(wrong("resources are empty"));
        }
        objects.extend(parsed.into_iter().map(|object| object.with_source(Some(file.name.to_string()))));
    }
    chart.dependencies.iter().try_for_each(|child| collect_crds(child, objects, budget))
}

/// Whether the cluster serves every version of the kind that a CRD defines.
fn is_served(definition: &Object, discovery: &Discovery) -> bool {
    let spec = &definition.value()["spec"];
    let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) else {
        return false;
    };
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut served = versions.iter().filter(|version| version["served"] != Value::Bool(false)).peekable();
    served.peek().is_some()
        && served.all(|version| {
            let name = version["name"].as_str().unwrap_or_default();
            discovery.get_cached(&format!("{group}/{name}"), kind).is_some()
        })
}
