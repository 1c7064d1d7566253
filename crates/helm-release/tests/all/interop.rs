//! The real Helm programs and our code on one cluster: each reads the other's records.

use helm_release::queries::{self, ListOptions};
use helm_release::record::{ChartRecord, Record, Status};
use helm_release::render::RenderRequest;
use helm_release::storage::{ListScope, StorageError};
use helm_template::data::Data;
use helm_template::json::{self, JsonStyle};
use helm_template::profile::Profile;
use serde_json::Value;

use crate::fixture::{chart, clock, minimal_record, noise_manifest, record, render_chart, storage, values};
use crate::helm_cli::{HELM_VARIABLES, ServedCluster};

fn profile(helm: &str) -> Profile {
    if helm == "LONGSHORE_HELM_4_3" { Profile::Helm4 } else { Profile::Helm3 }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_helm_are_read() {
    for variable in HELM_VARIABLES {
        let served = ServedCluster::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        helm.run_ok("install app ./plain --labels team=blue --set word=one").await;
        helm.run_ok("upgrade app ./plain --set-string word=two --set nested.deep=null").await;
        helm.run_ok("rollback app 1").await;
        helm.run_ok("install gone ./umbrella").await;
        helm.run_ok("uninstall gone --keep-history").await;

        let client = served.client();
        let storage = storage(&client);
        let history = storage.history("app").await.unwrap();
        let seen: Vec<_> = history.iter().map(|stored| &stored.record).collect();
        let states: Vec<_> = seen.iter().map(|record| (record.version, record.info.status)).collect();
        assert_eq!(states, [(1, Status::Superseded), (2, Status::Superseded), (3, Status::Deployed)]);
        assert_eq!(seen[0].labels["team"], "blue");
        assert_eq!(seen[2].info.rollback_revision, i64::from(profile(variable) == Profile::Helm4));
        for (stored, revision) in history.iter().zip(1..) {
            let record = &stored.record;
            let get = |what: &str| format!("get {what} app --revision {revision}");
            assert_eq!(helm.run_ok(&get("manifest")).await, format!("{}\n", record.manifest));
            assert_eq!(helm.run_ok(&get("hooks")).await, queries::hooks_text(record));
            let all = queries::all_values(record, profile(variable)).unwrap();
            let ours = json::write(&Data::Map(all), JsonStyle::Plain).unwrap();
            let theirs = helm.run_ok(&format!("{} --all -o json", get("values"))).await;
            assert_eq!(parsed(&ours), parsed(&theirs), "{variable} {revision}");
        }

        let uninstalled = storage.newest("gone").await.unwrap().unwrap().record;
        assert_eq!(uninstalled.info.status, Status::Uninstalled);
        assert!(uninstalled.info.deleted.timestamp().is_some());

        let all = if profile(variable) == Profile::Helm4 { "" } else { "--all" };
        let theirs = parsed(&helm.run_ok(&format!("list {all} -o json")).await);
        let mut wanted = ListOptions::new(ListScope::Namespace("default".into()));
        wanted.states.extend(Status::ALL);
        let ours = queries::list(&client, &clock(), &wanted).await.unwrap();
        let ours: Vec<_> = ours
            .releases
            .iter()
            .map(|release| {
                let chart = format!("{}-{}", release.chart, release.chart_version);
                (
                    release.name.clone(),
                    release.revision.to_string(),
                    release.status.to_string(),
                    chart,
                    release.app_version.clone(),
                )
            })
            .collect();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let theirs: Vec<_> = theirs
            .as_array()
            .unwrap()
            .iter()
            .map(|release| {
                let field = |name: &str| text(&release[name]);
                (field("name"), field("revision"), field("status"), field("chart"), field("app_version"))
            })
            .collect();
        assert_eq!(ours, theirs, "{variable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_records_are_read_by_helm() {
    for variable in HELM_VARIABLES {
        let served = ServedCluster::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let (client, profile) = (served.client(), profile(variable));
        let storage = storage(&client);
        let (chart, said) = (chart("plain", profile), values("{text: ours, word: <open>}"));
        let what = RenderRequest::install("app", "default", profile);
        let rendering = render_chart(&client, &chart, &said, &what).await.unwrap();
        let mut first = record(&what, &rendering, &said);
        first.labels.insert("team".into(), "blue".into());
        first.set_status(Status::PendingInstall, "Initial install underway");
        let mut stored = storage.create(&first).await.unwrap();
        stored.record.set_status(Status::Superseded, "Install complete");
        storage.update(&stored).await.unwrap();
        let what = RenderRequest::upgrade("app", "default", 2, profile);
        let rendering = render_chart(&client, &chart, &said, &what).await.unwrap();
        let second = record(&what, &rendering, &said);
        storage.create(&second).await.unwrap();

        let list = parsed(&helm.run_ok("list -o json --selector name=app").await);
        assert_eq!(
            (&list[0]["revision"], &list[0]["chart"]),
            (&"2".into(), &"plain-1.2.3".into()),
            "{variable}"
        );
        let history = parsed(&helm.run_ok("history app -o json").await);
        let states: Vec<_> =
            history.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
        assert_eq!(states, ["superseded", "deployed"], "{variable}");
        assert_eq!(helm.run_ok("get manifest app").await, format!("{}\n", second.manifest));
        assert_eq!(helm.run_ok("get hooks app").await, queries::hooks_text(&second));
        assert_eq!(parsed(&helm.run_ok("get values app -o json").await)["word"], "<open>");
        assert!(helm.run_ok("get all app").await.contains("ours, app!"));
        assert!(helm.run_ok("status app").await.contains("STATUS: deployed"));
        // Helm continues from our records.
        helm.run_ok("upgrade app ./plain --reuse-values --set count=9").await;
        helm.run_ok("rollback app 2").await;
        let now = storage.newest("app").await.unwrap().unwrap().record;
        assert_eq!((now.version, now.info.status), (4, Status::Deployed));
        assert_eq!(parsed(&helm.run_ok("get values app --revision 3 -o json").await)["text"], "ours");
        helm.run_ok("uninstall app").await;
        assert!(storage.entries("app").await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_handles_chart_without_files() {
    for variable in HELM_VARIABLES {
        let served = ServedCluster::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let storage = storage(&served.client());
        let mut large = chart("plain", profile(variable)).chart().clone();
        large.files.push(helm_chart::File { name: "noise".into(), data: noise_manifest(1_200_000).into() });
        let chart = ChartRecord::new(&large, profile(variable)).unwrap();
        storage.create(&Record { chart, ..minimal_record("app", 1, Status::Deployed) }).await.unwrap();
        assert!(helm.run_ok("list").await.contains("plain-1.2.3"), "{variable}");
        assert!(helm.run_ok("get all app").await.contains("kind: ConfigMap"), "{variable}");
        helm.run_ok("uninstall app").await;
        assert!(storage.entries("app").await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_shows_split_manifest_and_rejects_changes() {
    for variable in HELM_VARIABLES {
        let served = ServedCluster::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let storage = storage(&served.client());
        let manifest = noise_manifest(1_400_000);
        let record = Record {
            manifest: manifest.clone(),
            chart: ChartRecord::new(chart("plain", profile(variable)).chart(), profile(variable)).unwrap(),
            ..minimal_record("app", 1, Status::Deployed)
        };
        storage.create(&record).await.unwrap();
        assert!(helm.run_ok("list").await.contains("app"), "{variable}");
        assert!(helm.run_ok("history app").await.contains("deployed"), "{variable}");
        assert!(helm.run_ok("get manifest app").await.contains("kept in 2 parts"), "{variable}");
        for line in ["upgrade app ./plain", "uninstall app"] {
            let refused = helm.run(line).await;
            assert!(
                !refused.is_success && !refused.stderr.contains("panic"),
                "{variable} {line}: {refused:?}"
            );
        }
        let last = storage.get("app", 1).await.unwrap().unwrap();
        assert_eq!(last.record.manifest, manifest, "{variable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_write_of_helm_is_a_conflict() {
    for variable in HELM_VARIABLES {
        let served = ServedCluster::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let storage = storage(&served.client());
        helm.run_ok("install app ./plain").await;
        let read = storage.newest("app").await.unwrap().unwrap();
        helm.run_ok("upgrade app ./plain").await;
        // Our writes to both the old and the new revision now conflict.
        let mut old = read.clone();
        old.record.set_status(Status::Superseded, "");
        assert!(matches!(storage.update(&old).await, Err(StorageError::ChangedConcurrently { .. })));
        let next = minimal_record("app", 2, Status::PendingUpgrade);
        assert!(matches!(storage.create(&next).await, Err(StorageError::AlreadyExists { revision: 2, .. })));
    }
}
