//! Impersonation headers and timeouts of clients.

use std::collections::BTreeSet;

use domain::actor::{Actor, Impersonation, Via, Who};
use domain::ids::{UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, WatchParams};
use parking_lot::Mutex;
use serde_json::json;
use testkit::fault::Line;
use testkit::{Fault, World};
use tokio::time::Instant;

use super::*;
use crate::patience::{Silent, is_out_of_reach};

type Headers = Arc<Mutex<Vec<HeaderMap>>>;

/// A client that records the headers of its requests.
fn listening(to: kube::Client) -> (kube::Client, Headers) {
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

fn smuggling() -> Request<Body> {
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
async fn a_request_is_made_as_whom_the_client_is_for_whatever_it_brings_along() {
    let world = World::new().await;
    let (line, heard) = listening(world.admin());
    let clients = Clients::new(line);
    for (client, wanted) in [
        (clients.own(), vec![]),
        (
            clients.acting_as(&deployer()),
            vec!["impersonate-user: system:serviceaccount:team:longshore-deployer"],
        ),
    ] {
        client.send(smuggling()).await.unwrap();
        let headers = heard.lock().pop().unwrap();
        let impersonating: Vec<String> = headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(ALL))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(impersonating, wanted);
        assert_eq!(headers["accept"], "application/json");
    }
}

/// Otherwise a client that wraps another could act as the platform instead of the impersonated user.
#[tokio::test]
async fn a_client_over_a_client_acts_as_the_one_who_is_named_or_not_at_all() {
    let world = World::new().await;
    let (line, heard) = listening(world.admin());
    let clients = Clients::new(line);
    let person = clients.acting_as(&deployer());
    for client in [Clients::new(clients.own()).acting_as(&deployer()), Clients::new(person.clone()).own()] {
        client.send(smuggling()).await.unwrap();
        let headers = heard.lock().pop().unwrap();
        assert_eq!(headers.get_all("impersonate-user").iter().collect::<Vec<_>>(), [deployer().user()]);
        assert!(!headers.contains_key("impersonate-group"));
    }
    Clients::new(clients.own()).own().send(smuggling()).await.unwrap();
    assert!(!heard.lock().pop().unwrap().contains_key("impersonate-user"));
    for twice in [deployer(), Impersonation::service_account("other", "default")] {
        let refused = Clients::new(person.clone()).acting_as(&twice).send(smuggling()).await.unwrap_err();
        assert!(refused.to_string().contains("somebody else besides"), "{refused}");
        assert!(heard.lock().is_empty());
    }
}

#[test]
fn a_configuration_that_acts_as_somebody_is_refused() {
    let config = |auth: serde_json::Value| {
        let mut config = kube::Config::new("https://kube.example".parse().unwrap());
        config.auth_info = serde_json::from_value(auth).unwrap();
        check(&config).is_ok()
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
async fn kubernetes_decides_what_somebody_may_do_through_us() {
    let world = World::new().await;
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
    let clients = Clients::new(world.platform());
    let list = async |who: &Impersonation, namespace: &str| {
        let maps: Api<ConfigMap> = Api::namespaced(clients.acting_as(who), namespace);
        maps.list(&ListParams::default()).await.is_ok()
    };
    let may = async |who: &Impersonation, namespace: &str| {
        let what = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            verb: Some("list".to_owned()),
            resource: Some("configmaps".to_owned()),
            ..ResourceAttributes::default()
        };
        crate::may(&clients.own(), who, what).await.unwrap()
    };
    let person = |workspace: &str| {
        let member = (WorkspaceName::chosen(workspace).unwrap(), WorkspaceRole::Viewer);
        let id = UserId::from_random([7; 10]);
        let who = Who::Person { id, account: "user-1".to_owned(), uid: "x".to_owned() };
        let memberships = [member].into_iter().collect();
        Actor { who, platform: BTreeSet::new(), memberships, via: Via::Kubernetes }.impersonation()
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
async fn a_name_that_no_header_can_carry_sends_nothing() {
    let world = World::new().await;
    let (line, heard) = listening(world.admin());
    let bad = Impersonation::service_account("team", "x\r\nImpersonate-Group: system:masters");
    let client = Clients::new(line).acting_as(&bad);
    let refused = client.send(smuggling()).await.unwrap_err();
    assert!(refused.to_string().contains("no name") && !is_out_of_reach(&refused), "{refused}");
    assert!(heard.lock().is_empty());
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_given_up_and_recognised() {
    let (world, fault) = (World::new().await, Fault::none());
    let clients = Clients::with_limit(fault.over(world.admin()), Duration::from_millis(300));
    let maps: Api<ConfigMap> = Api::namespaced(clients.acting_as(&deployer()), "default");
    fault.turn(Line::Silent);
    let began = Instant::now();
    let error = maps.get("x").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(matches!(&error, kube::Error::Service(cause) if cause.is::<Silent>()), "{error:?}");
    assert!(is_out_of_reach(&error));
    assert!(maps.watch(&WatchParams::default(), "0").await.is_err(), "a watch must begin in time too");
    fault.turn(Line::Cut);
    assert!(is_out_of_reach(&maps.get("x").await.unwrap_err()));
    fault.turn(Line::Sound);
    assert!(!is_out_of_reach(&maps.get("x").await.unwrap_err()), "a refusal is an answer");
}
