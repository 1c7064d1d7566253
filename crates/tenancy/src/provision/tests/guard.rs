//! What tenants try against what holds them in their place: each answered by Kubernetes itself.

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;

use super::*;

/// A workspace with everything, whose administrator is a person by each of the doors that they have.
async fn stage() -> World {
    let world = world().await;
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || is_ready(&world, "acme").await;
    until_reached(&world, &Fault::none(), &HeldClock::new(), "ready", ready).await;
    world
}

fn tenants(world: &World) -> Vec<(&'static str, kube::Client)> {
    let person =
        world.of(&format!("longshore:user:{ID}"), &["longshore:ws:acme:admin", "system:authenticated"]);
    let by_kubeconfig = kube_embedded::access::User::service_account(SYSTEM_NAMESPACE, ID, "");
    let program = kube_embedded::access::User::service_account("acme", "longshore-deployer", "");
    vec![
        ("through the platform", person),
        ("by kubeconfig", world.cluster.client(by_kubeconfig)),
        ("a program of theirs", world.cluster.client(program)),
    ]
}

/// Whether Kubernetes said no, by roles or by policy.
fn refused<T: std::fmt::Debug>(what: &str, answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
        other => panic!("{what}: {other:?}"),
    }
}

fn object(kind: &str, group_version: &str, content: &Value) -> (ApiResource, DynamicObject) {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let mut whole = content.clone();
    (whole["apiVersion"], whole["kind"]) = (group_version.into(), kind.into());
    (
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)),
        serde_json::from_value(whole).unwrap(),
    )
}

#[tokio::test]
async fn nobody_of_a_workspace_changes_what_was_provisioned() {
    let world = stage().await;
    for (who, client) in tenants(&world) {
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "acme");
        let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), "acme");
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "acme");
        let (quotas, limits): (Api<ResourceQuota>, Api<LimitRange>) =
            (Api::namespaced(client.clone(), "acme"), Api::namespaced(client.clone(), "acme"));
        let gone = DeleteParams::default();
        refused(who, bindings.delete("longshore-ws-viewer", &gone).await.map(drop));
        refused(who, policies.delete("longshore-default-deny", &gone).await.map(drop));
        refused(who, accounts.delete("longshore-deployer", &gone).await.map(drop));
        refused(who, quotas.delete("longshore", &gone).await.map(drop));
        refused(who, limits.delete("longshore", &gone).await.map(drop));
        refused(who, policies.delete_collection(&gone, &ListParams::default()).await.map(drop));
        let unmarked = Patch::Merge(json!({"metadata": {"labels": {marks::PROVISIONED: null}}}));
        refused(who, bindings.patch("longshore-ws-admin", &PatchParams::default(), &unmarked).await);
        refused(who, policies.patch("longshore-default-deny", &PatchParams::default(), &unmarked).await);
        let open = Patch::Merge(json!({"spec": {"egress": [{}]}}));
        refused(who, policies.patch("longshore-default-deny", &PatchParams::default(), &open).await);
        let more = Patch::Merge(json!({"spec": {"hard": {"pods": "1000"}}}));
        refused(who, quotas.patch("longshore", &PatchParams::default(), &more).await);
        let privileged = Patch::Merge(
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        );
        refused(
            who,
            Api::<Namespace>::all(client.clone()).patch("acme", &PatchParams::default(), &privileged).await,
        );
        let member = Patch::Merge(json!({"spec": {"members": []}}));
        refused(
            who,
            Api::<Workspace>::all(client.clone()).patch("acme", &PatchParams::default(), &member).await,
        );
    }
    is_whole(&world, "acme").await;
}

#[tokio::test]
async fn nobody_gives_away_more_than_they_have_or_takes_our_marks() {
    let world = stage().await;
    let binding = |name: &str, role: &str, subject: Value| {
        json!({"metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let own = json!({"kind": "ServiceAccount", "name": "default", "namespace": "acme"});
    let friend = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "longshore:user:ucccccccccc"});
    let foreign = json!({"kind": "ServiceAccount", "name": "default", "namespace": "elsewhere"});
    let marked = |label: &str, value: &str| json!({"metadata": {"name": "x", "labels": {label: value}}});
    let rbac = "rbac.authorization.k8s.io/v1";
    let secrets = json!({"metadata": {"name": "x"}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]}]});
    #[rustfmt::skip]
    let rows = [
        // who gets more than the giver has
        ("RoleBinding", rbac, binding("x", "cluster-admin", own.clone())),
        ("RoleBinding", rbac, binding("x", "admin", own.clone())),
        ("Role", rbac, secrets),
        // who is no member
        ("RoleBinding", rbac, binding("x", "longshore-ws-developer", friend)),
        ("RoleBinding", rbac, binding("x", "longshore-ws-developer", foreign)),
        // our marks
        ("ConfigMap", "v1", marked(marks::PROVISIONED, "true")),
        ("ConfigMap", "v1", marked(marks::WORKSPACE, "other")),
        // not theirs at all
        ("ResourceQuota", "v1", json!({"metadata": {"name": "x"}, "spec": {"hard": {"pods": "1000"}}})),
        ("LimitRange", "v1", json!({"metadata": {"name": "x"}, "spec": {"limits": []}})),
    ];
    for (who, client) in tenants(&world) {
        for (kind, group_version, content) in &rows {
            let (resource, object) = object(kind, group_version, content);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "acme", &resource);
            refused(&format!("{who}: {content}"), api.create(&PostParams::default(), &object).await);
        }
        // What is theirs they may do.
        for (kind, group_version, content) in [
            ("RoleBinding", rbac, binding("mine", "longshore-ws-viewer", own.clone())),
            ("ConfigMap", "v1", marked(marks::WORKSPACE, "acme")),
        ] {
            let (resource, object) = object(kind, group_version, &content);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "acme", &resource);
            api.create(&PostParams::default(), &object)
                .await
                .unwrap_or_else(|error| panic!("{who}: {error}"));
            api.delete(&object.name_any(), &DeleteParams::default()).await.unwrap();
        }
        // And nothing in another place.
        for place in ["default", "kube-system", SYSTEM_NAMESPACE] {
            refused(
                who,
                Api::<ConfigMap>::namespaced(client.clone(), place).list(&ListParams::default()).await,
            );
            refused(who, Api::<Secret>::namespaced(client.clone(), place).list(&ListParams::default()).await);
        }
        refused(who, Api::<Workspace>::all(client.clone()).list(&ListParams::default()).await);
        refused(who, Api::<User>::all(client).list(&ListParams::default()).await);
    }
}
