//! Edge login and join scripts.

use domain::ErrorKind;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::{ApiGroup, Discovery, verbs};
use kube_types::{NodePool, NodePoolSpec, well_known};
use serde_json::json;

use super::token::JoinToken;
use super::*;
use crate::Settings;
use crate::test_harness::{LOCAL_CLIENT, TestHarness, open_settings};

const URL: &str = "https://kube.example.com:6443";

async fn harness() -> TestHarness {
    TestHarness::with_settings(Settings { kube_url: Some(URL.to_owned()), ..open_settings() }).await
}

async fn join_token_secrets(stage: &TestHarness) -> Vec<Secret> {
    let ours = ListParams::default().labels(well_known::TENANT);
    token::api(stage.world.admin_client()).list(&ours).await.unwrap().items
}

fn is_wrong_credentials(answer: &Result<OpenYurtLogin, Error>) -> bool {
    matches!(answer, Err(Error::WrongCredentials))
}

#[tokio::test]
async fn openyurt_login_by_any_login_name_returns_all_fields() {
    let stage = harness().await;
    let made = stage.register("18300000001").await.unwrap();
    let secret = made.token.expose();
    for login in ["18300000001@example.com", "18300000001", "user-18300000001", made.id.as_str()] {
        let told =
            stage.tenancy.openyurt_login(login, secret, LOCAL_CLIENT, JoinOptions::default()).await.unwrap();
        assert!(told.kube_config.contains(URL), "{login}");
        assert!(told.node_add_script.contains("'kube.example.com:6443'"), "{login}");
        assert!(told.node_add_script.contains("--discovery-token-ca-cert-hash='sha256:"), "{login}");
        let tenant = format!("--organizations='openyurt:tenant:{}'", made.id);
        assert!(told.node_add_script.contains(&tenant), "{login}");
        assert!(!told.node_add_script.contains("unsafe"), "{login}");
        assert_eq!((told.validity_days, told.max_node_num, told.node_num), (7, 3, 0));
        assert_eq!((told.namespace.as_str(), told.expired), (made.id.as_str(), false));
        assert!(told.effective_time.is_some() && told.expire_time.is_some() && told.session.is_some());
        let shown = format!("{told:?}");
        assert!(!shown.contains("token") && !shown.contains("kube.example.com"), "{shown}");
    }
    assert_eq!(join_token_secrets(&stage).await.len(), 1, "a token that still serves is handed out again");
    for (login, secret) in [("18300000001", ""), ("18300000001", "wrong"), ("18399999999", secret), ("", "")]
    {
        assert!(
            is_wrong_credentials(
                &stage.tenancy.openyurt_login(login, secret, LOCAL_CLIENT, JoinOptions::default()).await
            ),
            "{login}"
        );
    }
}

#[tokio::test]
async fn openyurt_login_of_expired_account_returns_no_credentials() {
    let stage = harness().await;
    let made = stage.register("18300000001").await.unwrap();
    // The status is still the old one: expiry must be judged by the clock.
    stage.clock.advance(SignedDuration::from_hours(7 * 24));
    let secret = made.token.expose();
    let told = stage
        .tenancy
        .openyurt_login("18300000001", secret, LOCAL_CLIENT, JoinOptions::default())
        .await
        .unwrap();
    assert!(told.expired && told.session.is_none());
    assert_eq!((told.kube_config.as_str(), told.node_add_script.as_str()), ("", ""));
    assert!(is_wrong_credentials(
        &stage.tenancy.openyurt_login("18300000001", "wrong", LOCAL_CLIENT, JoinOptions::default()).await
    ));
}

#[tokio::test]
async fn join_token_expires_within_a_day_and_with_the_account() {
    let stage = harness().await;
    let (_, actor) = stage.register_user("18300000001").await;
    let now = stage.tenancy.0.clock.now();
    let script = async || stage.tenancy.join_script(&actor, None).await.unwrap();
    let first = script().await;
    assert_eq!(first.expires.duration_since(now), SignedDuration::from_hours(24));
    stage.clock.advance(SignedDuration::from_hours(22));
    assert_eq!(script().await.join_script, first.join_script);
    stage.clock.advance(SignedDuration::from_mins(61));
    let second = script().await;
    assert_ne!(second.join_script, first.join_script, "nearly expired");
    assert!(!format!("{second:?}").contains("yurtadm"));
    // Used up: it has admitted as many nodes as the account may have.
    for secret in join_token_secrets(&stage).await {
        let used = Patch::Merge(json!({"metadata": {"annotations": {"longshore.dev/let-in": "a b c"}}}));
        token::api(stage.world.admin_client())
            .patch(&secret.name_any(), &PatchParams::default(), &used)
            .await
            .unwrap();
    }
    assert_ne!(script().await.join_script, second.join_script, "used up");
    // Two hours before the account expires.
    stage.clock.advance(SignedDuration::from_hours(6 * 24 - 1) - SignedDuration::from_mins(61));
    let last = script().await;
    assert_eq!(last.expires.duration_since(stage.tenancy.0.clock.now()), SignedDuration::from_hours(3));
    stage.clock.advance(SignedDuration::from_mins(150));
    assert_eq!(script().await.join_script, last.join_script, "none could last longer");
    stage.tenancy.collect_join_garbage().await.unwrap();
    assert_eq!(join_token_secrets(&stage).await.len(), 1, "what is over is swept away");
    stage.clock.advance(SignedDuration::from_mins(30));
    assert_eq!(stage.tenancy.join_script(&actor, None).await.unwrap_err().kind(), ErrorKind::Forbidden);
}

#[tokio::test]
async fn join_script_rejects_missing_and_foreign_pools() {
    let stage = harness().await;
    let (id, actor) = stage.register_user("18300000001").await;
    let (_, admin) = stage.register_administrator("18300000002").await;
    let pools: Api<NodePool> = Api::all(stage.world.admin_client());
    for (name, owner) in [("own", Some(id.as_str())), ("shared", None), ("foreign", Some("ubbbbbbbbbb"))] {
        let mut pool =
            NodePool::new(name, NodePoolSpec { pool_type: "Edge".to_owned(), ..NodePoolSpec::default() });
        pool.labels_mut().extend(owner.map(|owner| (well_known::TENANT.to_owned(), owner.to_owned())));
        pools.create(&PostParams::default(), &pool).await.unwrap();
    }
    for (pool, expected) in [
        ("own", None),
        ("shared", None),
        ("foreign", Some(ErrorKind::NotFound)),
        ("none", Some(ErrorKind::NotFound)),
        ("", Some(ErrorKind::Invalid)),
        ("'; reboot; '", Some(ErrorKind::Invalid)),
        ("../nodes", Some(ErrorKind::Invalid)),
    ] {
        let script = stage.tenancy.join_script(&actor, Some(pool)).await;
        assert_eq!(script.as_ref().err().map(Error::kind), expected, "{pool}");
        if let Ok(script) = script {
            assert!(
                script.join_script.contains(&format!("--nodepool-name='{pool}'")),
                "{}",
                script.join_script
            );
        }
    }
    assert!(stage.tenancy.join_script(&admin, Some("foreign")).await.is_ok());
    assert_eq!(join_token_secrets(&stage).await.len(), 3, "one for each pool, and none for what was refused");
}

/// All objects of the cluster that contain one of these texts, except Secrets of `kube-system`.
async fn leaks(stage: &TestHarness, canaries: &[&str]) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let client = stage.world.admin_client();
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut found = Vec::new();
    for (resource, capabilities) in discovery.groups().flat_map(ApiGroup::recommended_resources) {
        if !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in all.list(&ListParams::default()).await.unwrap() {
            let is_token =
                resource.kind == "Secret" && object.namespace().as_deref() == Some(token::NAMESPACE);
            let text = serde_json::to_string(&object).unwrap();
            let has = |canary: &&str| text.contains(*canary) || text.contains(&STANDARD.encode(canary));
            if !is_token && canaries.iter().any(has) {
                found.push(format!("{} {}", resource.kind, object.name_any()));
            }
        }
    }
    found
}

#[tokio::test]
async fn openyurt_login_leaks_no_secret_into_other_objects() {
    let (heard, _guard) = crate::log_capture::capture();
    let stage = harness().await;
    let made = stage.register("18300000001").await.unwrap();
    let login = stage.tenancy.openyurt_login(
        "18300000001",
        made.token.expose(),
        LOCAL_CLIENT,
        JoinOptions::default(),
    );
    let told = login.await.unwrap();
    let secrets = join_token_secrets(&stage).await;
    let token = JoinToken::from_secret(&secrets[0]).unwrap().expose();
    let (_, secret) = token.split_once('.').unwrap();
    assert!(told.node_add_script.contains(&token));
    let bearer = told.kube_config.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    assert_eq!(leaks(&stage, &[secret, bearer, made.token.expose()]).await, Vec::<String>::new());
    tracing::info!(who = %made.id, "heard");
    assert!(heard.text().contains(made.id.as_str()), "the log is heard");
    for canary in [secret, bearer, made.token.expose()] {
        assert!(!heard.text().contains(canary), "in the log");
    }
    assert!(leaks(&stage, &[made.id.as_str()]).await.len() > 3, "what is there is found");
    assert!(!format!("{:?}", JoinToken::from_secret(&secrets[0])).contains(secret));
}

#[tokio::test]
async fn registration_with_invalid_phone_creates_nothing() {
    let stage = harness().await;
    for phone in ["kube-system", "default", "longshore-system", "", "1", "18300000000; drop"] {
        let parsed = crate::register::Registration::parse("a@example.com", phone, "Acme", None);
        assert!(parsed.is_err(), "{phone}");
    }
    let users = stage.users().list(&ListParams::default()).await.unwrap();
    assert!(users.items.is_empty());
}

#[tokio::test]
async fn join_tokens_are_revoked_with_all_credentials() {
    let stage = harness().await;
    let made = stage.register("18300000051").await.unwrap();
    let (id, secret) = (made.id.clone(), made.token.expose());
    stage.tenancy.openyurt_login(id.as_str(), secret, LOCAL_CLIENT, JoinOptions::default()).await.unwrap();
    assert_eq!(join_token_secrets(&stage).await.len(), 1);
    stage.tenancy.revoke_all(&stage.actor(&id), &id).await.unwrap();
    assert_eq!(join_token_secrets(&stage).await, []);
}
