//! Fixture: an embedded cluster, charts, default options, and the resulting records and objects.

use std::sync::Arc;

use helm_chart::File;
use helm_chart::load::Loader;
use helm_template::data::Members;
use helm_template::{json, profile::Profile};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube_apply::{Discovery, NoProgress};
use kube_embedded::access::User;
use kube_embedded::cluster::{Cluster, Config};
use kube_embedded::sim::Simulation;
use serde_json::json;
use testkit::{FaultInjector, ManualClock, without_annotation};

use crate::actions::{ActionOptions, Install, Propagation, Rollback, Test, Uninstall, Upgrade, ValuesPolicy};
use crate::record::{Record, Status};
use crate::render::PreparedChart;
use crate::storage::{HELD_BY_ANNOTATION, Storage};
use crate::{Error, Helm};

pub const NAMESPACE: &str = "default";
pub const NAME: &str = "web";

pub struct ReleaseHarness {
    pub cluster: Cluster,
    pub clock: ManualClock,
}

impl ReleaseHarness {
    /// A cluster without controllers: objects stay as written.
    pub async fn new() -> Self {
        Self::with_simulation(None).await
    }

    /// A simulated cluster that runs Jobs and other workloads.
    pub async fn simulated() -> Self {
        Self::with_simulation(Some(Simulation::default())).await
    }

    async fn with_simulation(simulation: Option<Simulation>) -> Self {
        let config = Config { simulation, ..Config::default() };
        Self { cluster: Cluster::open(config).await.unwrap(), clock: ManualClock::new() }
    }

    pub fn admin(&self) -> Client {
        self.cluster.client(User::admin())
    }

    pub async fn helm(&self) -> Helm {
        self.helm_over(&FaultInjector::healthy()).await
    }

    /// An instance whose connection can be cut.
    pub async fn helm_over(&self, fault: &FaultInjector) -> Helm {
        let discovery = Discovery::read(&self.admin()).await.unwrap();
        let client = fault.wrap(self.admin());
        Helm::new(client.clone(), client, discovery, Arc::new(self.clock.clone()), "somebody")
    }

    /// Expires all Leases, as ten seconds after the death of their holders.
    pub async fn expire_leases(&self) {
        let leases: Api<Lease> = Api::namespaced(self.admin(), NAMESPACE);
        for lease in leases.list(&ListParams::default()).await.unwrap() {
            let name = lease.metadata.name.unwrap();
            let patch = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
            leases.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// The history as lines like `1 superseded: Install complete`.
    pub async fn history(&self) -> Vec<String> {
        let records = self.helm().await.storage(NAMESPACE).history(NAME).await.unwrap();
        let line = |record: &Record| {
            format!("{} {}: {}", record.version, record.info.status, record.info.description)
        };
        records.iter().map(|stored| line(&stored.record)).collect()
    }

    /// Names of the ConfigMaps of the release.
    pub async fn config_map_names(&self) -> Vec<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.admin(), NAMESPACE);
        let maps =
            maps.list(&ListParams::default().labels("app.kubernetes.io/managed-by=Helm")).await.unwrap();
        let mut names: Vec<String> = maps.items.into_iter().filter_map(|map| map.metadata.name).collect();
        names.sort();
        names
    }

    pub async fn lease_count(&self) -> usize {
        let leases: Api<Lease> = Api::namespaced(self.admin(), NAMESPACE);
        leases.list(&ListParams::default()).await.unwrap().items.len()
    }

    /// Storage as the helm command uses it: without the annotation of Lease holders.
    pub fn helm_cli_storage(&self) -> Storage {
        let client = without_annotation(self.admin(), NAMESPACE, HELD_BY_ANNOTATION);
        Storage::new(client, NAMESPACE, Arc::new(self.clock.clone()))
    }

    /// Overwrites a record as the helm command does.
    pub async fn overwrite_record(&self, revision: i64, change: impl FnOnce(&mut Record)) {
        let storage = self.helm_cli_storage();
        let mut stored = storage.get(NAME, revision).await.unwrap().unwrap();
        change(&mut stored.record);
        storage.update(&stored).await.unwrap();
    }

    /// Deletes all records, as `helm uninstall` does at its end.
    pub async fn delete_all_records(&self) {
        let secrets: Api<Secret> = Api::namespaced(self.admin(), NAMESPACE);
        secrets
            .delete_collection(
                &kube::api::DeleteParams::default(),
                &ListParams::default().labels("owner=helm"),
            )
            .await
            .unwrap();
    }
}

/// A chart of these files.
pub fn chart(files: &[(&str, &str)]) -> Arc<PreparedChart> {
    let head = ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\nappVersion: \"7\"\n");
    let file =
        |(name, text): &(&str, &str)| File { name: (*name).into(), data: text.as_bytes().to_vec().into() };
    let files = [head].iter().chain(files).map(file).collect();
    Arc::new(PreparedChart::new(Loader::new(Profile::Helm4).load_files(files).unwrap()))
}

/// A chart with one ConfigMap per letter in `.Values.maps`; the API server rejects uppercase letters.
pub fn maps() -> Arc<PreparedChart> {
    chart(&[
        ("values.yaml", "maps: ab\nnote: none\n"),
        ("templates/NOTES.txt", "{{ .Values.note }} {{ .Release.Revision }}\n"),
        (
            "templates/maps.yaml",
            "{{- range (splitList \"\" .Values.maps) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  \
             name: {{ . }}\ndata:\n  note: {{ $.Values.note | quote }}\n{{- end }}\n",
        ),
    ])
}

pub fn values(text: &str) -> Arc<Members> {
    Arc::new(json::parse(text).unwrap().as_map().unwrap().clone())
}

/// Values of [`maps`] for these letters.
pub fn maps_values(letters: &str) -> Arc<Members> {
    values(&format!("{{\"maps\": \"{letters}\"}}"))
}

pub fn default_options() -> ActionOptions<'static> {
    ActionOptions::new(&NoProgress)
}

pub fn install(chart: &Arc<PreparedChart>, values: &Arc<Members>) -> Install<'static> {
    Install {
        name: NAME.into(),
        namespace: NAMESPACE.into(),
        chart: chart.clone(),
        values: values.clone(),
        labels: [].into(),
        create_namespace: false,
        skip_crds: false,
        skip_schema: false,
        subchart_notes: false,
        replace: false,
        atomic: false,
        options: default_options(),
    }
}

pub fn upgrade(chart: &Arc<PreparedChart>, values: &Arc<Members>) -> Upgrade<'static> {
    Upgrade {
        name: NAME.into(),
        namespace: NAMESPACE.into(),
        chart: chart.clone(),
        values: values.clone(),
        values_policy: ValuesPolicy::Keep,
        labels: [].into(),
        install: false,
        create_namespace: false,
        skip_crds: false,
        skip_schema: false,
        subchart_notes: false,
        atomic: false,
        cleanup_on_fail: false,
        options: default_options(),
    }
}

pub fn rollback(revision: i64) -> Rollback<'static> {
    Rollback {
        name: NAME.into(),
        namespace: NAMESPACE.into(),
        revision,
        cleanup_on_fail: false,
        options: default_options(),
    }
}

pub fn uninstall(keep_history: bool) -> Uninstall<'static> {
    Uninstall {
        name: NAME.into(),
        namespace: NAMESPACE.into(),
        keep_history,
        ignore_not_found: false,
        propagation: Propagation::Background,
        ignore_pending: true,
        options: default_options(),
    }
}

pub fn test() -> Test<'static> {
    Test {
        name: NAME.into(),
        namespace: NAMESPACE.into(),
        only: vec![],
        except: vec![],
        options: default_options(),
    }
}

/// Kind and text of an error.
pub fn error_text<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let error = outcome.unwrap_err();
    format!("{:?}: {error}", error.kind())
}

/// Asserts that nothing is pending and at most one revision is deployed.
pub fn assert_consistent(history: &[String]) {
    let count = |word: Status| history.iter().filter(|line| line.contains(&format!(" {word}:"))).count();
    assert!(count(Status::Deployed) <= 1, "{history:?}");
    for pending in Status::ALL.into_iter().filter(|status| status.is_pending()) {
        assert_eq!(count(pending), 0, "{history:?}");
    }
}
