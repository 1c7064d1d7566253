//! Records written by real Helm programs: decoded and encoded again.

use std::path::Path;

use helm_release::record::{ApplyMethod, HookPhase, Record, Status};
use helm_release::storage::secret_name;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::Value;

use crate::helm_cli::{HELM_VARIABLES, ServedCluster};

/// Recordings of each Helm: an upgraded release of `plain`, and one of `umbrella`.
pub const RECORDED: [&str; 3] = ["plain.v1", "plain.v2", "umbrella.v1"];

pub fn recording(helm: &str, name: &str) -> Vec<u8> {
    let helm = helm.strip_prefix("LONGSHORE_").unwrap().to_lowercase();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/records/{helm}.{name}.json"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn json(record: &Record) -> Value {
    serde_json::from_str(&record.to_json().unwrap()).unwrap()
}

#[test]
fn records_of_helm_round_trip() {
    for helm in HELM_VARIABLES {
        for name in RECORDED {
            let text = recording(helm, name);
            let record = Record::from_json(&text).unwrap();
            let theirs: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(json(&record), theirs, "{helm} {name}");
            let again = Record::decode(record.encode().unwrap().as_bytes()).unwrap();
            assert_eq!(json(&again), theirs, "{helm} {name}");
            assert!(again == record, "{helm} {name}");
        }
    }
}

#[test]
fn fields_of_helm_records_are_decoded() {
    for helm in HELM_VARIABLES {
        let first = Record::from_json(&recording(helm, "plain.v1")).unwrap();
        assert_eq!((first.name.as_str(), first.namespace.as_str(), first.version), ("plain", "default", 1));
        assert_eq!(first.info.status, Status::Superseded);
        assert_eq!(first.info.description, "Install complete");
        assert_eq!(first.info.notes, "hello, plain!\n");
        assert!(first.info.first_deployed.timestamp().is_some() && first.info.deleted.timestamp().is_none());
        let head = first.chart.metadata();
        assert_eq!(
            (head.name.as_str(), head.version.as_str(), head.app_version.as_str()),
            ("plain", "1.2.3", "4.5")
        );
        let chart = first.chart.chart(helm_template::profile::Profile::Helm4).unwrap();
        assert_eq!(chart.templates.len(), 6);
        assert!(
            chart.files.iter().any(|file| &*file.name == "files/bytes.bin" && *file.data == [0, 1, 0xff])
        );
        assert!(chart.schema.is_some());

        let second = Record::from_json(&recording(helm, "plain.v2")).unwrap();
        assert_eq!((second.version, second.info.status), (2, Status::Deployed));
        assert_eq!(second.config.len(), 3);
        let is_new = helm == "LONGSHORE_HELM_4_3";
        assert_eq!(second.apply_method, is_new.then_some(ApplyMethod::ServerSide), "{helm}");
        let phases: Vec<_> =
            second.hooks.iter().map(|hook| (hook.kind.as_str(), hook.last_run.phase)).collect();
        assert_eq!(phases, [("ConfigMap", HookPhase::Succeeded), ("Pod", HookPhase::Never)], "{helm}");
    }
}

/// Regenerates `tests/records`: the decoded JSON of the Secrets that each Helm leaves.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes the recordings anew, by the real Helms"]
async fn record() {
    for variable in HELM_VARIABLES {
        let served = ServedCluster::new().await;
        let helm = served.helm(variable).expect("all three Helms are needed");
        helm.run_ok("install plain ./plain").await;
        helm.run_ok("upgrade plain ./plain --set text=bye,count=4 --set-string word=open").await;
        helm.run_ok("install umbrella ./umbrella --set child.size=5").await;
        let secrets: Api<Secret> = Api::namespaced(served.client(), "default");
        for name in RECORDED {
            let (release, revision) = name.split_once(".v").unwrap();
            let secret = secrets.get(&secret_name(release, revision.parse().unwrap())).await.unwrap();
            let text = &secret.data.unwrap()["release"].0;
            let json = decompressed(text);
            let short = variable.strip_prefix("LONGSHORE_").unwrap().to_lowercase();
            let file =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/records/{short}.{name}.json"));
            std::fs::write(file, json).unwrap();
        }
    }
}

fn decompressed(text: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    use std::io::Read;
    let packed = base64::prelude::BASE64_STANDARD.decode(text).unwrap();
    let mut json = Vec::new();
    flate2::read::MultiGzDecoder::new(&*packed).read_to_end(&mut json).unwrap();
    json
}
