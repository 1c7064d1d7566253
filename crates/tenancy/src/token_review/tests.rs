//! Authentication by ServiceAccount tokens, on an embedded cluster.

use domain::ErrorKind;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, UserInfo};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_access::Clients;
use kube_types::{UserSpec, Workspace, well_known};
use serde_json::json;
use testkit::{FaultInjector, ManualClock};

use super::*;
use crate::auth_test_harness::AuthTestHarness;
use crate::{RequestCredentials, Settings};

impl AuthTestHarness {
    async fn create_service_account(&self, namespace: &str, name: &str) {
        let namespaced = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
        self.world.apply([namespaced, account]).await;
    }

    async fn create_token(&self, namespace: &str, name: &str, audiences: &[&str]) -> String {
        let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        let spec = TokenRequestSpec { audiences: Some(audiences), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.world.admin_client(), namespace);
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        answer.status.unwrap().token.unwrap()
    }
}

async fn bearer(tenancy: &Tenancy, token: &str) -> Result<Actor, Error> {
    tenancy.authenticate(&RequestCredentials { bearer: Some(token), ..RequestCredentials::default() }).await
}

fn kind(answer: Result<Actor, Error>) -> Option<ErrorKind> {
    answer.err().map(|error| error.kind())
}

#[tokio::test]
async fn deployer_is_developer_of_its_workspace_and_other_service_accounts_have_no_role() {
    let stage = AuthTestHarness::new().await;
    stage.create_service_account("acme", DEPLOYER).await;
    stage.create_service_account("acme", "other").await;
    stage.create_service_account("elsewhere", DEPLOYER).await;
    stage.create_workspace("acme", &[]).await;
    let who = async |namespace: &str, name: &str| {
        let actor =
            bearer(&stage.tenancy, &stage.create_token(namespace, name, &[AUDIENCE]).await).await.unwrap();
        let expected = Principal::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() };
        assert_eq!((&actor.principal, &actor.auth_method), (&expected, &AuthMethod::Kubernetes));
        assert!(actor.platform_roles.is_empty() && actor.require_unrestricted_user().is_err());
        actor
            .memberships
            .into_iter()
            .map(|(workspace, role)| format!("{workspace} {role}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(who("acme", DEPLOYER).await, ["acme developer"]);
    assert!(who("acme", "other").await.is_empty());
    assert!(who("elsewhere", DEPLOYER).await.is_empty());

    // A workspace marked for removal grants no roles.
    let workspaces: Api<Workspace> = Api::all(stage.world.admin_client());
    let change = Patch::Merge(
        json!({"metadata": {"annotations": {well_known::REMOVE_AFTER: "2030-01-01T00:00:00Z"}}}),
    );
    workspaces.patch("acme", &PatchParams::default(), &change).await.unwrap();
    let acme = "acme".parse().unwrap();
    let marked = |directory: &Directory| directory.workspace(&acme).unwrap().is_closed;
    stage.tenancy.directory().wait_until(marked).await;
    assert!(who("acme", DEPLOYER).await.is_empty());
}

#[tokio::test]
async fn tokens_for_other_audiences_and_of_users_are_rejected() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(UserSpec::default()).await;
    let id = person.id.as_str();
    stage.create_service_account("acme", DEPLOYER).await;
    stage.create_service_account(SYSTEM_NAMESPACE, id).await;
    let good = stage.create_token("acme", DEPLOYER, &[AUDIENCE]).await;
    let (head, signature) = good.rsplit_once('.').unwrap();
    for wrong in [
        stage.create_token("acme", DEPLOYER, &[]).await,
        stage.create_token("acme", DEPLOYER, &["https://kubernetes.default.svc"]).await,
        stage.create_token("acme", DEPLOYER, &["vault"]).await,
        stage.create_token(SYSTEM_NAMESPACE, id, &[]).await,
        stage.create_token(SYSTEM_NAMESPACE, id, &[AUDIENCE]).await,
        format!("{head}.{}", signature.chars().rev().collect::<String>()),
        head.to_owned(),
        "a.b.c".to_owned(),
        String::new(),
        "x".repeat(100_000),
    ] {
        assert_eq!(kind(bearer(&stage.tenancy, &wrong).await), Some(ErrorKind::Unauthenticated), "{wrong}");
    }
    assert_eq!(kind(bearer(&stage.tenancy, &good).await), None);
}

#[tokio::test]
async fn positive_review_is_cached_for_a_minute_and_negative_for_ten_seconds() {
    let stage = AuthTestHarness::new().await;
    stage.create_service_account("acme", DEPLOYER).await;
    let good = stage.create_token("acme", DEPLOYER, &[AUDIENCE]).await;
    let (fault, clock) = (FaultInjector::healthy(), ManualClock::starting_at(Timestamp::now()));
    let reviews = TokenReviewCache::new(fault.wrap(stage.world.platform_client()), Arc::new(clock.clone()));
    let ask = async |token: &str| {
        let before = fault.calls();
        let known = reviews.review(token).await.unwrap().is_some();
        (known, fault.calls() - before)
    };
    assert_eq!(ask(&good).await, (true, 1));
    assert_eq!(ask(&good).await, (true, 0));
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.world.admin_client(), "acme");
    accounts.delete(DEPLOYER, &DeleteParams::default()).await.unwrap();
    clock.advance(POSITIVE_TTL);
    assert_eq!(ask(&good).await, (false, 1), "it was revoked");
    assert_eq!(ask(&good).await, (false, 0));
    clock.advance(NEGATIVE_TTL);
    assert_eq!(ask(&good).await, (false, 1));
    assert_eq!(ask("no token at all").await, (false, 0));

    // A flood of invalid tokens does not grow the cache without bound.
    for number in 0..CACHE_CAPACITY + 50 {
        ask(&format!("a.b.{number}")).await;
    }
    assert!(reviews.results.lock().len() <= CACHE_CAPACITY);
}

#[tokio::test]
async fn failed_review_is_not_cached() {
    let stage = AuthTestHarness::new().await;
    stage.create_service_account("acme", DEPLOYER).await;
    let good = stage.create_token("acme", DEPLOYER, &[AUDIENCE]).await;
    let fault = FaultInjector::healthy();
    let clients = Clients::new(fault.wrap(stage.world.platform_client()));
    let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(stage.clock.clone())).await.unwrap();
    fault.set_link(testkit::fault::LinkState::Disconnected);
    assert_eq!(kind(bearer(&tenancy, &good).await), Some(ErrorKind::Unavailable));
    fault.set_link(testkit::fault::LinkState::Healthy);
    assert_eq!(kind(bearer(&tenancy, &good).await), None);
}

#[test]
fn review_without_our_audience_is_rejected() {
    let user = |name: &str| Some(UserInfo { username: Some(name.to_owned()), ..UserInfo::default() });
    let status = |authenticated, audiences: &[&str], name: &str| TokenReviewStatus {
        authenticated: Some(authenticated),
        audiences: Some(audiences.iter().map(|audience| (*audience).to_owned()).collect()),
        user: user(name),
        error: None,
    };
    let deployer = "system:serviceaccount:acme:longshore-deployer";
    let rows = [
        (status(true, &[AUDIENCE], deployer), true),
        (status(false, &[AUDIENCE], deployer), false),
        (status(true, &[], deployer), false),
        (status(true, &["kubernetes"], deployer), false),
        (TokenReviewStatus { audiences: None, ..status(true, &[], deployer) }, false),
        (status(true, &[AUDIENCE], "system:admin"), false),
        (status(true, &[AUDIENCE], "longshore:user:uaaaaaaaaaa"), false),
        (status(true, &[AUDIENCE], "system:serviceaccount:longshore-system:uaaaaaaaaaa"), false),
        (status(true, &[AUDIENCE], "system:serviceaccount:longshore-system:longshore"), true),
        (TokenReviewStatus::default(), false),
    ];
    for (status, expected) in rows {
        assert_eq!(service_account(&status).is_some(), expected, "{status:?}");
    }
}
