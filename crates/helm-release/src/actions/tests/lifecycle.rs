//! Results of each action without failures.

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use testkit::FaultInjector;

use super::fixture::{
    NAME, NAMESPACE, ReleaseHarness, chart, error_text, install, maps, maps_values, rollback, uninstall,
    upgrade, values,
};
use crate::actions::{ApplyMode, ContentSource, DryRun, PostRenderer, ValuesPolicy};
use crate::error::Error;
use crate::record::ApplyMethod;

#[tokio::test]
async fn release_lifecycle() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let record = helm.install(&install(&maps(), &maps_values("ab"))).await.unwrap();
    assert_eq!((record.version, record.info.notes.as_str()), (1, "none 1\n"));
    assert_eq!(stage.config_map_names().await, ["a", "b"]);
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);

    helm.upgrade(&upgrade(&maps(), &maps_values("bc"))).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["b", "c"]);
    assert_eq!(stage.history().await, ["1 superseded: Install complete", "2 deployed: Upgrade complete"]);

    let record = helm.rollback(&rollback(0)).await.unwrap();
    assert_eq!((record.info.rollback_revision, record.config.len()), (1, 1));
    assert_eq!(stage.config_map_names().await, ["a", "b"]);
    assert_eq!(stage.history().await[1..], ["2 superseded: Upgrade complete", "3 deployed: Rollback to 1"]);

    helm.uninstall(&uninstall(true)).await.unwrap();
    assert_eq!(stage.config_map_names().await, [""; 0]);
    assert_eq!(stage.history().await[2..], ["3 uninstalled: Uninstallation complete"]);
    assert_eq!(
        error_text(helm.uninstall(&uninstall(true)).await),
        "Conflict: the release named \"web\" is already deleted"
    );

    // An uninstalled release can be rolled back, then deleted for good.
    helm.rollback(&rollback(2)).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["b", "c"]);
    assert_eq!(
        stage.history().await[2..],
        ["3 uninstalled: Uninstallation complete", "4 deployed: Rollback to 2"]
    );
    helm.uninstall(&uninstall(false)).await.unwrap();
    assert_eq!(
        (stage.config_map_names().await.len(), stage.history().await.len(), stage.lease_count().await),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn objects_have_ownership_and_records_apply_method() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let record = helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(stage.admin(), NAMESPACE);
    let metadata = maps.get("a").await.unwrap().metadata;
    assert_eq!(metadata.annotations.unwrap()["meta.helm.sh/release-name"], NAME);
    assert_eq!(metadata.managed_fields.unwrap()[0].manager.as_deref(), Some("helm"));
    assert_eq!(record.apply_method, Some(ApplyMethod::ServerSide));
    // A release in Helm 3's format keeps that format.
    stage.overwrite_record(1, |record| record.apply_method = None).await;
    let record = helm.upgrade(&upgrade(&super::fixture::maps(), &maps_values("ab"))).await.unwrap();
    assert_eq!((record.apply_method, stage.config_map_names().await.len()), (None, 2));
    let mut ask = upgrade(&super::fixture::maps(), &maps_values("ac"));
    ask.options.apply_mode = ApplyMode::ServerSide;
    let record = helm.upgrade(&ask).await.unwrap();
    assert_eq!(
        (record.apply_method, stage.config_map_names().await),
        (Some(ApplyMethod::ServerSide), vec!["a".into(), "c".into()])
    );
}

/// API calls per action: a Lease created and deleted, two records, one write per object.
#[tokio::test]
async fn actions_make_few_api_calls() {
    let stage = ReleaseHarness::new().await;
    let fault = FaultInjector::healthy();
    let helm = stage.helm_over(&fault).await;
    helm.install(&install(&maps(), &maps_values("abcd"))).await.unwrap();
    // Reads: the history, and each object once.
    assert_eq!((fault.writes(), fault.calls()), (2 + 2 + 4, 2 + 2 + 4 + 1 + 4));
    helm.upgrade(&upgrade(&maps(), &maps_values("abce"))).await.unwrap();
    // One more record is superseded; one object is read and deleted.
    assert_eq!((fault.writes() - 8, fault.calls() - 13), (2 + 3 + 4 + 1, 2 + 3 + 4 + 1 + 1 + 4 + 1));
}

#[tokio::test]
async fn dry_run_writes_nothing() {
    let stage = ReleaseHarness::new().await;
    let fault = FaultInjector::healthy();
    let helm = stage.helm_over(&fault).await;
    for dry_run in [DryRun::Client, DryRun::Server] {
        let mut ask = install(&maps(), &maps_values("ab"));
        (ask.options.dry_run, ask.create_namespace, ask.namespace) = (dry_run, true, "elsewhere".into());
        let record = helm.install(&ask).await.unwrap();
        assert_eq!((record.info.description.as_str(), record.version), ("Dry run complete", 1));
        assert!(record.manifest.contains("name: b"));
    }
    helm.install(&install(&maps(), &maps_values("ab"))).await.unwrap();
    let written = fault.writes();
    let mut ask = upgrade(&maps(), &maps_values("ac"));
    ask.options.dry_run = DryRun::Server;
    let record = helm.upgrade(&ask).await.unwrap();
    assert_eq!((record.version, record.info.description.as_str()), (2, "Dry run complete"));
    let mut ask = rollback(1);
    ask.options.dry_run = DryRun::Server;
    assert_eq!(helm.rollback(&ask).await.unwrap().info.description, "Rollback to 1");
    let mut ask = uninstall(false);
    ask.options.dry_run = DryRun::Server;
    assert_eq!(helm.uninstall(&ask).await.unwrap().record.unwrap().version, 1);
    assert_eq!(stage.config_map_names().await, ["a", "b"]);
    // The dry-run deletions are sent to the API server, which changes nothing.
    assert_eq!(fault.writes() - written, 2);
}

#[tokio::test]
async fn upgrade_keeps_values_and_labels_as_requested() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &values("{\"maps\": \"ab\", \"note\": \"one\"}"));
    ask.labels = [("team".to_owned(), "shop".to_owned()), ("tier".to_owned(), "1".to_owned())].into();
    helm.install(&ask).await.unwrap();
    let mut ask = upgrade(&maps(), &maps_values("c"));
    ask.values_policy = ValuesPolicy::ResetThenReuse;
    ask.labels = [("tier".to_owned(), "null".to_owned())].into();
    let record = helm.upgrade(&ask).await.unwrap();
    assert_eq!(*values("{\"maps\": \"c\", \"note\": \"one\"}"), record.config);
    assert_eq!(record.labels, [("team".to_owned(), "shop".to_owned())].into());
    assert_eq!(
        (stage.config_map_names().await, record.info.notes.as_str()),
        (vec!["c".to_owned()], "one 2\n")
    );
}

#[tokio::test]
async fn history_is_limited() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    for _ in 0..4 {
        let mut ask = upgrade(&maps(), &maps_values("b"));
        ask.options.max_history = 3;
        helm.upgrade(&ask).await.unwrap();
    }
    let revisions: Vec<_> = stage.history().await.iter().map(|line| line[..1].to_owned()).collect();
    assert_eq!(revisions, ["3", "4", "5"]);
}

struct DuplicatingPostRenderer;

impl PostRenderer for DuplicatingPostRenderer {
    fn run(
        &self,
        objects: Vec<kube_apply::Object>,
        _: ContentSource,
    ) -> BoxFuture<'_, Result<Vec<kube_apply::Object>, Error>> {
        async move {
            let mut all = objects.clone();
            for object in objects {
                let mut value = object.value().clone();
                value["metadata"]["name"] = format!("{}-twin", object.name()).into();
                let twin = object.with_value(value);
                all.push(twin.map_err(|error| Error::PostRender(error.to_string()))?);
            }
            Ok(all)
        }
        .boxed()
    }
}

#[tokio::test]
async fn post_renderer_changes_written_objects() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &maps_values("a"));
    ask.options.post_renderer = Some(&DuplicatingPostRenderer);
    let record = helm.install(&ask).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["a", "a-twin"]);
    assert!(record.manifest.contains("a-twin"));
    helm.upgrade(&upgrade(&maps(), &maps_values("a"))).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["a"]);
    let mut ask = rollback(1);
    ask.options.post_renderer = Some(&DuplicatingPostRenderer);
    helm.rollback(&ask).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["a", "a-twin", "a-twin-twin"]);
}

#[tokio::test]
async fn crds_are_created_first_and_kept() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.x.dev}\n\
        spec:\n  group: x.dev\n  scope: Namespaced\n  names: {plural: things, kind: Thing}\n  versions:\n  - name: v1\n    \
        served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object}}\n";
    let thing = "{{ if not (.Capabilities.APIVersions.Has \"x.dev/v1/Thing\") }}{{ fail \"no things\" }}{{ end }}\n\
        apiVersion: x.dev/v1\nkind: Thing\nmetadata: {name: t}\n";
    let chart = chart(&[("crds/thing.yaml", crd), ("templates/t.yaml", thing)]);
    let mut ask = install(&chart, &values("{}"));
    ask.skip_crds = true;
    assert_eq!(
        error_text(helm.install(&ask).await).lines().next().unwrap(),
        "Invalid: execution error at (c/templates/t.yaml:1:64): no things"
    );
    helm.install(&install(&chart, &values("{}"))).await.unwrap();
    helm.uninstall(&uninstall(false)).await.unwrap();
    // The namespace exists, so no call is made for it.
    helm.install(&install(&chart, &values("{}"))).await.unwrap();
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);
}
