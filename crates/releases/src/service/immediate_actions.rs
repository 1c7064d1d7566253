//! Immediate actions with the identity of the release: restart and test. Also adoption.
//!
//! The caller must be permitted to change the release. Content of Helm records that Longshore did not write is handled with the identity
//! of the namespace's deployer.

use std::sync::Arc;
use std::time::Duration;

use chart_store::ChartSource;
use domain::Actor;
use domain::roles::Capability;
use helm_chart::archive;
use helm_release::actions::{ActionOptions, Test};
use helm_release::{Origin, Record};
use helm_template::profile::Profile;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube_apply::logs::format_selector;
use kube_apply::{Object, ProgressSink};
use kube_types::request::RunAs;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::Error;
use super::get::{record_mask, record_objects};
use super::install::InstallRequest;
use super::view::ReleaseView;
use crate::Releases;
use crate::release::administrator_objects;
use crate::release::ledger::{ReadOnlyLedger, record_origin};

/// The kinds that a restart covers.
const RESTARTED_KINDS: &[&str] = &["DaemonSet", "Deployment", "StatefulSet"];

/// The annotation that `kubectl rollout restart` sets.
const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// The fields of a workload that a restart needs.
struct RestartTarget {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    /// Label selector of its pods; empty if it has none.
    selector: String,
}

impl RestartTarget {
    fn from_object(object: &Object) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().map(ToOwned::to_owned),
            name: object.name().to_owned(),
            selector: format_selector(&object.value()["spec"]["selector"]),
        }
    }
}

impl Releases {
    /// Restarts the pods of a release's workloads: one by one if `rolling`, else all at once. Returns the workloads.
    pub async fn restart(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        rolling: bool,
    ) -> Result<Vec<String>, Error> {
        let workspace = self.authorized_workspace(actor, Capability::ChangeReleases, namespace)?;
        self.check_access(actor, "update", namespace, name).await?;
        let (record, release) = self.load_record(actor, namespace, name, None).await?;
        let identity = self.release_identity(release.as_deref(), namespace);
        let executor = match record_origin(release.as_deref(), &record, &identity.by) {
            Origin::Own => &identity.impersonation,
            Origin::Other | Origin::Foreign => &identity.untrusted,
        };
        let client = self.inner().clients.impersonating(executor);
        let mut restarted = Vec::new();
        let read = self.run_on_pool(namespace, record.bytes(), move || {
            let objects = record_objects(&record)?;
            let meant = objects.iter().filter(|object| RESTARTED_KINDS.contains(&object.kind()));
            Ok(meant.map(RestartTarget::from_object).collect())
        });
        let workloads: Vec<RestartTarget> = read.await?;
        for object in &workloads {
            let elsewhere = object.namespace.as_deref().filter(|other| *other != namespace);
            if let Some(other) = elsewhere
                && self.inner().tenants.workspace_of(other).as_ref() != Some(&workspace)
            {
                return Err(Error::OutsideWorkspace {
                    object: format!("{} {}", object.kind, object.name),
                    namespace: other.to_owned(),
                    workspace: workspace.to_string(),
                });
            }
        }
        for object in &workloads {
            if rolling {
                self.rollout_restart(&client, namespace, object).await?;
            } else {
                self.delete_pods(&client, namespace, object).await?;
            }
            restarted.push(format!("{} {}", object.kind, object.name));
        }
        Ok(restarted)
    }

    async fn rollout_restart(
        &self,
        client: &kube::Client,
        namespace: &str,
        object: &RestartTarget,
    ) -> Result<(), Error> {
        let Some(kind) = self.inner().helm_factory.discovery.get_cached(&object.api_version, &object.kind)
        else {
            return Ok(());
        };
        let namespace = object.namespace.as_deref().unwrap_or(namespace);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource);
        let now = self.inner().clock.now().to_string();
        let patch =
            json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: now}}}}});
        api.patch(&object.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(Error::from_impersonated_call)?;
        Ok(())
    }

    async fn delete_pods(
        &self,
        client: &kube::Client,
        namespace: &str,
        object: &RestartTarget,
    ) -> Result<(), Error> {
        // An empty selector would match all pods of the namespace.
        if object.selector.is_empty() {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(client.clone(), object.namespace.as_deref().unwrap_or(namespace));
        let selected = ListParams::default().labels(&object.selector);
        let deleted = api.delete_collection(&DeleteParams::default(), &selected).await;
        deleted.map(drop).map_err(Error::from_impersonated_call)
    }

    /// Runs the selected tests of a release and returns the result of each. Failed tests are not an error.
    pub async fn test(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        options: TestOptions,
        tell: &dyn ProgressSink,
    ) -> Result<TestReport, Error> {
        let reader = self.impersonation_in(actor, Capability::ChangeReleases, namespace)?;
        self.check_access(actor, "update", namespace, name).await?;
        let (_, release) = self.load_record(actor, namespace, name, None).await?;
        let identity = self.release_identity(release.as_deref(), namespace);
        let ledger = ReadOnlyLedger { release: release.clone(), by: identity.by.clone() };
        let clients = &self.inner().clients;
        let reserved = administrator_objects::reserved_objects(clients, &identity, release.as_deref());
        let helm =
            self.inner().helm_factory.helm_for_identity(clients, &identity, reserved, Arc::new(ledger));
        let TestOptions { only, except, logs, timeout } = options;
        let usual = ActionOptions::new(tell);
        let ask = Test {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            only,
            except,
            options: ActionOptions { timeout: timeout.unwrap_or(usual.timeout), ..usual },
        };
        let (record, why) = match helm.test(&ask).await {
            Ok(record) => (record, String::new()),
            Err(helm_release::Error::Failed { said, record, .. }) => (*record, said),
            Err(error) => return Err(error.into()),
        };
        let read = self.run_on_pool(namespace, record.bytes(), move || {
            Ok((record_mask(&record, release.as_deref())?, record.hooks))
        });
        let (mask, hooks) = read.await?;
        let client = self.inner().clients.impersonating(&reader);
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let mut tests = Vec::new();
        for hook in hooks.iter().filter(|hook| hook.events.iter().any(|event| event == "test")) {
            let meant =
                (ask.only.is_empty() || ask.only.contains(&hook.name)) && !ask.except.contains(&hook.name);
            let said = if logs && meant { Some(test_log(&pods, &hook.name).await) } else { None };
            let (log, no_log) = match said {
                None => (None, String::new()),
                Some(Ok(text)) => (Some(mask.mask_text(&text)), String::new()),
                Some(Err(why)) => (None, why),
            };
            tests.push(TestResult {
                name: mask.mask_text(&hook.name),
                phase: format!("{:?}", hook.last_run.phase),
                log,
                no_log: mask.mask_text(&no_log),
            });
        }
        Ok(TestReport { passed: why.is_empty(), tests, why: mask.mask_text(&why) })
    }

    /// Adopts a release that the `helm` command made: creates a request with its chart and values. The deployed objects do not change.
    pub async fn adopt(&self, actor: &Actor, namespace: &str, name: &str) -> Result<ReleaseView, Error> {
        self.authorized_workspace(actor, Capability::ChangeReleases, namespace)?;
        // Otherwise a caller without read access to Secrets could read the values of others.
        self.check_access(actor, "create", namespace, name).await?;
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let found = storage.newest(name).await?;
        let record = found.ok_or_else(|| Error::NotFound(format!("{namespace}/{name}")))?.record;
        let (source, values) = chart_and_values(&record)?;
        let wanted = InstallRequest {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            values,
            ..InstallRequest::default()
        };
        // Any user with write access to Secrets there can have forged the record: the release runs as the deployer until it is upgraded.
        self.install_as(actor, &source, wanted, RunAs::default()).await
    }
}

/// The chart of a record as an archive, and its values as YAML.
pub(super) fn chart_and_values(record: &Record) -> Result<(ChartSource, String), Error> {
    let unusable = |why: &dyn std::fmt::Display| {
        let name = &record.name;
        Error::Invalid(format!("cannot use the chart in the Helm record of `{name}`: {why}"))
    };
    let chart = record.chart.chart(Profile::Helm4).map_err(|error| unusable(&error))?;
    let packed = archive::write(&chart, Profile::Helm4, 0).map_err(|error| unusable(&error))?;
    let data = helm_template::data::Data::Map(helm_template::data::Members::clone(&record.config));
    let values = helm_template::yaml::write(&data).map_err(|error| unusable(&error))?;
    Ok((ChartSource::Archive(packed.into()), values))
}

/// Maximum bytes of a test's log.
const MAX_TEST_LOG_BYTES: i64 = 256 << 10;

/// The log of a test's pod, or why it is not available.
async fn test_log(pods: &Api<Pod>, name: &str) -> Result<String, String> {
    let params = LogParams { limit_bytes: Some(MAX_TEST_LOG_BYTES), ..LogParams::default() };
    pods.logs(name, &params).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => "the cluster does not answer".to_owned(),
    })
}

/// Options of a test run.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Runs only the tests with these names; empty means all.
    pub only: Vec<String>,
    /// Skips the tests with these names.
    pub except: Vec<String>,
    /// Also returns the logs of their pods.
    pub logs: bool,
    /// The timeout of each test; `None` means the default.
    pub timeout: Option<Duration>,
}

/// Result of the tests of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TestReport {
    /// Whether all executed tests passed.
    pub passed: bool,
    /// All tests of the release with the result of their last run.
    pub tests: Vec<TestResult>,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    pub name: String,
    pub phase: String,
    /// Log of the test's pod, if requested and the test was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Reason why the log is not available.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub no_log: String,
}
