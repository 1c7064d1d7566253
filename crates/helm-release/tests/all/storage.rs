//! Records in Secrets: created once, found, guarded against concurrent changes, deleted.

use std::collections::BTreeSet;

use helm_release::queries::{self, ListOptions};
use helm_release::record::{ChartRecord, Record, Status};
use helm_release::storage::{ListScope, Storage, StorageError, StorageLayout, layout_of, list_metadata};
use helm_template::profile::Profile;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use regex::Regex;
use serde_json::json;
use testkit::{FailurePoint, FaultInjector};

use crate::fixture::{chart, clock, minimal_record, noise_manifest, storage};

async fn client() -> kube::Client {
    Cluster::in_memory().await.client(User::admin())
}

fn secrets(client: &kube::Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

#[tokio::test]
async fn record_is_created_read_updated_and_deleted() {
    let client = client().await;
    let storage = storage(&client);
    assert!(storage.newest("app").await.unwrap().is_none());
    let mut record = minimal_record("app", 1, Status::PendingInstall);
    record.labels.insert("team".into(), "blue".into());
    let mut stored = storage.create(&record).await.unwrap();
    assert!(storage.deployed("app").await.unwrap().is_none());

    let secret = secrets(&client).get("sh.helm.release.v1.app.v1").await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("helm.sh/release.v1"));
    let labels = secret.metadata.labels.unwrap();
    for (key, value) in [
        ("name", "app"),
        ("owner", "helm"),
        ("status", "pending-install"),
        ("version", "1"),
        ("team", "blue"),
    ] {
        assert_eq!(labels[key], value);
    }
    assert!(labels["createdAt"].parse::<i64>().is_ok() && !labels.contains_key("modifiedAt"));

    stored.record.set_status(Status::Deployed, "Install complete");
    let stored = storage.update(&stored).await.unwrap();
    let read = storage.get("app", 1).await.unwrap().unwrap();
    assert!(read.record == stored.record);
    assert_eq!(read.resource_version, stored.resource_version);
    assert_eq!(read.record.labels["team"], "blue");
    assert_eq!(storage.deployed("app").await.unwrap().unwrap().record.version, 1);
    let again = secrets(&client).get("sh.helm.release.v1.app.v1").await.unwrap().metadata.labels.unwrap();
    assert_eq!((&again["createdAt"], again.contains_key("modifiedAt")), (&labels["createdAt"], true));

    storage.delete(&read.meta()).await.unwrap();
    storage.delete(&read.meta()).await.unwrap();
    assert!(storage.newest("app").await.unwrap().is_none());
}

#[tokio::test]
async fn stale_writes_are_conflicts() {
    let storage = storage(&client().await);
    let first = storage.create(&minimal_record("app", 1, Status::PendingInstall)).await.unwrap();
    let exists = storage.create(&minimal_record("app", 1, Status::Failed)).await.unwrap_err();
    assert!(matches!(exists, StorageError::AlreadyExists { revision: 1, .. }), "{exists}");
    let mut second = first.clone();
    second.record.set_status(Status::Deployed, "by another");
    let second = storage.update(&second).await.unwrap();
    let changed = storage.update(&first).await.unwrap_err();
    assert!(matches!(changed, StorageError::ChangedConcurrently { .. }), "{changed}");
    let changed = storage.delete(&first.meta()).await.unwrap_err();
    assert!(matches!(changed, StorageError::ChangedConcurrently { .. }), "{changed}");
    assert_eq!(storage.newest("app").await.unwrap().unwrap().record.info.description, "by another");
    storage.delete(&second.meta()).await.unwrap();
    let gone = storage.update(&second).await.unwrap_err();
    assert!(
        matches!(gone, StorageError::NotFound { .. } | StorageError::ChangedConcurrently { .. }),
        "{gone}"
    );
    // A new record of the same name is a different object.
    storage.create(&minimal_record("app", 1, Status::Failed)).await.unwrap();
    assert!(storage.update(&second).await.is_err());
    assert!(storage.delete(&second.meta()).await.is_err());
}

/// Runs `work` on a connection that is cut at the first write and restored immediately.
async fn with_interrupted_write<T>(
    client: &kube::Client,
    blow: FailurePoint,
    work: impl AsyncFnOnce(Storage) -> T,
) -> T {
    let fault = FaultInjector::cut_after_writes(0, blow);
    let mended = async {
        fault.wait_until_disconnected().await;
        fault.restore();
    };
    tokio::join!(work(storage(&fault.wrap(client.clone()))), mended).0
}

#[tokio::test]
async fn writes_are_retried_after_short_outage() {
    let client = client().await;
    for blow in [FailurePoint::BeforeHandling, FailurePoint::AfterHandling] {
        let record = minimal_record("app", 1, Status::PendingInstall);
        let created =
            with_interrupted_write(&client, blow, async |storage| storage.create(&record).await).await;
        let mut stored = created.unwrap();
        stored.record.set_status(Status::Deployed, "Install complete");
        let updated =
            with_interrupted_write(&client, blow, async |storage| storage.update(&stored).await).await;
        let stored = updated.unwrap();
        let read = storage(&client).newest("app").await.unwrap().unwrap();
        assert_eq!(read.resource_version, stored.resource_version);
        assert_eq!(read.record.info.status, Status::Deployed);
        // A retry does not take over another client's record.
        let other = minimal_record("app", 1, Status::Failed);
        let exists =
            with_interrupted_write(&client, blow, async |storage| storage.create(&other).await).await;
        assert!(matches!(exists, Err(StorageError::AlreadyExists { .. })));
        storage(&client).delete(&stored.meta()).await.unwrap();
    }
}

#[tokio::test]
async fn invalid_names_and_labels_are_rejected() {
    let client = client().await;
    let storage = storage(&client);
    for name in ["", "a,owner!=helm", "A", "a/b"] {
        let error = storage.entries(name).await.err().unwrap();
        assert!(matches!(error, StorageError::InvalidName { .. }), "{error}");
        assert!(storage.create(&minimal_record(name, 1, Status::Deployed)).await.is_err());
    }
    let mut record = minimal_record("app", 1, Status::Deployed);
    record.labels.insert("status".into(), "deployed".into());
    let error = storage.create(&record).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "user supplied labels contains system reserved label name. System labels: [\"name\", \"owner\", \"status\", \"version\", \"createdAt\", \"modifiedAt\"]"
    );
    assert!(secrets(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn undecodable_records_are_reported() {
    let client = client().await;
    let storage = storage(&client);
    storage.create(&minimal_record("app", 1, Status::Deployed)).await.unwrap();
    storage.create(&minimal_record("other", 1, Status::Deployed)).await.unwrap();
    let secrets = secrets(&client);
    let patch = |data: &str| Patch::Merge(json!({"stringData": {"release": data}}));
    let name = "sh.helm.release.v1.app.v1";
    for text in ["", "%%%", "H4sIAAAA", "e30", "bm90IGpzb24=", "eyJjb25maWciOiBbXX0="] {
        secrets.patch(name, &PatchParams::default(), &patch(text)).await.unwrap();
        let error = storage.newest("app").await.unwrap_err();
        let read = matches!(error, StorageError::Undecodable { .. } | StorageError::WrongRelease { .. });
        assert!(read && error.to_string().contains(name), "{text}: {error}");
    }
    // A record of another release under this name is rejected.
    let other = secrets.get("sh.helm.release.v1.other.v1").await.unwrap().data.unwrap()["release"].clone();
    let other = String::from_utf8(other.0).unwrap();
    secrets.patch(name, &PatchParams::default(), &patch(&other)).await.unwrap();
    assert!(matches!(storage.newest("app").await, Err(StorageError::WrongRelease { .. })));
    // Lists skip the record and report it.
    let wanted = ListOptions::new(ListScope::Namespace("default".into()));
    let listed = queries::list(&client, &clock(), &wanted).await.unwrap();
    assert_eq!(listed.releases.len(), 1);
    assert_eq!(
        listed.damaged,
        ["default: the record in Secret `sh.helm.release.v1.app.v1` belongs to another release"]
    );
}

#[tokio::test]
async fn too_large_record_is_stored_without_chart_files() {
    let client = client().await;
    let storage = storage(&client);
    let mut large = chart("plain", Profile::Helm4).chart().clone();
    large.files.push(helm_chart::File { name: "noise".into(), data: noise_manifest(1_200_000).into() });
    let record = Record {
        chart: ChartRecord::new(&large, Profile::Helm4).unwrap(),
        ..minimal_record("app", 1, Status::Deployed)
    };
    assert_eq!(layout_of(&minimal_record("app", 1, Status::Deployed)).unwrap(), StorageLayout::SingleSecret);
    assert_eq!(layout_of(&record).unwrap(), StorageLayout::WithoutFiles);
    storage.create(&record).await.unwrap();
    let read = storage.newest("app").await.unwrap().unwrap().record;
    assert_eq!(read.manifest, record.manifest);
    assert!(read.chart.is_partial() && !record.chart.is_partial());
    assert_eq!(read.chart.values().unwrap(), record.chart.values().unwrap());
    let less = read.chart.chart(Profile::Helm4).unwrap();
    assert!(less.files.is_empty() && less.templates.is_empty() && less.schema.is_some());
    assert_eq!(less.metadata.annotations["example.com/note"], "one".into());
    // Without its files it fits into one Secret.
    assert_eq!(layout_of(&read).unwrap(), StorageLayout::SingleSecret);

    let refused =
        storage.clone().single_secret_only().create(&Record { version: 2, ..record }).await.unwrap_err();
    assert!(matches!(refused, StorageError::TooLarge(_)), "{refused}");
    assert_eq!(storage.entries("app").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_manifest_too_large_is_kept_in_parts() {
    let client = client().await;
    let storage = storage(&client);
    let manifest = noise_manifest(1_400_000);
    let record = Record { manifest: manifest.clone(), ..minimal_record("app", 1, Status::PendingInstall) };
    assert_eq!(layout_of(&record).unwrap(), StorageLayout::Chunked(2));
    let mut stored = storage.create(&record).await.unwrap();
    let owner = secrets(&client).get("sh.helm.release.v1.app.v1").await.unwrap();
    let parts = async || {
        let all = secrets(&client).list(&ListParams::default().labels("owner=longshore")).await.unwrap();
        all.items
    };
    for part in parts().await {
        assert_eq!(part.metadata.owner_references.unwrap()[0].uid, owner.metadata.uid.clone().unwrap());
    }
    assert_eq!(storage.newest("app").await.unwrap().unwrap().record.manifest, manifest);
    // The text in place of the manifest does not parse as a manifest.
    let entry = storage.entries("app").await.unwrap().remove(0);
    let instead = entry.decode().unwrap().manifest;
    assert!(kube_apply::Object::parse_all(&instead).is_err());
    insta::assert_snapshot!(instead);

    stored.record.set_status(Status::Deployed, "Install complete");
    storage.update(&stored).await.unwrap();
    assert_eq!(parts().await.len(), 2);
    let read = storage.deployed("app").await.unwrap().unwrap();
    assert_eq!(read.record.manifest, manifest);
    // A missing chunk is an error, not a shorter manifest.
    let part = parts().await.remove(1).metadata.name.unwrap();
    secrets(&client).delete(&part, &DeleteParams::default()).await.unwrap();
    let error = storage.newest("app").await.unwrap_err();
    assert!(matches!(&error, StorageError::Incomplete { part: missing, .. } if *missing == part), "{error}");

    // Compresses well into a Secret, but exceeds the decompressed limit.
    let endless =
        Record { manifest: "# \n".repeat(12 << 20), ..minimal_record("app", 2, Status::PendingInstall) };
    assert!(matches!(storage.create(&endless).await.unwrap_err(), StorageError::TooLarge(_)));
    assert_eq!(parts().await.len(), 1);
}

#[tokio::test]
async fn parts_of_interrupted_create_are_reused_or_removed() {
    let world = testkit::TestCluster::new().await;
    let record =
        Record { manifest: noise_manifest(1_400_000), ..minimal_record("app", 1, Status::PendingInstall) };
    // Between the chunks, before the record, and before its chunks have their owner.
    for passing in [1, 2, 4] {
        // Killed after this many writes, then retried with another manifest and with the same one.
        let fault = FaultInjector::cut_after_writes(passing, FailurePoint::BeforeHandling);
        let first = storage(&fault.wrap(world.admin_client())).create(&record).await;
        let storage = storage(&world.admin_client());
        let written = match storage.create(&record).await {
            Ok(stored) => stored,
            // The first attempt wrote a record, and it is complete.
            Err(StorageError::AlreadyExists { .. }) => storage.newest("app").await.unwrap().unwrap(),
            Err(error) => panic!("{passing}: {error}"),
        };
        assert_eq!(first.is_ok(), passing > 4, "{passing}");
        let written = storage.update(&written).await.unwrap();
        assert_eq!(storage.newest("app").await.unwrap().unwrap().record.manifest, record.manifest);
        let parts = async || {
            let selected = ListParams::default().labels("owner=longshore");
            secrets(&world.admin_client()).list(&selected).await.unwrap().items
        };
        assert!(parts().await.iter().all(|part| part.metadata.owner_references.is_some()), "{passing}");
        storage.delete(&written.meta()).await.unwrap();
        testkit::wait_for("the parts go with their record", async || parts().await.is_empty().then_some(()))
            .await;
    }
    let mut other = record.clone();
    other.manifest.push_str("more: true\n");
    let fault = FaultInjector::cut_after_writes(2, FailurePoint::BeforeHandling);
    storage(&fault.wrap(world.admin_client())).create(&record).await.unwrap_err();
    storage(&world.admin_client()).create(&other).await.unwrap();
    let left =
        secrets(&world.admin_client()).list(&ListParams::default().labels("owner=longshore")).await.unwrap();
    assert_eq!(left.items.len(), 2, "those of the first try are gone");
}

#[tokio::test]
async fn releases_are_listed_as_by_helm() {
    let client = client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "else"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let here = storage(&client);
    let there = Storage::new(client.clone(), "else", clock());
    let at = |record: Record, second: i64| {
        let mut record = record;
        record.info.last_deployed = jiff::Timestamp::from_second(second).unwrap().into();
        record
    };
    here.create(&at(minimal_record("b", 1, Status::Superseded), 1)).await.unwrap();
    here.create(&at(minimal_record("b", 10, Status::Deployed), 40)).await.unwrap();
    here.create(&at(minimal_record("b", 9, Status::Superseded), 2)).await.unwrap();
    here.create(&at(minimal_record("a", 1, Status::Failed), 30)).await.unwrap();
    here.create(&at(minimal_record("busy", 1, Status::Deployed), 5)).await.unwrap();
    here.create(&at(minimal_record("busy", 2, Status::PendingUpgrade), 50)).await.unwrap();
    let mut record = at(minimal_record("a", 3, Status::Deployed), 10);
    record.namespace = "else".into();
    record.labels.insert("team".into(), "blue".into());
    there.create(&record).await.unwrap();

    let names = async |wanted: ListOptions| -> (Vec<String>, usize) {
        let listed = queries::list(&client, &clock(), &wanted).await.unwrap();
        let shown = listed.releases.iter();
        (shown.map(|r| format!("{}/{}.v{}", r.namespace, r.name, r.revision)).collect(), listed.total)
    };
    let settled = BTreeSet::from([Status::Deployed, Status::Failed]);
    let default = || ListOptions {
        states: settled.clone(),
        ..ListOptions::new(ListScope::Namespace("default".into()))
    };
    let everywhere = || ListOptions { states: settled.clone(), ..ListOptions::new(ListScope::All) };
    assert_eq!(names(default()).await.0, ["default/a.v1", "default/b.v10"]);
    assert_eq!(names(everywhere()).await.0, ["default/a.v1", "else/a.v3", "default/b.v10"]);
    assert_eq!(names(ListOptions { reverse: true, ..default() }).await.0, ["default/b.v10", "default/a.v1"]);
    let dated = ListOptions { by_date: true, ..everywhere() };
    assert_eq!(names(dated.clone()).await.0, ["default/b.v10", "default/a.v1", "else/a.v3"]);
    let dated = ListOptions { reverse: true, limit: 1, offset: 1, ..dated };
    assert_eq!(names(dated).await, (vec!["default/a.v1".to_owned()], 3));
    let all = BTreeSet::from(Status::ALL);
    let paged =
        ListOptions { offset: 1, limit: 2, ..ListOptions::new(ListScope::Namespace("default".into())) };
    assert_eq!(names(paged).await, (vec!["default/b.v10".to_owned(), "default/busy.v2".to_owned()], 3));
    let beginning = ListOptions { name: Some(Regex::new("^b").unwrap()), states: all, ..everywhere() };
    assert_eq!(names(beginning).await.0, ["default/b.v10", "default/busy.v2"]);
    let old = ListOptions { states: BTreeSet::from([Status::Superseded]), ..everywhere() };
    assert_eq!(names(old).await.1, 2);
    assert_eq!(names(ListOptions { selector: "team=blue".into(), ..everywhere() }).await.0, ["else/a.v3"]);
    assert_eq!(names(ListOptions { selector: "team".into(), ..default() }).await.0, [] as [&str; 0]);
    assert_eq!(list_metadata(&client, &ListScope::All, "").await.unwrap().len(), 7);

    let history = queries::history(&here, "b", 2).await.unwrap();
    assert_eq!(history.iter().map(|summary| summary.revision).collect::<Vec<_>>(), [9, 10]);
    let none = queries::history(&here, "none", 256).await.unwrap_err();
    assert_eq!(none.to_string(), "release: not found");
    assert_eq!(queries::get(&here, "b", Some(9)).await.unwrap().record.version, 9);
    assert_eq!(queries::get(&here, "b", None).await.unwrap().record.version, 10);
    assert!(queries::get(&here, "b", Some(7)).await.is_err());
}

#[tokio::test]
async fn debug_output_does_not_disclose_content() {
    let record = Record {
        config: [("password".into(), helm_template::data::Data::string("canary-1"))].into(),
        manifest: "canary-2".into(),
        hooks: vec![helm_release::record::HookRecord { manifest: "canary-3".into(), ..Default::default() }],
        ..minimal_record("app", 1, Status::Deployed)
    };
    let mut noted = record.clone();
    noted.info.notes = "canary-4".into();
    let storage = storage(&client().await);
    let stored = storage.create(&noted).await.unwrap();
    let text = format!("{noted:?} {:?} {stored:?}", noted.hooks);
    assert!(text.contains("app") && !text.contains("canary"), "{text}");
}
