//! Logs of a release's containers, read with the caller's identity.
//!
//! See also: log streams (`super::log_stream`).

use domain::Actor;
use domain::roles::Capability;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};
use kube_apply::logs::pod_selectors;
use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::get::{record_mask, record_objects};
use crate::Releases;

/// Maximum number of concurrent reads, and of containers in total.
const MAX_CONCURRENT_READS: usize = 4;
const MAX_CONTAINERS: usize = 50;
/// Maximum bytes per container.
const MAX_LOG_BYTES: i64 = 256 << 10;
/// Maximum lines per container.
pub const MAX_LOG_LINES: i64 = 5000;

/// Selects containers and the amount of log.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    pub pod: Option<String>,
    pub container: Option<String>,
    /// Label selector of the pods.
    pub selector: Option<String>,
    /// Number of last lines.
    pub tail_lines: Option<i64>,
    /// Maximum age in seconds.
    pub since_seconds: Option<i64>,
    /// Reads the previous instances of the containers.
    pub previous: bool,
    pub timestamps: bool,
}

/// Log of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Log")]
pub struct LogView {
    pub pod: String,
    pub container: String,
    pub text: String,
    /// Reason why the log is not available.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Releases {
    /// Returns the logs of a release's containers, by pod.
    pub async fn logs(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        query: &LogQuery,
    ) -> Result<Vec<LogView>, Error> {
        let (record, release) = self.load_record(actor, namespace, name, None).await?;
        let client = self.inner().clients.impersonating(&self.impersonation_in(
            actor,
            Capability::ReadReleases,
            namespace,
        )?);
        let home = namespace.to_owned();
        let read = self.run_on_pool(namespace, record.bytes(), move || {
            Ok((pod_selectors(&record_objects(&record)?, &home), record_mask(&record, release.as_deref())?))
        });
        let (meant, mask) = read.await?;
        let mut pods: Vec<Pod> = Vec::new();
        for meant in meant {
            let api: Api<Pod> = Api::namespaced(client.clone(), &meant.namespace);
            let labels = [meant.labels.as_str(), query.selector.as_deref().unwrap_or_default()];
            let labels: Vec<&str> = labels.into_iter().filter(|part| !part.is_empty()).collect();
            let mut params = ListParams::default().labels(&labels.join(","));
            if let Some(name) = &meant.name {
                params = params.fields(&format!("metadata.name={name}"));
            }
            pods.extend(api.list(&params).await.map_err(Error::from_impersonated_call)?.items);
        }
        let containers = pods.iter().flat_map(|pod| {
            // Init containers are included only by name.
            let first = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
            let first = first.filter(|container| query.container.as_ref() == Some(&container.name));
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            first.chain(containers).map(|container| (pod, container.name.clone())).collect::<Vec<_>>()
        });
        let meant = containers.filter(|(pod, container)| {
            query.pod.as_ref().is_none_or(|wanted| *wanted == pod.name_any())
                && query.container.as_ref().is_none_or(|wanted| wanted == container)
        });
        let reads =
            meant.take(MAX_CONTAINERS).map(|(pod, container)| read_log(&client, pod, container, query));
        let reads: Vec<_> = reads.collect();
        let mut logs: Vec<LogView> = stream::iter(reads).buffered(MAX_CONCURRENT_READS).collect().await;
        // Programs may print the values that they were given.
        for log in &mut logs {
            log.text = mask.mask_text(&log.text);
        }
        logs.sort_by(|a, b| (&a.pod, &a.container).cmp(&(&b.pod, &b.container)));
        logs.dedup_by(|a, b| (&a.pod, &a.container) == (&b.pod, &b.container));
        Ok(logs)
    }
}

async fn read_log(client: &kube::Client, pod: &Pod, container: String, which: &LogQuery) -> LogView {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let params = LogParams {
        container: Some(container.clone()),
        tail_lines: Some(which.tail_lines.unwrap_or(MAX_LOG_LINES).clamp(0, MAX_LOG_LINES)),
        since_seconds: which.since_seconds,
        previous: which.previous,
        timestamps: which.timestamps,
        limit_bytes: Some(MAX_LOG_BYTES),
        ..LogParams::default()
    };
    let (text, why) = match api.logs(&pod.name_any(), &params).await {
        Ok(text) => (text, String::new()),
        Err(kube::Error::Api(status)) => (String::new(), status.message.clone()),
        Err(_) => (String::new(), "the cluster does not answer".to_owned()),
    };
    LogView { pod: pod.name_any(), container, text, why }
}
