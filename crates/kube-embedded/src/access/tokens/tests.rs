//! Tests of `ServiceAccount` tokens: issue, use, and revocation with the bound object.

use std::sync::Arc;

use http::Request;

use super::super::authn::{FixedIdentity, TokenVerifier};
use super::super::testing::store_object;
use super::super::{User, jwt};
use super::*;
use crate::clock::ManualClock;
use crate::store::{Change, Expect, Key, Op};

struct TokenHarness {
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    key: Arc<SigningKey>,
    authenticator: Authenticator,
}

impl TokenHarness {
    async fn new() -> Self {
        let (store, key) = (Store::in_memory(), Arc::new(jwt::tests::key()));
        let clock = ManualClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let object =
            |name: &str, uid: &str| json!({"metadata": {"name": name, "namespace": "a", "uid": uid}});
        store_object(&store, "serviceaccounts", object("bot", "u1")).await;
        store_object(&store, "secrets", object("s", "u2")).await;
        let authenticator = Authenticator::new(store.clone(), clock.clone(), key.clone());
        Self { store, clock, key, authenticator }
    }

    fn request_token(&self, spec: &Value) -> Result<Value> {
        use crate::clock::Clock as _;
        create_token(&self.store, &self.key, self.clock.now(), ("a", "bot"), &json!({ "spec": spec }), |_| {
            Ok(())
        })
    }

    fn token(&self, spec: &Value) -> String {
        text(&self.request_token(spec).unwrap()["status"], "token").to_owned()
    }

    fn authenticate(&self, token: &str) -> std::result::Result<String, String> {
        self.authenticator.authenticate_token(token, &[ISSUER.to_owned()]).map(|accepted| accepted.user.name)
    }

    async fn delete(&self, storage: &str, name: &str) {
        let version = self.store.get(storage, "a", name).unwrap().version;
        let key = Key::new(&storage.into(), "a", name);
        let change = Change { key, expect: Expect::Version(version), op: Op::Delete };
        self.store.commit(vec![change]).await.unwrap();
    }
}

#[tokio::test]
async fn token_is_valid_for_its_time_and_audience() {
    let world = TokenHarness::new().await;
    let token = world.token(&json!({}));
    let accepted = world.authenticator.authenticate_token(&token, &[ISSUER.to_owned()]).unwrap();
    assert_eq!(
        accepted.user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    );
    assert_eq!((accepted.user.uid.as_str(), accepted.user.extra.len()), ("u1", 1));
    assert_eq!(
        world.authenticator.authenticate_token(&token, &["x".to_owned()]).unwrap_err(),
        "[invalid bearer token, token audiences [\"https://kubernetes.default.svc\"] is invalid for the target \
         audiences [\"x\"]]"
    );
    let elsewhere = world.token(&json!({"audiences": ["vault"]}));
    assert!(world.authenticate(&elsewhere).is_err());
    assert!(world.authenticator.authenticate_token(&elsewhere, &["vault".to_owned()]).is_ok());

    world.clock.advance(SignedDuration::from_secs(3600 + 61));
    assert_eq!(
        world.authenticate(&token).unwrap_err(),
        "[invalid bearer token, service account token has expired]"
    );
}

#[tokio::test]
async fn token_is_invalid_after_account_or_bound_object_is_deleted() {
    let world = TokenHarness::new().await;
    let dead = Err("[invalid bearer token, service account token has been invalidated]".to_owned());
    let bound = world.token(&json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}}));
    let free = world.token(&json!({}));
    assert_eq!(world.authenticate(&bound), Ok("system:serviceaccount:a:bot".to_owned()));
    world.delete("secrets", "s").await;
    assert_eq!(world.authenticate(&bound), dead);
    assert!(world.authenticate(&free).is_ok());
    // The same name with another uid is another account.
    store_object(
        &world.store,
        "serviceaccounts",
        json!({"metadata": {"name": "bot", "namespace": "a", "uid": "u9"}}),
    )
    .await;
    assert_eq!(world.authenticate(&free), dead);
}

#[tokio::test]
async fn invalid_requests_get_kubernetes_messages() {
    let world = TokenHarness::new().await;
    let reference = |kind: &str, api: &str, name: &str, uid: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": api, "name": name, "uid": uid}});
    let table = [
        (
            json!({"expirationSeconds": 60}),
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
        ),
        (
            json!({"expirationSeconds": 1_i64 << 33}),
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 8589934592: may not specify a duration larger than 2^32 seconds",
        ),
        (reference("Pod", "v1", "p", ""), "pods \"p\" not found"),
        (
            reference("Deployment", "apps/v1", "p", ""),
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (reference("ConfigMap", "v1", "p", ""), "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            reference("Secret", "v1", "s", "zz"),
            "Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference (zz) does not match the UID in record. The object might have been deleted and then recreated",
        ),
    ];
    for (spec, message) in table {
        assert_eq!(world.request_token(&spec).unwrap_err().message, message);
    }
}

#[tokio::test]
async fn token_secret_is_filled_once_and_its_token_is_valid_while_it_exists() {
    let world = TokenHarness::new().await;
    let account = world.store.get("serviceaccounts", "a", "bot").unwrap().value();
    let secret = json!({
        "metadata": {"name": "t", "namespace": "a", "annotations": {"kubernetes.io/service-account.name": "bot"}},
        "type": "kubernetes.io/service-account-token",
    });
    let filled = fill_token_secret(&world.key, &account, &secret, "CA").unwrap();
    assert_eq!(fill_token_secret(&world.key, &account, &filled, "CA"), None);
    assert_eq!(filled["data"]["namespace"], "YQ==");
    let token = String::from_utf8(STANDARD.decode(text(&filled["data"], "token")).unwrap()).unwrap();
    assert!(world.authenticate(&token).is_err());
    store_object(&world.store, "secrets", filled.clone()).await;
    assert_eq!(world.authenticate(&token), Ok("system:serviceaccount:a:bot".to_owned()));
    let mut other = filled;
    other["data"]["token"] = "eA==".into();
    store_object(&world.store, "secrets", other).await;
    assert!(world.authenticate(&token).is_err());
}

#[tokio::test]
async fn bootstrap_tokens_grant_only_their_own_groups() {
    let world = TokenHarness::new().await;
    let encode = |text: &str| STANDARD.encode(text);
    let secret = |groups: &str, expiration: &str| {
        json!({"metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}, "type": "bootstrap.kubernetes.io/token",
            "data": {"token-id": encode("abcdef"), "token-secret": encode("0123456789abcdef"),
                "usage-bootstrap-authentication": encode("true"), "auth-extra-groups": encode(groups), "expiration": encode(expiration)}})
    };
    let table = [
        ("", "", true),
        ("system:bootstrappers:a,system:bootstrappers:b", "2026-01-01T00:00:01Z", true),
        ("system:masters", "", false),
        ("", "2025-12-31T23:59:59Z", false),
        ("", "nonsense", false),
    ];
    for (groups, expiration, good) in table {
        store_object(&world.store, "secrets", secret(groups, expiration)).await;
        assert_eq!(world.authenticate("abcdef.0123456789abcdef").is_ok(), good, "{groups} {expiration}");
        assert!(world.authenticate("abcdef.0123456789abcdee").is_err());
    }
}

struct ProductVerifier;

impl TokenVerifier for ProductVerifier {
    fn verify(&self, token: &str) -> Option<User> {
        (token == "lsh_a_b").then(|| User::named("longshore:user:a", &[]))
    }
}

#[tokio::test]
async fn requests_authenticate_by_token_or_identity() {
    let mut world = TokenHarness::new().await;
    world.authenticator = world.authenticator.with_verifier(Arc::new(ProductVerifier));
    let token = world.token(&json!({}));
    let ask = |path: &str, authorization: &str, identity: Option<&str>| {
        let mut request = Request::get(path);
        if !authorization.is_empty() {
            request = request.header("Authorization", authorization);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        if let Some(name) = identity {
            parts.extensions.insert(FixedIdentity(User::named(name, &[])));
        }
        world.authenticator.authenticate(&parts).map_or_else(|e| e.code.to_string(), |user| user.name)
    };
    let table = [
        ("/api", format!("Bearer {token}"), None, "system:serviceaccount:a:bot"),
        ("/api", "bearer  lsh_a_b".to_owned(), None, "longshore:user:a"),
        ("/version", "Bearer nonsense".to_owned(), None, "401"),
        ("/version", String::new(), None, "system:anonymous"),
        ("/api/v1/namespaces/kube-public/configmaps/cluster-info", String::new(), None, "system:anonymous"),
        ("/api", String::new(), None, "401"),
        ("/api", "Basic eDp5".to_owned(), None, "401"),
        ("/api", String::new(), Some("tom"), "tom"),
    ];
    for (path, authorization, identity, who) in table {
        assert_eq!(ask(path, &authorization, identity), who, "{path} {authorization}");
    }
}

#[tokio::test]
async fn token_reviews_report_authentication_result() {
    let world = TokenHarness::new().await;
    let token = world.token(&json!({}));
    let ask = |spec: Value| review_token(&world.authenticator, json!({ "spec": spec }));
    assert_eq!(ask(json!({})).unwrap_err().message, "token is required for TokenReview in authentication");
    assert_eq!(
        ask(json!({"token": "x"})).unwrap()["status"],
        json!({"user": {}, "error": "invalid bearer token"})
    );
    let status = &ask(json!({"token": token, "audiences": [ISSUER, "x"]})).unwrap()["status"];
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([ISSUER])));
}
