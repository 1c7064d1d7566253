//! Rejected actions change nothing and report why; secrets are masked.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube_apply::{ProgressEvent, ProgressSink};
use kube_embedded::access::User;
use testkit::FaultInjector;

use super::fixture::{
    NAMESPACE, ReleaseHarness, chart, error_text, install, maps, maps_values, rollback, test, uninstall,
    upgrade, values,
};
use crate::render::PreparedChart;

/// Returns the error of a rejected installation and asserts that nothing was written.
async fn rejected_install_error(chart: &Arc<PreparedChart>, given: &str) -> String {
    let stage = ReleaseHarness::new().await;
    let fault = FaultInjector::healthy();
    let helm = stage.helm_over(&fault).await;
    let mut ask = install(chart, &values(given));
    (ask.namespace, ask.create_namespace) = ("new".into(), true);
    let why = error_text(helm.install(&ask).await);
    assert_eq!(fault.writes(), 0, "{why}");
    why
}

#[tokio::test]
async fn invalid_input_writes_nothing() {
    let broken = chart(&[("templates/a.yaml", "a: {{ .Values.x.y }}\n")]);
    let why = rejected_install_error(&broken, "{}").await;
    assert!(why.starts_with("Invalid: ") && why.contains("nil pointer evaluating interface {}.y"), "{why}");
    let schema = chart(&[("values.schema.json", "{\"properties\": {\"n\": {\"type\": \"integer\"}}}")]);
    let why = rejected_install_error(&schema, "{\"n\": \"three\"}").await;
    assert!(
        why.contains("values don't meet the specifications of the schema(s)") && !why.contains("three"),
        "{why}"
    );
    let no_object = chart(&[("templates/a.yaml", "kind: ConfigMap\n")]);
    let why = rejected_install_error(&no_object, "{}").await;
    assert_eq!(
        why,
        "Invalid: unable to build kubernetes objects from new release manifest: c/templates/a.yaml: apiVersion not set"
    );
    let no_kind = chart(&[("templates/a.yaml", "apiVersion: x.dev/v1\nkind: Thing\nmetadata: {name: a}\n")]);
    let why = rejected_install_error(&no_kind, "{}").await;
    assert!(
        why.contains("the cluster serves no kind `Thing` in `x.dev/v1`") && why.contains("a.yaml"),
        "{why}"
    );
}

#[tokio::test]
async fn invalid_names_and_missing_revisions_are_rejected() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &maps_values("a"));
    ask.name = "Web".into();
    assert!(
        error_text(helm.install(&ask).await)
            .starts_with("Invalid: release name check failed: release name \"Web\": ")
    );
    let mut ask = install(&maps(), &maps_values("a"));
    ask.labels = [("owner".to_owned(), "me".to_owned())].into();
    assert!(
        error_text(helm.install(&ask).await)
            .contains("user supplied labels contains system reserved label name")
    );
    assert_eq!(
        error_text(helm.upgrade(&upgrade(&maps(), &maps_values("a"))).await),
        "NotFound: \"web\" has no deployed releases"
    );
    assert_eq!(error_text(helm.rollback(&rollback(1)).await), "NotFound: release: not found");
    assert_eq!(error_text(helm.rollback(&rollback(-1)).await), "Invalid: invalid release revision");
    assert_eq!(error_text(helm.test(&test()).await), "NotFound: release: not found");
    assert_eq!(
        error_text(helm.uninstall(&uninstall(false)).await),
        "NotFound: uninstall: Release not loaded: web: release: not found"
    );
    let mut ask = uninstall(false);
    ask.ignore_not_found = true;
    assert!(helm.uninstall(&ask).await.unwrap().record.is_none());
    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    assert_eq!(error_text(helm.rollback(&rollback(7)).await), "NotFound: release has no 7 version");
    assert_eq!(error_text(helm.rollback(&rollback(0)).await), "NotFound: release has no 0 version");
    let again = error_text(helm.install(&install(&maps(), &maps_values("b"))).await);
    assert_eq!(again, "Conflict: cannot reuse a name that is still in use");
    assert_eq!((stage.config_map_names().await, stage.lease_count().await), (vec!["a".to_owned()], 0));
}

#[tokio::test]
async fn foreign_objects_are_not_changed() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let theirs: Api<ConfigMap> = Api::namespaced(stage.admin(), NAMESPACE);
    let mut map = ConfigMap::default();
    map.metadata.name = Some("b".into());
    theirs.create(&PostParams::default(), &map).await.unwrap();
    let why = error_text(helm.install(&install(&maps(), &maps_values("ab"))).await);
    assert!(why.starts_with("Conflict: unable to continue with install: ConfigMap default/b"), "{why}");
    assert!(why.contains("missing key \"app.kubernetes.io/managed-by\": must be set to \"Helm\""), "{why}");
    assert_eq!((stage.history().await.len(), stage.config_map_names().await.len()), (0, 0));

    helm.install(&install(&maps(), &maps_values("a"))).await.unwrap();
    let why = error_text(helm.upgrade(&upgrade(&maps(), &maps_values("ab"))).await);
    assert!(why.starts_with("Conflict: unable to continue with update: "), "{why}");
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);
    let mut ask = upgrade(&maps(), &maps_values("ab"));
    ask.options.take_ownership = true;
    helm.upgrade(&ask).await.unwrap();
    assert_eq!(stage.config_map_names().await, ["a", "b"]);
}

#[tokio::test]
async fn missing_permission_fails_before_any_write() {
    let stage = ReleaseHarness::new().await;
    let mut helm = stage.helm().await;
    helm.objects = stage.cluster.client(User::named("eve", &["system:authenticated"]));
    let why = error_text(helm.install(&install(&maps(), &maps_values("a"))).await);
    let told = "Forbidden: unable to continue with install: ConfigMap default/a (c/templates/maps.yaml): \
        configmaps \"a\" is forbidden: User \"eve\" cannot get";
    assert!(why.starts_with(told), "{why}");
    assert_eq!((stage.history().await.len(), stage.lease_count().await), (0, 0));
}

/// The futures stay small, because a server runs many of them at once.
#[tokio::test]
async fn action_futures_are_small() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let (new, next, back, gone) = (
        install(&maps(), &maps_values("a")),
        upgrade(&maps(), &maps_values("a")),
        rollback(1),
        uninstall(true),
    );
    let sizes = [
        size_of_val(&helm.install(&new)),
        size_of_val(&helm.upgrade(&next)),
        size_of_val(&helm.rollback(&back)),
        size_of_val(&helm.uninstall(&gone)),
    ];
    assert!(sizes.iter().all(|size| *size < 8 << 10), "{sizes:?}");
}

#[tokio::test]
async fn namespace_is_created_when_requested() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &maps_values("a"));
    ask.namespace = "new".into();
    assert!(error_text(helm.install(&ask).await).starts_with("NotFound: "));
    ask.create_namespace = true;
    helm.install(&ask).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(stage.admin());
    assert_eq!(namespaces.get("new").await.unwrap().metadata.labels.unwrap()["name"], "new");
}

#[tokio::test]
async fn objects_with_keep_policy_survive_uninstall() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    let kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k, annotations: {helm.sh/resource-policy: keep}}\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: l}\n";
    helm.install(&install(&chart(&[("templates/k.yaml", kept)]), &values("{}"))).await.unwrap();
    let gone = helm.uninstall(&uninstall(false)).await.unwrap();
    assert_eq!(gone.kept.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ConfigMap default/k"]);
    assert_eq!((stage.config_map_names().await, gone.unowned.len()), (vec!["k".to_owned()], 0));
}

/// Progress sink that collects all events as text.
#[derive(Default)]
struct CollectingSink(Mutex<Vec<String>>);

impl ProgressSink for CollectingSink {
    fn report(&self, step: ProgressEvent) {
        self.0.lock().unwrap().push(format!("{step:?}"));
    }
}

#[tokio::test]
async fn secrets_are_masked_in_errors_history_and_progress() {
    let stage = ReleaseHarness::new().await;
    let helm = stage.helm().await;
    // The API server repeats input it cannot parse, and a chart can put a secret anywhere.
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: {{ .Values.p | quote }}}\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {{ .Values.p | quote }}\n";
    let chart = chart(&[("templates/s.yaml", secret), ("templates/z.yaml", map)]);
    let heard = CollectingSink::default();
    let mut ask = install(&chart, &values("{\"p\": \"canary-of-the-mine\"}"));
    ask.options.progress = &heard;
    let error = helm.install(&ask).await.unwrap_err();
    let history = stage.history().await;
    assert!(history[0].starts_with("1 failed: "), "{history:?}");
    for text in [format!("{error} {error:?}"), history.concat(), heard.0.lock().unwrap().concat()] {
        assert!(!text.contains("canary") && !text.is_empty(), "{text}");
    }
    let leases: Api<ConfigMap> = Api::namespaced(stage.admin(), NAMESPACE);
    assert!(
        leases.list(&ListParams::default()).await.unwrap().items.iter().all(|map| map
            .metadata
            .name
            .as_deref()
            != Some("m"))
    );
}
