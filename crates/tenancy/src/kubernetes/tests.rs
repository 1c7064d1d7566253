//! Authentication by ServiceAccount tokens, on an embedded cluster.

use domain::Kind;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, UserInfo};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_access::Clients;
use kube_types::{UserSpec, Workspace, marks};
use serde_json::json;
use testkit::{Fault, HeldClock};

use super::*;
use crate::testing::Stage;
use crate::{Presented, Settings};

impl Stage {
    async fn account(&self, namespace: &str, name: &str) {
        let namespaced = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
        self.world.apply([namespaced, account]).await;
    }

    async fn token(&self, namespace: &str, name: &str, audiences: &[&str]) -> String {
        let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        let spec = TokenRequestSpec { audiences: Some(audiences), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.world.admin(), namespace);
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        answer.status.unwrap().token.unwrap()
    }
}

async fn bearer(tenancy: &Tenancy, token: &str) -> Result<Actor, Error> {
    tenancy.authenticate(&Presented { bearer: Some(token), ..Presented::default() }).await
}

fn kind(answer: Result<Actor, Error>) -> Option<Kind> {
    answer.err().map(|error| error.kind())
}

#[tokio::test]
async fn a_deployer_is_a_developer_of_its_workspace_and_others_are_nobody_in_particular() {
    let stage = Stage::new().await;
    stage.account("acme", DEPLOYER).await;
    stage.account("acme", "other").await;
    stage.account("elsewhere", DEPLOYER).await;
    stage.workspace("acme", &[]).await;
    let who = async |namespace: &str, name: &str| {
        let actor = bearer(&stage.tenancy, &stage.token(namespace, name, &[AUDIENCE]).await).await.unwrap();
        let expected = Who::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() };
        assert_eq!((&actor.who, &actor.via), (&expected, &Via::Kubernetes));
        assert!(actor.platform.is_empty() && actor.themselves().is_err());
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
    let workspaces: Api<Workspace> = Api::all(stage.world.admin());
    let change =
        Patch::Merge(json!({"metadata": {"annotations": {marks::REMOVE_AFTER: "2030-01-01T00:00:00Z"}}}));
    workspaces.patch("acme", &PatchParams::default(), &change).await.unwrap();
    let acme = "acme".parse().unwrap();
    let marked = |directory: &Directory| directory.workspace(&acme).unwrap().closed;
    stage.tenancy.directory().until(marked).await;
    assert!(who("acme", DEPLOYER).await.is_empty());
}

#[tokio::test]
async fn tokens_for_others_and_tokens_of_people_open_nothing() {
    let stage = Stage::new().await;
    let person = stage.person(UserSpec::default()).await;
    let id = person.id.as_str();
    stage.account("acme", DEPLOYER).await;
    stage.account(SYSTEM_NAMESPACE, id).await;
    let good = stage.token("acme", DEPLOYER, &[AUDIENCE]).await;
    let (head, signature) = good.rsplit_once('.').unwrap();
    for wrong in [
        stage.token("acme", DEPLOYER, &[]).await,
        stage.token("acme", DEPLOYER, &["https://kubernetes.default.svc"]).await,
        stage.token("acme", DEPLOYER, &["vault"]).await,
        stage.token(SYSTEM_NAMESPACE, id, &[]).await,
        stage.token(SYSTEM_NAMESPACE, id, &[AUDIENCE]).await,
        format!("{head}.{}", signature.chars().rev().collect::<String>()),
        head.to_owned(),
        "a.b.c".to_owned(),
        String::new(),
        "x".repeat(100_000),
    ] {
        assert_eq!(kind(bearer(&stage.tenancy, &wrong).await), Some(Kind::Unauthenticated), "{wrong}");
    }
    assert_eq!(kind(bearer(&stage.tenancy, &good).await), None);
}

#[tokio::test]
async fn an_answer_counts_for_a_minute_and_a_refusal_for_ten_seconds() {
    let stage = Stage::new().await;
    stage.account("acme", DEPLOYER).await;
    let good = stage.token("acme", DEPLOYER, &[AUDIENCE]).await;
    let (fault, clock) = (Fault::none(), HeldClock::at(Timestamp::now()));
    let reviews = Reviews::new(fault.over(stage.world.platform()), Arc::new(clock.clone()));
    let ask = async |token: &str| {
        let before = fault.calls();
        let known = reviews.review(token).await.unwrap().is_some();
        (known, fault.calls() - before)
    };
    assert_eq!(ask(&good).await, (true, 1));
    assert_eq!(ask(&good).await, (true, 0));
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.world.admin(), "acme");
    accounts.delete(DEPLOYER, &DeleteParams::default()).await.unwrap();
    clock.advance(GOOD_FOR);
    assert_eq!(ask(&good).await, (false, 1), "it was revoked");
    assert_eq!(ask(&good).await, (false, 0));
    clock.advance(BAD_FOR);
    assert_eq!(ask(&good).await, (false, 1));
    assert_eq!(ask("no token at all").await, (false, 0));

    // A flood of invalid tokens does not grow the cache without bound.
    for number in 0..REMEMBERED + 50 {
        ask(&format!("a.b.{number}")).await;
    }
    assert!(reviews.answers.lock().len() <= REMEMBERED);
}

#[tokio::test]
async fn when_kubernetes_does_not_answer_nobody_is_refused_for_good() {
    let stage = Stage::new().await;
    stage.account("acme", DEPLOYER).await;
    let good = stage.token("acme", DEPLOYER, &[AUDIENCE]).await;
    let fault = Fault::none();
    let clients = Clients::new(fault.over(stage.world.platform()));
    let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(stage.clock.clone())).await.unwrap();
    fault.turn(testkit::fault::Line::Cut);
    assert_eq!(kind(bearer(&tenancy, &good).await), Some(Kind::Unavailable));
    fault.turn(testkit::fault::Line::Sound);
    assert_eq!(kind(bearer(&tenancy, &good).await), None);
}

#[test]
fn an_answer_without_our_audience_is_no_answer() {
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
