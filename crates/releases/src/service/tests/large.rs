//! Large manifests must not be parsed on async workers.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::SystemClock;
use helm_release::{Record, Status, Storage};
use kube_apply::Object;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;

use super::*;
use crate::service::logs::LogQuery;

/// CPU time of this thread, which is the only worker of the test.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// One object with many values, which is not in the cluster.
fn manifest() -> String {
    let mut text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\ndata:\n".to_owned();
    for n in 0..40_000 {
        writeln!(text, "  k{n}: v{n}").unwrap();
    }
    text
}

#[tokio::test]
async fn large_manifests_are_not_parsed_on_workers() {
    let stage = TestHarness::new().await;
    let mut record = Record {
        name: "web".to_owned(),
        namespace: SHOP.to_owned(),
        version: 1,
        manifest: manifest(),
        ..Record::default()
    };
    record.set_status(Status::Deployed, "made by the helm command");
    let storage = Storage::new(stage.world.platform_client(), SHOP, Arc::new(SystemClock));
    storage.create(&record).await.unwrap();
    let began = cpu_time();
    assert_eq!(Object::parse_all(&record.manifest).unwrap().len(), 1);
    let parsing = cpu_time().saturating_sub(began);

    let (caller, releases) = (developer(), &stage.releases);
    let controller = releases.new_controller(mpsc::unbounded_channel().0);
    for act in ["resources", "logs", "restart", "controller"] {
        let began = cpu_time();
        match act {
            "resources" => {
                let found = releases.resources(&caller, SHOP, "web").await.unwrap();
                assert_eq!((found.total, found.ready), (1, 0));
            }
            "logs" => {
                assert!(releases.logs(&caller, SHOP, "web", &LogQuery::default()).await.unwrap().is_empty());
            }
            "restart" => {
                assert!(releases.restart(&caller, SHOP, "web", true).await.unwrap().is_empty());
            }
            _ => assert_eq!(controller.record_objects(SHOP, &record).await.unwrap().len(), 1),
        }
        let took = cpu_time().saturating_sub(began);
        assert!(took < parsing / 2, "{act} takes {took:?} of the worker, parsing {parsing:?}");
    }
    assert_eq!(releases.renderer().pool().bytes().held, 0, "nothing is held afterwards");
}
