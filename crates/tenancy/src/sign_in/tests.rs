//! Sign-in, sessions and passwords, on an embedded cluster.

use domain::ErrorKind;
use domain::scopes::Scopes;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_access::Clients;
use kube_types::{User, UserSpec};
use serde_json::{Value, json};
use testkit::FaultInjector;
use testkit::fault::LinkState;
use tokio::time::timeout;

use super::*;
use crate::auth_test_harness::{AuthTestHarness, LOCAL_CLIENT, PASSWORD, TestUser};
use crate::tokens::TokenRequest;
use crate::users::UserPatch;
use crate::{RequestCredentials, Settings, first_admin};

fn ana() -> UserSpec {
    UserSpec {
        email: "Ana@Example.com".to_owned(),
        mobilephone: "18300000000".to_owned(),
        ..UserSpec::default()
    }
}

impl AuthTestHarness {
    /// The actor of a request with this cookie.
    async fn authenticate_cookie(&self, cookie: &str) -> Result<Actor, Error> {
        self.tenancy
            .authenticate(&RequestCredentials { cookie: Some(cookie), ..RequestCredentials::default() })
            .await
    }

    async fn bearer(&self, token: &str) -> Result<Actor, Error> {
        self.tenancy
            .authenticate(&RequestCredentials { bearer: Some(token), ..RequestCredentials::default() })
            .await
    }

    async fn patch(&self, name: &str, change: Value, seen: impl Fn(&Account) -> bool) {
        let users: Api<User> = Api::all(self.world.admin_client());
        let user = users.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
        let id = Account::from_user(&user).unwrap().id;
        let heard = self
            .tenancy
            .directory()
            .wait_until(|directory| directory.account(&id).is_some_and(|account| seen(&account)));
        timeout(testkit::wait_for::WAIT_TIMEOUT, heard).await.unwrap();
    }
}

fn error_text<T>(answer: Result<T, Error>) -> String {
    let error = answer.err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
    error.to_string()
}

#[tokio::test]
async fn sign_in_accepts_every_login_name_of_the_account_only() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let id = person.id.to_string();
    for login in ["ana@example.com", " ANA@example.COM ", "+183 0000-0000", "user-18300000000", &id] {
        for secret in [PASSWORD, person.token.expose()] {
            let signed_in = stage.tenancy.sign_in(login, secret, LOCAL_CLIENT).await.unwrap();
            assert_eq!(
                stage.authenticate_cookie(&signed_in.cookie).await.unwrap(),
                signed_in.actor,
                "{login}"
            );
        }
    }
    let other =
        stage.create_user(UserSpec { mobilephone: "18311111111".to_owned(), ..UserSpec::default() }).await;
    let api = TokenRequest { name: "x".to_owned(), scopes: vec!["all".to_owned()], days: None };
    let api = stage.tenancy.create_token(&stage.actor(&person), &api).await.unwrap();
    let long = "x".repeat(10_000);
    let mut answers = std::collections::BTreeSet::new();
    for (number, (login, secret)) in [
        (id.as_str(), "wrong"),
        (&id, ""),
        (&id, &long),
        (&id, other.token.expose()),
        (&id, api.text.expose()),
        (&id, "lsh_aaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("nobody@example.com", PASSWORD),
        ("nobody@example.com", person.token.expose()),
        ("", PASSWORD),
        (&long, PASSWORD),
        ("kube-system", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let from = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, u8::try_from(number).unwrap()));
        answers.insert(error_text(stage.tenancy.sign_in(login, secret, from).await));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn sign_in_rejects_disabled_and_deleted_accounts() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let signed_in = stage.sign_in(&person).await;
    let enter = async || {
        let answers = [
            stage.tenancy.sign_in(person.id.as_str(), PASSWORD, LOCAL_CLIENT).await.map(drop),
            stage.authenticate_cookie(&signed_in.cookie).await.map(drop),
            stage.bearer(person.token.expose()).await.map(drop),
        ];
        answers.map(|answer| answer.err().map(|error| error.kind()))
    };
    assert_eq!(enter().await, [None, None, None]);
    stage.patch("user-18300000000", json!({"spec": {"disabled": true}}), |account| account.is_disabled).await;
    assert_eq!(enter().await, [Some(ErrorKind::Unauthenticated); 3]);
    let back = json!({"spec": {"disabled": null}, "metadata": {"finalizers": ["longshore.dev/test"]}});
    stage.patch("user-18300000000", back, |account| !account.is_disabled).await;
    assert_eq!(enter().await, [None, None, None]);

    let users: Api<User> = Api::all(stage.world.admin_client());
    users.delete("user-18300000000", &DeleteParams::default()).await.unwrap();
    stage
        .tenancy
        .directory()
        .wait_until(|directory| directory.account(&person.id).is_some_and(|it| it.is_deleting))
        .await;
    assert_eq!(enter().await, [Some(ErrorKind::Unauthenticated); 3]);
    let go = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    users.patch("user-18300000000", &PatchParams::default(), &go).await.unwrap();
    stage.tenancy.directory().wait_until(|directory| directory.account(&person.id).is_none()).await;
    assert_eq!(enter().await, [Some(ErrorKind::Unauthenticated); 3]);

    // A User recreated by hand is another account, even with the same id.
    stage.create_user_object(&person.id, ana()).await;
    error_text(stage.authenticate_cookie(&signed_in.cookie).await);
}

#[tokio::test]
async fn secret_of_expired_account_is_verified_but_opens_no_session() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let users: Api<User> = Api::all(stage.world.admin_client());
    let expires = stage.clock_now() + SignedDuration::from_hours(1);
    let change = Patch::Merge(json!({"status": {"expireTime": expires.to_string()}}));
    users.patch_status("user-18300000000", &PatchParams::default(), &change).await.unwrap();
    stage
        .tenancy
        .directory()
        .wait_until(|directory| directory.account(&person.id).is_some_and(|it| it.expires.is_some()))
        .await;
    let signed_in = stage.sign_in(&person).await;
    stage.clock.advance(SignedDuration::from_hours(1));
    let login = person.id.as_str();
    assert!(matches!(stage.tenancy.sign_in(login, PASSWORD, LOCAL_CLIENT).await, Err(Error::AccountExpired)));
    assert!(matches!(
        stage.tenancy.sign_in(login, "wrong", LOCAL_CLIENT).await,
        Err(Error::WrongCredentials)
    ));
    assert_eq!(stage.tenancy.verify_credentials(login, PASSWORD, LOCAL_CLIENT).await.unwrap().id, person.id);
    error_text(stage.authenticate_cookie(&signed_in.cookie).await);
    error_text(stage.bearer(person.token.expose()).await);
}

impl AuthTestHarness {
    fn clock_now(&self) -> Timestamp {
        domain::clock::Clock::now(&self.clock)
    }
}

#[tokio::test]
async fn guessing_is_throttled_for_accounts_that_exist_and_for_those_that_do_not() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    for login in [person.id.as_str(), "nobody@example.com"] {
        for _ in 0..5 {
            error_text(
                stage
                    .tenancy
                    .sign_in(
                        login,
                        "lsh_aaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                        LOCAL_CLIENT,
                    )
                    .await,
            );
        }
        let sixth = stage.tenancy.sign_in(login, PASSWORD, LOCAL_CLIENT).await.err().unwrap();
        assert!(matches!(sixth, Error::Throttled { seconds: 301 }), "{login}: {sixth}");
    }
    // Attempts with other login names of the account count as well.
    assert!(matches!(
        stage.tenancy.sign_in("18300000000", PASSWORD, LOCAL_CLIENT).await,
        Err(Error::Throttled { .. })
    ));
    stage.clock.advance(SignedDuration::from_mins(5));
    stage.sign_in(&person).await;
}

#[tokio::test]
async fn session_ends_by_expiry_sign_out_and_revocation() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let [one, other] = [stage.sign_in(&person).await, stage.sign_in(&person).await];
    assert_ne!(one.cookie, other.cookie);

    stage.tenancy.sign_out(&one.actor).await.unwrap();
    error_text(stage.authenticate_cookie(&one.cookie).await);
    assert!(stage.authenticate_cookie(&other.cookie).await.is_ok(), "the other one goes on");

    let fresh = stage.tenancy.revoke_all(&other.actor, &person.id).await.unwrap();
    assert!(fresh.is_none(), "with a password nobody needs a new login token");
    error_text(stage.authenticate_cookie(&other.cookie).await);
    error_text(stage.authenticate_cookie(&one.cookie).await);
    error_text(stage.bearer(person.token.expose()).await);

    let third = stage.sign_in(&person).await;
    stage.clock.advance(SignedDuration::from_hours(12) - SignedDuration::from_secs(1));
    assert!(stage.authenticate_cookie(&third.cookie).await.is_ok());
    stage.clock.advance(SignedDuration::from_secs(1));
    error_text(stage.authenticate_cookie(&third.cookie).await);
}

#[tokio::test]
async fn many_sign_outs_end_all_sessions() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let other = stage.sign_in(&person).await;
    for _ in 0..51 {
        let one =
            stage.tenancy.sign_in(person.id.as_str(), person.token.expose(), LOCAL_CLIENT).await.unwrap();
        stage.tenancy.sign_out(&one.actor).await.unwrap();
        error_text(stage.authenticate_cookie(&one.cookie).await);
    }
    error_text(stage.authenticate_cookie(&other.cookie).await);
    assert!(stage.tenancy.directory().credentials(&person.id).unwrap().ended_sessions.len() <= 50);
}

#[tokio::test]
async fn unsafe_requests_with_cookie_require_the_csrf_token_of_the_session() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let [one, other] = [stage.sign_in(&person).await, stage.sign_in(&person).await];
    assert_eq!(stage.tenancy.csrf_token_of_cookie(&one.cookie).as_ref(), Some(&one.csrf));
    for (csrf, good) in
        [(None, false), (Some(one.csrf.as_str()), true), (Some(&other.csrf), false), (Some(""), false)]
    {
        let presented = RequestCredentials { cookie: Some(&one.cookie), csrf, is_unsafe: true, bearer: None };
        let answer = stage.tenancy.authenticate(&presented).await;
        assert_eq!(
            answer.as_ref().err().map(Error::kind),
            (!good).then_some(ErrorKind::Forbidden),
            "{csrf:?}"
        );
        // Browsers do not send bearer tokens by themselves, so no CSRF token is needed.
        let presented = RequestCredentials { bearer: Some(person.token.expose()), ..presented };
        assert!(stage.tenancy.authenticate(&presented).await.is_ok());
    }
}

#[tokio::test]
async fn change_password_requires_old_secret_and_ends_all_sessions() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let new = Password::parse_new("something else").unwrap();
    let signed_in = stage.sign_in(&person).await;
    let change = async |actor: &Actor, user: &TestUser, old| {
        stage
            .tenancy
            .change_password(actor, &user.id, old, &new, LOCAL_CLIENT)
            .await
            .map_err(|error| error.kind())
    };
    for old in [None, Some(""), Some("wrong")] {
        assert_eq!(change(&signed_in.actor, &person, old).await, Err(ErrorKind::Forbidden), "{old:?}");
    }
    let limited =
        AuthMethod::Token { id: "aaaaaaaaaa".parse().unwrap(), scopes: Scopes::parse(["read"]).unwrap() };
    let limited = Actor { auth_method: limited, ..signed_in.actor.clone() };
    assert_eq!(change(&limited, &person, Some(PASSWORD)).await, Err(ErrorKind::Forbidden));
    assert!(stage.authenticate_cookie(&signed_in.cookie).await.is_ok(), "nothing has changed");

    assert_eq!(change(&signed_in.actor, &person, Some(PASSWORD)).await, Ok(()));
    error_text(stage.authenticate_cookie(&signed_in.cookie).await);
    error_text(stage.tenancy.sign_in(person.id.as_str(), PASSWORD, LOCAL_CLIENT).await);
    let again = stage.tenancy.sign_in(person.id.as_str(), new.expose(), LOCAL_CLIENT).await.unwrap();

    // Administrators of accounts can set passwords without the old secret; other users cannot.
    let other = stage.create_user(UserSpec::default()).await;
    assert_eq!(change(&stage.actor(&other), &person, Some(new.expose())).await, Err(ErrorKind::Forbidden));
    let admin = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
    let admin = stage.create_user(admin).await;
    // A password grants all rights: an administrator's scoped token cannot set one for others.
    let scoped =
        AuthMethod::Token { id: "aaaaaaaaaa".parse().unwrap(), scopes: Scopes::parse(["tenancy"]).unwrap() };
    let scoped = Actor { auth_method: scoped, ..stage.actor(&admin) };
    let second = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
    let second = stage.create_user(second).await;
    for target in [&person, &second] {
        assert_eq!(change(&scoped, target, None).await, Err(ErrorKind::Forbidden));
    }
    let refusals = [
        stage.tenancy.revoke_all(&scoped, &second.id).await.map(drop),
        stage.tenancy.delete_user(&scoped, &second.id, None).await,
        stage
            .tenancy
            .patch_user(&scoped, &second.id, UserPatch { disabled: Some(true), ..UserPatch::default() }, None)
            .await
            .map(drop),
    ];
    for refusal in refusals {
        assert_eq!(refusal.err().map(|error| error.kind()), Some(ErrorKind::Forbidden));
    }
    assert!(stage.bearer(person.token.expose()).await.is_ok());
    assert_eq!(change(&stage.actor(&admin), &person, None).await, Ok(()));
    error_text(stage.authenticate_cookie(&again.cookie).await);
    error_text(stage.bearer(person.token.expose()).await);
    assert_eq!(change(&stage.actor(&admin), &admin, None).await, Err(ErrorKind::Forbidden));
    let nobody = TestUser { id: crate::credential_store::new_user_id(), token: other.token.clone() };
    assert_eq!(change(&stage.actor(&admin), &nobody, None).await, Err(ErrorKind::NotFound));
}

#[tokio::test]
async fn wait_until_revoked_resolves_immediately_on_revocation() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    stage.create_workspace("acme", &[(&person.id, "viewer")]).await;
    let directory = stage.tenancy.directory().clone();
    let kept = stage.create_user(UserSpec::default()).await;
    let others = directory.wait_until_revoked(&stage.sign_in(&kept).await.actor);
    let let_go = async |actor: &Actor| {
        timeout(testkit::wait_for::WAIT_TIMEOUT, directory.wait_until_revoked(actor)).await.unwrap();
    };

    let request = TokenRequest { name: "x".to_owned(), scopes: vec!["all".to_owned()], days: Some(1) };
    let token = stage.tenancy.create_token(&stage.actor(&person), &request).await.unwrap();
    let by_token = stage.bearer(token.text.expose()).await.unwrap();
    let by_session = stage.sign_in(&person).await.actor;
    let still = futures::future::select(
        Box::pin(directory.wait_until_revoked(&by_token)),
        Box::pin(directory.wait_until_revoked(&by_session)),
    );
    assert!(futures::poll!(still).is_pending());

    tokio::join!(let_go(&by_token), async {
        stage.tenancy.revoke_token(&by_token, &token.record.id).await.unwrap();
    });
    tokio::join!(let_go(&by_session), async {
        stage.tenancy.revoke_all(&by_session, &person.id).await.unwrap();
    });
    let login = stage.tenancy.create_token(&stage.actor(&person), &request).await.unwrap().text;

    let by_login = stage.bearer(login.expose()).await.unwrap();
    assert_eq!(by_login.memberships.len(), 1);
    let workspaces: Api<kube_types::Workspace> = Api::all(stage.world.admin_client());
    tokio::join!(let_go(&by_login), async {
        let change = Patch::Merge(json!({"spec": {"members": []}}));
        workspaces.patch("acme", &PatchParams::default(), &change).await.unwrap();
    });
    let by_login = stage.bearer(login.expose()).await.unwrap();
    tokio::join!(
        let_go(&by_login),
        stage.patch("user-18300000000", json!({"spec": {"disabled": true}}), |account| account.is_disabled)
    );
    assert!(futures::poll!(Box::pin(others)).is_pending(), "nobody else");
}

#[tokio::test]
async fn reset_password_restores_access() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(UserSpec { disabled: true, ..ana() }).await;
    let before = stage.tenancy.directory().credential_epoch(&person.id).unwrap();
    let (admin, now) = (stage.world.admin_client(), stage.clock_now());
    let password = first_admin::reset_password(&admin, "ana@example.com", now).await.unwrap();
    let directory = stage.tenancy.directory();
    directory.wait_until(|it| it.credential_epoch(&person.id) > Some(before)).await;
    directory.wait_until(|it| it.account(&person.id).is_some_and(|account| !account.is_disabled)).await;
    stage.tenancy.sign_in("ana@example.com", password.expose(), LOCAL_CLIENT).await.unwrap();
    error_text(stage.tenancy.sign_in("ana@example.com", PASSWORD, LOCAL_CLIENT).await);
    directory.wait_until(|it| it.tokens_of(&person.id).is_empty()).await;
    error_text(stage.bearer(person.token.expose()).await);
    let nobody = first_admin::reset_password(&admin, "nobody", now).await.err().unwrap();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);

    // A User that was created by hand has no credentials yet.
    let id = crate::credential_store::new_user_id();
    stage.create_user_object(&id, UserSpec::default()).await;
    error_text(stage.tenancy.sign_in(id.as_str(), "", LOCAL_CLIENT).await);
    let password = first_admin::reset_password(&admin, id.as_str(), now).await.unwrap();
    directory.wait_until(|it| it.credential_epoch(&id).is_some()).await;
    stage.tenancy.sign_in(id.as_str(), password.expose(), LOCAL_CLIENT).await.unwrap();
}

#[tokio::test]
async fn unparseable_credentials_are_rejected_and_recreated() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let secrets: Api<Secret> = crate::credential_store::api(stage.world.admin_client());
    let broken = Patch::Merge(json!({"data": {"epoch": "eA=="}}));
    secrets.patch(&format!("credentials-{}", person.id), &PatchParams::default(), &broken).await.unwrap();
    stage.tenancy.directory().wait_until(|directory| directory.credential_epoch(&person.id).is_none()).await;
    error_text(stage.tenancy.sign_in(person.id.as_str(), PASSWORD, LOCAL_CLIENT).await);
    error_text(stage.tenancy.sign_in(person.id.as_str(), person.token.expose(), LOCAL_CLIENT).await);
    let admin = stage.world.admin_client();
    let password = first_admin::reset_password(&admin, person.id.as_str(), stage.clock_now()).await.unwrap();
    stage.tenancy.directory().wait_until(|directory| directory.credential_epoch(&person.id).is_some()).await;
    stage.tenancy.sign_in(person.id.as_str(), password.expose(), LOCAL_CLIENT).await.unwrap();
}

#[tokio::test]
async fn revocation_applies_to_every_server() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let clients = Clients::new(stage.world.platform_client());
    let other = Tenancy::start(clients, Settings::default(), Arc::new(stage.clock.clone())).await.unwrap();
    let signed_in = stage.sign_in(&person).await;
    let presented = RequestCredentials { cookie: Some(&signed_in.cookie), ..RequestCredentials::default() };
    let there =
        testkit::wait_for("the keys are shared", async || other.authenticate(&presented).await.ok()).await;
    let let_go = timeout(testkit::wait_for::WAIT_TIMEOUT, other.directory().wait_until_revoked(&there));
    let (gone, revoked) = tokio::join!(let_go, stage.tenancy.revoke_all(&signed_in.actor, &person.id));
    gone.unwrap();
    revoked.unwrap();
    error_text(other.authenticate(&presented).await);
}

#[tokio::test]
async fn cached_accounts_authenticate_while_the_cluster_is_unreachable() {
    let stage = AuthTestHarness::new().await;
    let person = stage.create_user(ana()).await;
    let fault = FaultInjector::healthy();
    let clients = Clients::new(fault.wrap(stage.world.platform_client()));
    let cut_off = Tenancy::start(clients, Settings::default(), Arc::new(stage.clock.clone())).await.unwrap();
    assert_eq!(cut_off.directory().stale_for(), None);
    fault.set_link(LinkState::Disconnected);
    testkit::wait_for("it is noticed", async || cut_off.directory().stale_for()).await;
    let signed_in = cut_off.sign_in(person.id.as_str(), PASSWORD, LOCAL_CLIENT).await.unwrap();
    let by_cookie = RequestCredentials { cookie: Some(&signed_in.cookie), ..RequestCredentials::default() };
    let by_token =
        RequestCredentials { bearer: Some(person.token.expose()), ..RequestCredentials::default() };
    for presented in [by_cookie, by_token] {
        assert_eq!(cut_off.authenticate(&presented).await.unwrap().user_id(), Some(&person.id));
    }
    let refused = cut_off.revoke_all(&signed_in.actor, &person.id).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
}
