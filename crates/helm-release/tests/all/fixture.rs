//! Fixture: a storage for a namespace, and sample records.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::clock::{Clock, SystemClock};
use helm_release::record::{ApplyMethod, HelmTime, Record, RevisionInfo, Status};
use helm_release::render::{LookupTarget, PreparedChart, RenderError, RenderOutput, RenderRequest, Renderer};
use helm_release::storage::Storage;
use helm_template::data::Members;
use helm_template::profile::Profile;
use jiff::Timestamp;
use kube::Client;
use kube_apply::Discovery;

use crate::helm_cli::charts_dir;

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

pub fn storage(client: &Client) -> Storage {
    Storage::new(client.clone(), "default", clock())
}

pub fn chart(name: &str, profile: Profile) -> Arc<PreparedChart> {
    let folder: PathBuf = charts_dir().join(name);
    Arc::new(PreparedChart::new(helm_host::load(&folder, profile).unwrap().chart))
}

pub fn values(text: &str) -> Arc<Members> {
    Arc::new(helm_chart::values::read(text.as_bytes(), Profile::Helm4).unwrap())
}

pub async fn lookup_target(client: &Client) -> LookupTarget {
    let discovery = Discovery::read(client).await.unwrap();
    LookupTarget { client: client.clone(), discovery, flow: None }
}

pub async fn render_chart(
    client: &Client,
    chart: &Arc<PreparedChart>,
    values: &Arc<Members>,
    what: &RenderRequest,
) -> Result<RenderOutput, RenderError> {
    Renderer::new().render(&lookup_target(client).await, chart, values, what).await
}

/// A record of a rendering, as after a finished installation.
pub fn record(what: &RenderRequest, rendering: &RenderOutput, values: &Members) -> Record {
    let now: HelmTime = Timestamp::from_second(1_700_000_000).unwrap().into();
    Record {
        name: what.name.clone(),
        namespace: what.namespace.clone(),
        version: what.revision,
        info: RevisionInfo {
            first_deployed: now,
            last_deployed: now,
            description: "Install complete".into(),
            status: Status::Deployed,
            notes: rendering.notes.clone(),
            ..RevisionInfo::default()
        },
        chart: rendering.chart.clone(),
        config: values.clone(),
        manifest: rendering.manifest(),
        hooks: rendering.hooks.clone(),
        apply_method: (what.profile == Profile::Helm4).then_some(ApplyMethod::ServerSide),
        ..Record::default()
    }
}

/// A minimal record.
pub fn minimal_record(name: &str, version: i64, status: Status) -> Record {
    Record {
        name: name.into(),
        namespace: "default".into(),
        version,
        info: RevisionInfo { status, ..RevisionInfo::default() },
        manifest: "---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
            .into(),
        apply_method: Some(ApplyMethod::ServerSide),
        ..Record::default()
    }
}

/// A manifest of about `bytes` length that compresses by a quarter.
pub fn noise_manifest(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = Vec::with_capacity(bytes);
    while noise.len() < bytes * 3 / 4 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise.extend_from_slice(&(state ^ (state >> 31)).to_le_bytes());
    }
    let noise = BASE64_STANDARD.encode(noise);
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: noise}}\ndata:\n  noise: {noise}\n")
}
