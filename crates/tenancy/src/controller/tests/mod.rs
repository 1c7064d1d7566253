//! Tests of the controllers on an embedded cluster, where the platform has exactly the rights of its manifests.

mod certificates;
mod contents;
mod edge;
mod faults;
mod guard;
mod kills;
mod lifecycle;
mod model;
mod node_removal;
mod panics;
mod shares;
mod tenant_access;

use std::sync::Arc;

use futures::future::{Either, select};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use kube_access::Clients;
use kube_embedded::clock::SystemClock;
use kube_types::workspace::{Member, WorkspaceNamespace};
use kube_types::{SYSTEM_NAMESPACE, User, UserSpec, Workspace, WorkspaceSpec, conditions, well_known};
use serde_json::{Value, json};
use testkit::{FaultInjector, ManualClock, TestCluster, wait_for};

use crate::{Settings, Tenancy, manifests};

const ID: &str = "uaaaaaaaaaa";
const OTHER_ID: &str = "ubbbbbbbbbb";

/// A cluster with the system clock: deleting a namespace takes real time.
async fn test_cluster() -> TestCluster {
    let world = TestCluster::with_permissions(Arc::new(SystemClock), []).await;
    manifests::apply(&world.admin_client()).await.unwrap();
    world
}

async fn tenancy(
    world: &TestCluster,
    fault: &FaultInjector,
    clock: &ManualClock,
) -> Result<Tenancy, crate::StartError> {
    Tenancy::start(
        Clients::new(fault.wrap(world.platform_client())),
        Settings::default(),
        Arc::new(clock.clone()),
    )
    .await
}

/// Runs the controllers until `reached` holds.
async fn run_controllers_until(
    world: &TestCluster,
    fault: &FaultInjector,
    clock: &ManualClock,
    what: &str,
    reached: impl AsyncFnMut() -> Option<()>,
) {
    // A start that fails because of the fault counts as a kill, too.
    let Ok(tenancy) = tenancy(world, fault, clock).await else { return };
    let (running, reached) = (std::pin::pin!(super::run(tenancy)), std::pin::pin!(wait_for(what, reached)));
    match select(running, reached).await {
        Either::Left(((), _)) => panic!("the controllers ended"),
        Either::Right(_) => {}
    }
}

fn user(name: &str, id: Option<&str>) -> User {
    let spec = UserSpec {
        email: format!("{name}@example.com"),
        organization: "Acme".to_owned(),
        ..UserSpec::default()
    };
    let mut user = User::new(name, spec);
    if let Some(id) = id {
        user.annotations_mut().insert(well_known::TENANT_ID.to_owned(), id.to_owned());
    }
    user
}

fn workspace(name: &str, members: &[(&str, &str)]) -> Workspace {
    let member = |(user, role): &(&str, &str)| Member { user: (*user).to_owned(), role: (*role).to_owned() };
    let spec = WorkspaceSpec {
        members: members.iter().map(member).collect(),
        namespaces: vec![WorkspaceNamespace { name: name.to_owned(), ..WorkspaceNamespace::default() }],
        quota: Settings::default().quota,
        clusters: vec!["host".to_owned()],
        ..WorkspaceSpec::default()
    };
    Workspace::new(name, spec)
}

async fn create<K>(world: &TestCluster, object: &K) -> K
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    Api::all(world.admin_client()).create(&PostParams::default(), object).await.unwrap()
}

async fn patch<K>(world: &TestCluster, name: &str, patch: Value)
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Api::<K>::all(world.admin_client())
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn delete<K>(world: &TestCluster, name: &str)
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Api::<K>::all(world.admin_client()).delete(name, &DeleteParams::default()).await.unwrap();
}

async fn get<K>(world: &TestCluster, name: &str) -> Option<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Api::all(world.admin_client()).get_opt(name).await.unwrap()
}

async fn list_in<K>(world: &TestCluster, namespace: &str) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Api::namespaced(world.admin_client(), namespace).list(&ListParams::default()).await.unwrap().items
}

/// The names of the objects of a kind in a namespace.
async fn names<K>(world: &TestCluster, namespace: &str) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    list_in::<K>(world, namespace).await.iter().map(ResourceExt::name_any).collect()
}

/// The condition `kind` of a workspace: status and reason.
async fn condition(world: &TestCluster, workspace: &str, kind: &str) -> Option<(String, String)> {
    let status = get::<Workspace>(world, workspace).await?.status?;
    let condition = conditions::find_condition(&status.conditions, kind)?;
    Some((condition.status.clone(), condition.reason.clone()))
}

async fn is_ready(world: &TestCluster, name: &str) -> Option<()> {
    let workspace = get::<Workspace>(world, name).await?;
    let status = workspace.status.clone()?;
    (status.observed_generation == workspace.metadata.generation
        && conditions::is_condition_true(&status.conditions, "Ready"))
    .then_some(())
}

async fn user_is_ready(world: &TestCluster, name: &str) -> Option<()> {
    let user = get::<User>(world, name).await?;
    let status = user.status.clone()?;
    (status.observed_generation == user.metadata.generation
        && conditions::is_condition_true(&status.conditions, "Ready"))
    .then_some(())
}

/// The subjects of a role's RoleBinding.
async fn subjects_of_role(world: &TestCluster, namespace: &str, role: &str) -> Vec<String> {
    let bindings: Api<RoleBinding> = Api::namespaced(world.admin_client(), namespace);
    let binding = bindings.get_opt(&format!("longshore-ws-{role}")).await.unwrap();
    binding
        .into_iter()
        .flat_map(|binding| binding.subjects.unwrap_or_default())
        .map(|subject| subject.name)
        .collect()
}

/// The ServiceAccount of a user.
async fn service_account(world: &TestCluster, id: &str) -> Option<ServiceAccount> {
    Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE).get_opt(id).await.unwrap()
}

async fn give_credentials(world: &TestCluster, id: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": well_known::CREDENTIALS_TYPE,
        "metadata": {"name": format!("credentials-{id}"), "namespace": SYSTEM_NAMESPACE, "labels": {well_known::USER: id}},
        "stringData": {"epoch": "1"},
    });
    world.apply([secret]).await;
}

/// Asserts that a namespace has all provisioned objects.
async fn assert_fully_provisioned(world: &TestCluster, namespace: &str) {
    let bindings = names::<RoleBinding>(world, namespace).await;
    let wanted = [
        "longshore-deployer",
        "longshore-ws-admin",
        "longshore-ws-developer",
        "longshore-ws-isv",
        "longshore-ws-operator",
        "longshore-ws-viewer",
    ];
    assert_eq!(bindings, wanted);
    let quotas = names::<k8s_openapi::api::core::v1::ResourceQuota>(world, namespace).await;
    assert_eq!(quotas, ["longshore", "longshore-counts"]);
    assert_eq!(names::<k8s_openapi::api::core::v1::LimitRange>(world, namespace).await, ["longshore"]);
    assert_eq!(
        names::<k8s_openapi::api::networking::v1::NetworkPolicy>(world, namespace).await,
        ["longshore-default-deny"]
    );
    assert!(names::<ServiceAccount>(world, namespace).await.contains(&"longshore-deployer".to_owned()));
}

/// A namespace outside all workspaces, with an object in it.
async fn foreign_namespace(world: &TestCluster, name: &str, labels: Value) -> Namespace {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let thing = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious", "namespace": name}, "data": {"a": "b"},
    });
    world.apply([namespace, thing]).await;
    get(world, name).await.unwrap()
}

/// Asserts that a foreign namespace and its object are unchanged, and that nothing was added.
async fn assert_unchanged(world: &TestCluster, before: &Namespace) {
    let name = before.name_any();
    let now: Namespace = get(world, &name).await.expect("it is still there");
    assert_eq!(now.metadata, before.metadata);
    let things = names::<k8s_openapi::api::core::v1::ConfigMap>(world, &name).await;
    assert!(things.contains(&"precious".to_owned()), "{things:?}");
    assert_eq!(names::<RoleBinding>(world, &name).await, Vec::<String>::new());
}

async fn secrets_of(world: &TestCluster, id: &str) -> Vec<Secret> {
    let theirs = ListParams::default().labels(&format!("{}={id}", well_known::USER));
    Api::<Secret>::namespaced(world.admin_client(), SYSTEM_NAMESPACE).list(&theirs).await.unwrap().items
}

async fn admin_bindings(world: &TestCluster) -> Vec<String> {
    let ours = ListParams::default().labels(well_known::PROVISIONED_OBJECT);
    let all = Api::<ClusterRoleBinding>::all(world.admin_client()).list(&ours).await.unwrap();
    all.items.iter().map(ResourceExt::name_any).collect()
}

/// Whether an event reports the object as ready.
async fn has_ready_event(world: &TestCluster, name: &str) -> Option<()> {
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(world.admin_client(), "default");
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let tells = |event: &k8s_openapi::api::events::v1::Event| {
        event.reason.as_deref() == Some("Ready")
            && event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(name))
    };
    all.iter().any(tells).then_some(())
}
