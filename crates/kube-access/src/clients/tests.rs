//! Impersonation headers and timeouts of clients.

use std::collections::BTreeSet;

use domain::actor::{Actor, AuthMethod, Impersonation, Principal};
use domain::ids::{UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, WatchParams};
use parking_lot::Mutex;
use serde_json::json;
use testkit::fault::LinkState;
use testkit::{FaultInjector, TestCluster};
use tokio::time::Instant;

use super::*;
use crate::timeout::{RequestTimeout, is_unreachable};

type Headers = Arc<Mutex<Vec<HeaderMap>>>;

/// A client that records the headers of its requests.
fn recording_client(to: kube::Client) -> (kube::Client, Headers) {
    let heard = Headers::default();
    let notes = heard.clone();
    let call = move |request: Request<Body>| {
        notes.lock().push(request.headers().clone());
        let to = to.clone();
        async move { to.send(request).await }
    };
    (kube::Client::new(service_fn(call), "default"), heard)
}

fn deployer() -> Impersonation {
    Impersonation::service_account("team", "longshore-deployer")
}

fn request_with_impersonation_headers() -> Request<Body> {
    Request::get("/api/v1/namespaces/team/configmaps")
        .header("Impersonate-User", "admin")
        .header("Impersonate-Group", "system:masters")
        .header("impersonate-uid", "1")
        .header("IMPERSONATE-EXTRA-scopes", "all")
        .header("Accept", "application/json")
        .body(Body::empty())
        .unwrap()
}

#[tokio::test]
async fn client_replaces_impersonation_headers_of_requests() {
    let world = TestCluster::new().await;
    let (line, heard) = recording_client(world.admin_client());
    let clients = Clients::new(line);
    for (client, wanted) in [
        (clients.platform(), vec![]),
        (
            clients.impersonating(&deployer()),
            vec!["impersonate-user: system:serviceaccount:team:longshore-deployer"],
        ),
    ] {
        client.send(request_with_impersonation_headers()).await.unwrap();
        let headers = heard.lock().pop().unwrap();
        let impersonating: Vec<String> = headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(IMPERSONATE_PREFIX))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(impersonating, wanted);
        assert_eq!(headers["accept"], "application/json");
    }
}

/// Otherwise a client that wraps another could act as the platform instead of the impersonated user.
#[tokio::test]
async fn wrapped_client_impersonates_once_or_fails() {
    let world = TestCluster::new().await;
    let (line, heard) = recording_client(world.admin_client());
    let clients = Clients::new(line);
    let person = clients.impersonating(&deployer());
    for client in
        [Clients::new(clients.platform()).impersonating(&deployer()), Clients::new(person.clone()).platform()]
    {
        client.send(request_with_impersonation_headers()).await.unwrap();
        let headers = heard.lock().pop().unwrap();
        assert_eq!(headers.get_all("impersonate-user").iter().collect::<Vec<_>>(), [deployer().user()]);
        assert!(!headers.contains_key("impersonate-group"));
    }
    Clients::new(clients.platform()).platform().send(request_with_impersonation_headers()).await.unwrap();
    assert!(!heard.lock().pop().unwrap().contains_key("impersonate-user"));
    for twice in [deployer(), Impersonation::service_account("other", "default")] {
        let refused = Clients::new(person.clone())
            .impersonating(&twice)
            .send(request_with_impersonation_headers())
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("cannot impersonate another user"), "{refused}");
        assert!(heard.lock().is_empty());
    }
}

#[test]
fn kubeconfig_that_impersonates_is_rejected() {
    let config = |auth: serde_json::Value| {
        let mut config = kube::Config::new("https://kube.example".parse().unwrap());
        config.auth_info = serde_json::from_value(auth).unwrap();
        reject_impersonation(&config).is_ok()
    };
    assert!(config(json!({"token": "t"})));
    for auth in [
        json!({"as": "admin"}),
        json!({"as-groups": ["system:masters"]}),
        json!({"as-uid": "1"}),
        json!({"as-user-extra": {"a": ["b"]}}),
    ] {
        assert!(!config(auth.clone()), "{auth}");
    }
}

#[tokio::test]
async fn impersonated_requests_are_authorized_by_rbac() {
    let world = TestCluster::new().await;
    let rule = |api: &str| json!({"apiGroups": [""], "resources": [api], "verbs": ["list"]});
    let group = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    world
        .apply([
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "reader", "namespace": "team"}, "rules": [rule("configmaps")]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "reader", "namespace": "team"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                "subjects": [group("system:serviceaccounts:team"), group("longshore:ws:team:viewer")]}),
        ])
        .await;
    let clients = Clients::new(world.platform_client());
    let list = async |who: &Impersonation, namespace: &str| {
        let maps: Api<ConfigMap> = Api::namespaced(clients.impersonating(who), namespace);
        maps.list(&ListParams::default()).await.is_ok()
    };
    let may = async |who: &Impersonation, namespace: &str| {
        let what = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            verb: Some("list".to_owned()),
            resource: Some("configmaps".to_owned()),
            ..ResourceAttributes::default()
        };
        crate::is_allowed(&clients.platform(), who, what).await.unwrap()
    };
    let person = |workspace: &str| {
        let member = (WorkspaceName::parse_chosen(workspace).unwrap(), WorkspaceRole::Viewer);
        let id = UserId::from_random([7; 10]);
        let who = Principal::User { id, account: "user-1".to_owned(), uid: "x".to_owned() };
        let memberships = [member].into_iter().collect();
        Actor {
            principal: who,
            platform_roles: BTreeSet::new(),
            memberships,
            auth_method: AuthMethod::Kubernetes,
        }
        .impersonation()
    };
    let stranger = Impersonation::service_account("other", "default");
    for (who, namespace, allowed) in [
        (&deployer(), "team", true),
        (&deployer(), "default", false),
        (&stranger, "team", false),
        (&person("team"), "team", true),
        (&person("team"), "default", false),
        (&person("other"), "team", false),
    ] {
        assert_eq!(list(who, namespace).await, allowed, "{who:?} in {namespace}");
        assert_eq!(may(who, namespace).await, allowed, "a review says the same of {who:?} in {namespace}");
    }
}

#[tokio::test]
async fn request_is_not_sent_when_user_name_is_no_header_value() {
    let world = TestCluster::new().await;
    let (line, heard) = recording_client(world.admin_client());
    let bad = Impersonation::service_account("team", "x\r\nImpersonate-Group: system:masters");
    let client = Clients::new(line).impersonating(&bad);
    let refused = client.send(request_with_impersonation_headers()).await.unwrap_err();
    assert!(
        refused.to_string().contains("not a valid header value") && !is_unreachable(&refused),
        "{refused}"
    );
    assert!(heard.lock().is_empty());
}

#[tokio::test]
async fn unresponsive_cluster_times_out_as_unreachable() {
    let (world, fault) = (TestCluster::new().await, FaultInjector::healthy());
    let clients = Clients::with_timeout(fault.wrap(world.admin_client()), Duration::from_millis(300));
    let maps: Api<ConfigMap> = Api::namespaced(clients.impersonating(&deployer()), "default");
    fault.set_link(LinkState::Unresponsive);
    let began = Instant::now();
    let error = maps.get("x").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(matches!(&error, kube::Error::Service(cause) if cause.is::<RequestTimeout>()), "{error:?}");
    assert!(is_unreachable(&error));
    assert!(maps.watch(&WatchParams::default(), "0").await.is_err(), "a watch must begin in time too");
    fault.set_link(LinkState::Disconnected);
    assert!(is_unreachable(&maps.get("x").await.unwrap_err()));
    fault.set_link(LinkState::Healthy);
    assert!(!is_unreachable(&maps.get("x").await.unwrap_err()), "a refusal is an answer");
}
