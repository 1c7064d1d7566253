//! Content of kubeconfigs and the rights that they grant.

use domain::ErrorKind;
use domain::roles::WorkspaceRole;
use jiff::SignedDuration;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota, Secret};
use kube::ResourceExt;
use kube::api::ListParams;
use kube_types::User;
use testkit::wait_for;

use super::*;
use crate::Settings;
use crate::test_harness::{TestHarness, open_settings};

#[test]
fn the_file_as_people_get_it() {
    let user = kube_types::User::new(
        "user-18300000000",
        kube_types::UserSpec {
            mobilephone: "18300000000".to_owned(),
            namespace: "uaaaaaaaaaa".to_owned(),
            ..kube_types::UserSpec::default()
        },
    );
    let mut user = user;
    user.metadata.annotations =
        Some([(kube_types::well_known::TENANT_ID.to_owned(), "uaaaaaaaaaa".to_owned())].into());
    let account = Account::from_user(&user).unwrap();
    let address = ApiServerEndpoint {
        server: "https://kube.example.com:6443".to_owned(),
        ca_data: Some("Q0E=".to_owned()),
    };
    let text = render(&account, &address, "TOKEN").unwrap();
    insta::assert_snapshot!(text);
    assert!(Kubeconfig::from_yaml(&text).is_ok());
}

#[tokio::test]
async fn kubeconfig_expires_within_a_day_or_with_the_account() {
    let url = "https://kube.example.com:6443";
    let stage =
        TestHarness::with_settings(Settings { kube_url: Some(url.to_owned()), ..open_settings() }).await;
    let (id, actor) = stage.register_user("18300000001").await;
    let file = stage.tenancy.kubeconfig(&actor).await.unwrap();
    let now = stage.tenancy.0.clock.now();
    assert_eq!(file.expires.duration_since(now), SignedDuration::from_hours(24));
    assert!(!format!("{file:?}").contains("token"));
    let read = Kubeconfig::from_yaml(&file.text).unwrap();
    let cluster = read.clusters[0].cluster.as_ref().unwrap();
    assert_eq!(cluster.server.as_deref(), Some(url));
    assert!(cluster.certificate_authority_data.is_some(), "of what the cluster says of itself");
    let context = read.contexts[0].context.as_ref().unwrap();
    assert_eq!(context.namespace.as_deref(), Some(id.as_str()));
    assert_eq!(context.user.as_deref(), Some("user-18300000001"));
    stage.clock.advance(SignedDuration::from_hours(7 * 24 - 2));
    let file = stage.tenancy.kubeconfig(&actor).await.unwrap();
    assert_eq!(file.expires.duration_since(stage.tenancy.0.clock.now()), SignedDuration::from_hours(2));
    stage.clock.advance(SignedDuration::from_hours(3));
    assert_eq!(stage.tenancy.kubeconfig(&actor).await.unwrap_err().kind(), ErrorKind::Forbidden);
}

/// The user that the cluster authenticates by the kubeconfig's token.
async fn bearer(stage: &TestHarness, file: &KubeconfigFile) -> Option<UserInfo> {
    let read: serde_json::Value = serde_norway::from_str(&file.text).unwrap();
    let token = read["users"][0]["user"]["token"].as_str().unwrap().to_owned();
    let spec = TokenReviewSpec { token, audiences: None };
    let reviews: Api<TokenReview> = Api::all(stage.world.admin_client());
    let answer =
        reviews.create(&PostParams::default(), &TokenReview { spec, ..TokenReview::default() }).await;
    let status = answer.unwrap().status.unwrap();
    if status.authenticated == Some(true) { status.user } else { None }
}

/// Whether the client may list objects of a kind.
async fn can_list<K>(api: Api<K>) -> bool
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match api.list(&ListParams::default()).await {
        Ok(_) => true,
        Err(error) if is_code(&error, 403) => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn kubeconfig_grants_access_to_own_workspaces_only() {
    let stage = TestHarness::new().await;
    let (_, platform) = stage.register_administrator("18300000002").await;
    let (id, actor) = stage.register_user("18300000003").await;
    let (other, _) = stage.register_user("18300000004").await;
    let file = stage.tenancy.kubeconfig(&actor).await.unwrap();
    let user = bearer(&stage, &file).await.unwrap();
    assert_eq!(user.username.as_deref(), Some(&*format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{id}")));
    let groups: Vec<String> = user.groups.unwrap_or_default();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let client = stage.world.client_for(&user.username.unwrap(), &groups);
    let pods = |namespace: &str| Api::<Pod>::namespaced(client.clone(), namespace);
    let secrets = |namespace: &str| Api::<Secret>::namespaced(client.clone(), namespace);

    assert!(can_list(pods(id.as_str())).await && can_list(secrets(id.as_str())).await);
    for foreign in [other.as_str(), SYSTEM_NAMESPACE, "kube-system", "default"] {
        assert!(!can_list(pods(foreign)).await && !can_list(secrets(foreign)).await, "{foreign}");
    }
    assert!(!can_list(Api::<Pod>::all(client.clone())).await);
    assert!(!can_list(Api::<Node>::all(client.clone())).await);
    assert!(!can_list(Api::<User>::all(client.clone())).await);
    assert!(!can_list(Api::<kube_types::Workspace>::all(client.clone())).await);
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), id.as_str());
    let own = quotas.list(&ListParams::default()).await.unwrap().items.pop().unwrap();
    let deleted = quotas.delete(&own.name_any(), &kube::api::DeleteParams::default()).await;
    assert!(is_code(&deleted.unwrap_err(), 403));

    // A role in a shared workspace grants its rights while the user is a member.
    let acme = stage.tenancy.create_workspace(&platform, "acme", "").await.unwrap().name;
    stage.tenancy.set_role(&platform, &acme, &id, WorkspaceRole::Viewer).await.unwrap();
    wait_for("the viewer sees", async || can_list(pods("acme")).await.then_some(())).await;
    assert!(!can_list(secrets("acme")).await);
    stage.tenancy.remove_member(&platform, &acme, &id).await.unwrap();
    wait_for("the viewer is out", async || (!can_list(pods("acme")).await).then_some(())).await;

    // Disabling an account invalidates its kubeconfigs, even after the account is enabled again.
    let disable = |disabled| {
        let patch = crate::users::UserPatch { disabled: Some(disabled), ..Default::default() };
        stage.tenancy.patch_user(&platform, &id, patch, None)
    };
    disable(true).await.unwrap();
    wait_for("the token is void", async || bearer(&stage, &file).await.is_none().then_some(())).await;
    disable(false).await.unwrap();
    let again = wait_for("a new one is made", async || stage.tenancy.kubeconfig(&actor).await.ok()).await;
    assert!(bearer(&stage, &again).await.is_some() && bearer(&stage, &file).await.is_none());
}

#[tokio::test]
async fn kubeconfig_requires_an_unrestricted_user() {
    let stage = TestHarness::new().await;
    let (_, actor) = stage.register_user("18300000005").await;
    let scopes = domain::scopes::Scopes::parse(["releases"]).unwrap();
    let id = domain::ids::TokenId::from_random([0; 10]);
    let by_token = Actor { auth_method: domain::actor::AuthMethod::Token { id, scopes }, ..actor.clone() };
    let who = domain::actor::Principal::ServiceAccount { namespace: "acme".to_owned(), name: "x".to_owned() };
    let program = Actor { principal: who, auth_method: domain::actor::AuthMethod::Kubernetes, ..actor };
    for other in [by_token, program] {
        assert_eq!(stage.tenancy.kubeconfig(&other).await.unwrap_err().kind(), ErrorKind::Forbidden);
    }
}
