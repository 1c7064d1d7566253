//! The real Helm programs and our code on one cluster: each reads the other's records.

use helm_release::queries::{self, Wanted};
use helm_release::record::{ChartRecord, Record, Status};
use helm_release::render::What;
use helm_release::storage::{Scope, StorageError};
use helm_template::data::Data;
use helm_template::json::{self, Style};
use helm_template::profile::Profile;
use serde_json::Value;

use crate::helms::{HELMS, Served};
use crate::world::{chart, clock, noise, record, rendered, small, storage, values};

fn profile(helm: &str) -> Profile {
    if helm == "LONGSHORE_HELM_4_3" { Profile::Helm4 } else { Profile::Helm3 }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn we_read_what_they_write() {
    for variable in HELMS {
        let served = Served::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        helm.ok("install app ./plain --labels team=blue --set word=one").await;
        helm.ok("upgrade app ./plain --set-string word=two --set nested.deep=null").await;
        helm.ok("rollback app 1").await;
        helm.ok("install gone ./umbrella").await;
        helm.ok("uninstall gone --keep-history").await;

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
            assert_eq!(helm.ok(&get("manifest")).await, format!("{}\n", record.manifest));
            assert_eq!(helm.ok(&get("hooks")).await, queries::hooks_text(record));
            let all = queries::all_values(record, profile(variable)).unwrap();
            let ours = json::write(&Data::Map(all), Style::Plain).unwrap();
            let theirs = helm.ok(&format!("{} --all -o json", get("values"))).await;
            assert_eq!(parsed(&ours), parsed(&theirs), "{variable} {revision}");
        }

        let uninstalled = storage.last("gone").await.unwrap().unwrap().record;
        assert_eq!(uninstalled.info.status, Status::Uninstalled);
        assert!(uninstalled.info.deleted.at().is_some());

        let all = if profile(variable) == Profile::Helm4 { "" } else { "--all" };
        let theirs = parsed(&helm.ok(&format!("list {all} -o json")).await);
        let mut wanted = Wanted::new(Scope::Namespace("default".into()));
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
async fn they_read_what_we_write() {
    for variable in HELMS {
        let served = Served::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let (client, profile) = (served.client(), profile(variable));
        let storage = storage(&client);
        let (chart, said) = (chart("plain", profile), values("{text: ours, word: <open>}"));
        let what = What::install("app", "default", profile);
        let rendering = rendered(&client, &chart, &said, &what).await.unwrap();
        let mut first = record(&what, &rendering, &said);
        first.labels.insert("team".into(), "blue".into());
        first.set_status(Status::PendingInstall, "Initial install underway");
        let mut stored = storage.create(&first).await.unwrap();
        stored.record.set_status(Status::Superseded, "Install complete");
        storage.update(&stored).await.unwrap();
        let what = What::upgrade("app", "default", 2, profile);
        let rendering = rendered(&client, &chart, &said, &what).await.unwrap();
        let second = record(&what, &rendering, &said);
        storage.create(&second).await.unwrap();

        let list = parsed(&helm.ok("list -o json --selector name=app").await);
        assert_eq!(
            (&list[0]["revision"], &list[0]["chart"]),
            (&"2".into(), &"plain-1.2.3".into()),
            "{variable}"
        );
        let history = parsed(&helm.ok("history app -o json").await);
        let states: Vec<_> =
            history.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
        assert_eq!(states, ["superseded", "deployed"], "{variable}");
        assert_eq!(helm.ok("get manifest app").await, format!("{}\n", second.manifest));
        assert_eq!(helm.ok("get hooks app").await, queries::hooks_text(&second));
        assert_eq!(parsed(&helm.ok("get values app -o json").await)["word"], "<open>");
        assert!(helm.ok("get all app").await.contains("ours, app!"));
        assert!(helm.ok("status app").await.contains("STATUS: deployed"));
        // Helm continues from our records.
        helm.ok("upgrade app ./plain --reuse-values --set count=9").await;
        helm.ok("rollback app 2").await;
        let now = storage.last("app").await.unwrap().unwrap().record;
        assert_eq!((now.version, now.info.status), (4, Status::Deployed));
        assert_eq!(parsed(&helm.ok("get values app --revision 3 -o json").await)["text"], "ours");
        helm.ok("uninstall app").await;
        assert!(storage.entries("app").await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_live_with_a_chart_whose_files_were_left_out() {
    for variable in HELMS {
        let served = Served::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let storage = storage(&served.client());
        let mut large = chart("plain", profile(variable)).chart().clone();
        large.files.push(helm_chart::File { name: "noise".into(), data: noise(1_200_000).into() });
        let chart = ChartRecord::new(&large, profile(variable)).unwrap();
        storage.create(&Record { chart, ..small("app", 1, Status::Deployed) }).await.unwrap();
        assert!(helm.ok("list").await.contains("plain-1.2.3"), "{variable}");
        assert!(helm.ok("get all app").await.contains("kind: ConfigMap"), "{variable}");
        helm.ok("uninstall app").await;
        assert!(storage.entries("app").await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_show_a_manifest_in_parts_and_leave_it_alone() {
    for variable in HELMS {
        let served = Served::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let storage = storage(&served.client());
        let manifest = noise(1_400_000);
        let record = Record {
            manifest: manifest.clone(),
            chart: ChartRecord::new(chart("plain", profile(variable)).chart(), profile(variable)).unwrap(),
            ..small("app", 1, Status::Deployed)
        };
        storage.create(&record).await.unwrap();
        assert!(helm.ok("list").await.contains("app"), "{variable}");
        assert!(helm.ok("history app").await.contains("deployed"), "{variable}");
        assert!(helm.ok("get manifest app").await.contains("kept in 2 parts"), "{variable}");
        for line in ["upgrade app ./plain", "uninstall app"] {
            let refused = helm.says(line).await;
            assert!(!refused.ok && !refused.stderr.contains("panic"), "{variable} {line}: {refused:?}");
        }
        let last = storage.get("app", 1).await.unwrap().unwrap();
        assert_eq!(last.record.manifest, manifest, "{variable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_faster_makes_the_revision() {
    for variable in HELMS {
        let served = Served::new().await;
        let Some(helm) = served.helm(variable) else { continue };
        let storage = storage(&served.client());
        helm.ok("install app ./plain").await;
        let read = storage.last("app").await.unwrap().unwrap();
        helm.ok("upgrade app ./plain").await;
        // Our writes to both the old and the new revision now conflict.
        let mut old = read.clone();
        old.record.set_status(Status::Superseded, "");
        assert!(matches!(storage.update(&old).await, Err(StorageError::Changed { .. })));
        let next = small("app", 2, Status::PendingUpgrade);
        assert!(matches!(storage.create(&next).await, Err(StorageError::Exists { revision: 2, .. })));
    }
}
