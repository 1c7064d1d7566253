//! Rejected actions change nothing and report why; secrets are masked.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube_apply::{Step, Tell};
use kube_embedded::access::User;
use testkit::Fault;

use super::stage::{
    NAMESPACE, Stage, chart, install, letters, maps, rollback, said, test, uninstall, upgrade, values,
};
use crate::render::ReadyChart;

/// Returns the error of a rejected installation and asserts that nothing was written.
async fn refused(chart: &Arc<ReadyChart>, given: &str) -> String {
    let stage = Stage::new().await;
    let fault = Fault::none();
    let helm = stage.helm_over(&fault).await;
    let mut ask = install(chart, &values(given));
    (ask.namespace, ask.create_namespace) = ("new".into(), true);
    let why = said(helm.install(&ask).await);
    assert_eq!(fault.writes(), 0, "{why}");
    why
}

#[tokio::test]
async fn bad_input_changes_nothing() {
    let broken = chart(&[("templates/a.yaml", "a: {{ .Values.x.y }}\n")]);
    let why = refused(&broken, "{}").await;
    assert!(why.starts_with("Invalid: ") && why.contains("nil pointer evaluating interface {}.y"), "{why}");
    let schema = chart(&[("values.schema.json", "{\"properties\": {\"n\": {\"type\": \"integer\"}}}")]);
    let why = refused(&schema, "{\"n\": \"three\"}").await;
    assert!(
        why.contains("values don't meet the specifications of the schema(s)") && !why.contains("three"),
        "{why}"
    );
    let no_object = chart(&[("templates/a.yaml", "kind: ConfigMap\n")]);
    let why = refused(&no_object, "{}").await;
    assert_eq!(
        why,
        "Invalid: unable to build kubernetes objects from new release manifest: c/templates/a.yaml: apiVersion not set"
    );
    let no_kind = chart(&[("templates/a.yaml", "apiVersion: x.dev/v1\nkind: Thing\nmetadata: {name: a}\n")]);
    let why = refused(&no_kind, "{}").await;
    assert!(
        why.contains("the cluster serves no kind `Thing` in `x.dev/v1`") && why.contains("a.yaml"),
        "{why}"
    );
}

#[tokio::test]
async fn names_and_revisions_that_are_not_there() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &letters("a"));
    ask.name = "Web".into();
    assert!(
        said(helm.install(&ask).await)
            .starts_with("Invalid: release name check failed: release name \"Web\": ")
    );
    let mut ask = install(&maps(), &letters("a"));
    ask.labels = [("owner".to_owned(), "me".to_owned())].into();
    assert!(
        said(helm.install(&ask).await).contains("user supplied labels contains system reserved label name")
    );
    assert_eq!(
        said(helm.upgrade(&upgrade(&maps(), &letters("a"))).await),
        "NotFound: \"web\" has no deployed releases"
    );
    assert_eq!(said(helm.rollback(&rollback(1)).await), "NotFound: release: not found");
    assert_eq!(said(helm.rollback(&rollback(-1)).await), "Invalid: invalid release revision");
    assert_eq!(said(helm.test(&test()).await), "NotFound: release: not found");
    assert_eq!(
        said(helm.uninstall(&uninstall(false)).await),
        "NotFound: uninstall: Release not loaded: web: release: not found"
    );
    let mut ask = uninstall(false);
    ask.ignore_not_found = true;
    assert!(helm.uninstall(&ask).await.unwrap().record.is_none());
    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    assert_eq!(said(helm.rollback(&rollback(7)).await), "NotFound: release has no 7 version");
    assert_eq!(said(helm.rollback(&rollback(0)).await), "NotFound: release has no 0 version");
    let again = said(helm.install(&install(&maps(), &letters("b"))).await);
    assert_eq!(again, "Conflict: cannot reuse a name that is still in use");
    assert_eq!((stage.maps().await, stage.leases().await), (vec!["a".to_owned()], 0));
}

#[tokio::test]
async fn what_is_somebody_elses_is_not_touched() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let theirs: Api<ConfigMap> = Api::namespaced(stage.admin(), NAMESPACE);
    let mut map = ConfigMap::default();
    map.metadata.name = Some("b".into());
    theirs.create(&PostParams::default(), &map).await.unwrap();
    let why = said(helm.install(&install(&maps(), &letters("ab"))).await);
    assert!(why.starts_with("Conflict: unable to continue with install: ConfigMap default/b"), "{why}");
    assert!(why.contains("missing key \"app.kubernetes.io/managed-by\": must be set to \"Helm\""), "{why}");
    assert_eq!((stage.history().await.len(), stage.maps().await.len()), (0, 0));

    helm.install(&install(&maps(), &letters("a"))).await.unwrap();
    let why = said(helm.upgrade(&upgrade(&maps(), &letters("ab"))).await);
    assert!(why.starts_with("Conflict: unable to continue with update: "), "{why}");
    assert_eq!(stage.history().await, ["1 deployed: Install complete"]);
    let mut ask = upgrade(&maps(), &letters("ab"));
    ask.run.take_ownership = true;
    helm.upgrade(&ask).await.unwrap();
    assert_eq!(stage.maps().await, ["a", "b"]);
}

#[tokio::test]
async fn who_may_not_is_told_before_anything_is_written() {
    let stage = Stage::new().await;
    let mut helm = stage.helm().await;
    helm.objects = stage.cluster.client(User::named("eve", &["system:authenticated"]));
    let why = said(helm.install(&install(&maps(), &letters("a"))).await);
    let told = "Forbidden: unable to continue with install: ConfigMap default/a (c/templates/maps.yaml): \
        configmaps \"a\" is forbidden: User \"eve\" cannot get";
    assert!(why.starts_with(told), "{why}");
    assert_eq!((stage.history().await.len(), stage.leases().await), (0, 0));
}

/// The futures stay small, because a server runs many of them at once.
#[tokio::test]
async fn an_act_is_small_until_it_is_done() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let (new, next, back, gone) =
        (install(&maps(), &letters("a")), upgrade(&maps(), &letters("a")), rollback(1), uninstall(true));
    let sizes = [
        size_of_val(&helm.install(&new)),
        size_of_val(&helm.upgrade(&next)),
        size_of_val(&helm.rollback(&back)),
        size_of_val(&helm.uninstall(&gone)),
    ];
    assert!(sizes.iter().all(|size| *size < 8 << 10), "{sizes:?}");
}

#[tokio::test]
async fn a_namespace_is_made_if_asked() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let mut ask = install(&maps(), &letters("a"));
    ask.namespace = "new".into();
    assert!(said(helm.install(&ask).await).starts_with("NotFound: "));
    ask.create_namespace = true;
    helm.install(&ask).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(stage.admin());
    assert_eq!(namespaces.get("new").await.unwrap().metadata.labels.unwrap()["name"], "new");
}

#[tokio::test]
async fn what_says_that_it_stays_stays() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    let kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k, annotations: {helm.sh/resource-policy: keep}}\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: l}\n";
    helm.install(&install(&chart(&[("templates/k.yaml", kept)]), &values("{}"))).await.unwrap();
    let gone = helm.uninstall(&uninstall(false)).await.unwrap();
    assert_eq!(gone.kept.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ConfigMap default/k"]);
    assert_eq!((stage.maps().await, gone.unowned.len()), (vec!["k".to_owned()], 0));
}

/// Progress sink that collects all events as text.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Tell for Heard {
    fn tell(&self, step: Step) {
        self.0.lock().unwrap().push(format!("{step:?}"));
    }
}

#[tokio::test]
async fn secrets_are_not_said() {
    let stage = Stage::new().await;
    let helm = stage.helm().await;
    // The API server repeats input it cannot parse, and a chart can put a secret anywhere.
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: {{ .Values.p | quote }}}\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {{ .Values.p | quote }}\n";
    let chart = chart(&[("templates/s.yaml", secret), ("templates/z.yaml", map)]);
    let heard = Heard::default();
    let mut ask = install(&chart, &values("{\"p\": \"canary-of-the-mine\"}"));
    ask.run.tell = &heard;
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
