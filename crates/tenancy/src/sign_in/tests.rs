//! Sign-in, sessions and passwords, on an embedded cluster.

use domain::Kind;
use domain::scopes::Scopes;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_access::Clients;
use kube_types::{User, UserSpec};
use serde_json::{Value, json};
use testkit::Fault;
use testkit::fault::Line;
use tokio::time::timeout;

use super::*;
use crate::testing::{HERE, PASSWORD, Person, Stage};
use crate::tokens::TokenRequest;
use crate::users::UserPatch;
use crate::{Presented, Settings, administrator};

fn ana() -> UserSpec {
    UserSpec {
        email: "Ana@Example.com".to_owned(),
        mobilephone: "18300000000".to_owned(),
        ..UserSpec::default()
    }
}

impl Stage {
    /// The actor of a request with this cookie.
    async fn who(&self, cookie: &str) -> Result<Actor, Error> {
        self.tenancy.authenticate(&Presented { cookie: Some(cookie), ..Presented::default() }).await
    }

    async fn bearer(&self, token: &str) -> Result<Actor, Error> {
        self.tenancy.authenticate(&Presented { bearer: Some(token), ..Presented::default() }).await
    }

    async fn patch(&self, name: &str, change: Value, seen: impl Fn(&Account) -> bool) {
        let users: Api<User> = Api::all(self.world.admin());
        let user = users.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
        let id = Account::of(&user).unwrap().id;
        let heard = self
            .tenancy
            .directory()
            .until(|directory| directory.account(&id).is_some_and(|account| seen(&account)));
        timeout(testkit::until::LIMIT, heard).await.unwrap();
    }
}

fn refused<T>(answer: Result<T, Error>) -> String {
    let error = answer.err().expect("it is refused");
    assert_eq!(error.kind(), Kind::Unauthenticated, "{error}");
    error.to_string()
}

#[tokio::test]
async fn somebody_signs_in_by_every_name_they_have_and_nobody_by_another() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let id = person.id.to_string();
    for login in ["ana@example.com", " ANA@example.COM ", "+183 0000-0000", "user-18300000000", &id] {
        for secret in [PASSWORD, person.token.expose()] {
            let signed_in = stage.tenancy.sign_in(login, secret, HERE).await.unwrap();
            assert_eq!(stage.who(&signed_in.cookie).await.unwrap(), signed_in.actor, "{login}");
        }
    }
    let other = stage.person(UserSpec { mobilephone: "18311111111".to_owned(), ..UserSpec::default() }).await;
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
        answers.insert(refused(stage.tenancy.sign_in(login, secret, from).await));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn accounts_that_are_disabled_leaving_or_gone_let_nobody_in() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let signed_in = stage.sign_in(&person).await;
    let enter = async || {
        let answers = [
            stage.tenancy.sign_in(person.id.as_str(), PASSWORD, HERE).await.map(drop),
            stage.who(&signed_in.cookie).await.map(drop),
            stage.bearer(person.token.expose()).await.map(drop),
        ];
        answers.map(|answer| answer.err().map(|error| error.kind()))
    };
    assert_eq!(enter().await, [None, None, None]);
    stage.patch("user-18300000000", json!({"spec": {"disabled": true}}), |account| account.disabled).await;
    assert_eq!(enter().await, [Some(Kind::Unauthenticated); 3]);
    let back = json!({"spec": {"disabled": null}, "metadata": {"finalizers": ["longshore.dev/test"]}});
    stage.patch("user-18300000000", back, |account| !account.disabled).await;
    assert_eq!(enter().await, [None, None, None]);

    let users: Api<User> = Api::all(stage.world.admin());
    users.delete("user-18300000000", &DeleteParams::default()).await.unwrap();
    stage
        .tenancy
        .directory()
        .until(|directory| directory.account(&person.id).is_some_and(|it| it.leaving))
        .await;
    assert_eq!(enter().await, [Some(Kind::Unauthenticated); 3]);
    let go = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    users.patch("user-18300000000", &PatchParams::default(), &go).await.unwrap();
    stage.tenancy.directory().until(|directory| directory.account(&person.id).is_none()).await;
    assert_eq!(enter().await, [Some(Kind::Unauthenticated); 3]);

    // A User recreated by hand is another account, even with the same id.
    stage.user(&person.id, ana()).await;
    refused(stage.who(&signed_in.cookie).await);
}

#[tokio::test]
async fn the_secret_of_an_expired_account_is_recognised_and_opens_nothing() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let users: Api<User> = Api::all(stage.world.admin());
    let expires = stage.clock_now() + SignedDuration::from_hours(1);
    let change = Patch::Merge(json!({"status": {"expireTime": expires.to_string()}}));
    users.patch_status("user-18300000000", &PatchParams::default(), &change).await.unwrap();
    stage
        .tenancy
        .directory()
        .until(|directory| directory.account(&person.id).is_some_and(|it| it.expires.is_some()))
        .await;
    let signed_in = stage.sign_in(&person).await;
    stage.clock.advance(SignedDuration::from_hours(1));
    let login = person.id.as_str();
    assert!(matches!(stage.tenancy.sign_in(login, PASSWORD, HERE).await, Err(Error::AccountExpired)));
    assert!(matches!(stage.tenancy.sign_in(login, "wrong", HERE).await, Err(Error::WrongCredentials)));
    assert_eq!(stage.tenancy.recognise(login, PASSWORD, HERE).await.unwrap().id, person.id);
    refused(stage.who(&signed_in.cookie).await);
    refused(stage.bearer(person.token.expose()).await);
}

impl Stage {
    fn clock_now(&self) -> Timestamp {
        domain::clock::Clock::now(&self.clock)
    }
}

#[tokio::test]
async fn guessing_is_throttled_for_accounts_that_exist_and_for_those_that_do_not() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    for login in [person.id.as_str(), "nobody@example.com"] {
        for _ in 0..5 {
            refused(
                stage
                    .tenancy
                    .sign_in(login, "lsh_aaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", HERE)
                    .await,
            );
        }
        let sixth = stage.tenancy.sign_in(login, PASSWORD, HERE).await.err().unwrap();
        assert!(matches!(sixth, Error::Throttled { seconds: 301 }), "{login}: {sixth}");
    }
    // Attempts with other login names of the account count as well.
    assert!(matches!(
        stage.tenancy.sign_in("18300000000", PASSWORD, HERE).await,
        Err(Error::Throttled { .. })
    ));
    stage.clock.advance(SignedDuration::from_mins(5));
    stage.sign_in(&person).await;
}

#[tokio::test]
async fn a_session_ends_by_time_by_sign_out_and_by_revocation() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let [one, other] = [stage.sign_in(&person).await, stage.sign_in(&person).await];
    assert_ne!(one.cookie, other.cookie);

    stage.tenancy.sign_out(&one.actor).await.unwrap();
    refused(stage.who(&one.cookie).await);
    assert!(stage.who(&other.cookie).await.is_ok(), "the other one goes on");

    let fresh = stage.tenancy.revoke_all(&other.actor, &person.id).await.unwrap();
    assert!(fresh.is_none(), "with a password nobody needs a new login token");
    refused(stage.who(&other.cookie).await);
    refused(stage.who(&one.cookie).await);
    refused(stage.bearer(person.token.expose()).await);

    let third = stage.sign_in(&person).await;
    stage.clock.advance(SignedDuration::from_hours(12) - SignedDuration::from_secs(1));
    assert!(stage.who(&third.cookie).await.is_ok());
    stage.clock.advance(SignedDuration::from_secs(1));
    refused(stage.who(&third.cookie).await);
}

#[tokio::test]
async fn signing_out_very_often_ends_all_sessions_instead_of_growing() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let other = stage.sign_in(&person).await;
    for _ in 0..51 {
        let one = stage.tenancy.sign_in(person.id.as_str(), person.token.expose(), HERE).await.unwrap();
        stage.tenancy.sign_out(&one.actor).await.unwrap();
        refused(stage.who(&one.cookie).await);
    }
    refused(stage.who(&other.cookie).await);
    assert!(stage.tenancy.directory().credentials(&person.id).unwrap().ended.len() <= 50);
}

#[tokio::test]
async fn unsafe_requests_with_a_cookie_need_the_token_of_that_session() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let [one, other] = [stage.sign_in(&person).await, stage.sign_in(&person).await];
    assert_eq!(stage.tenancy.csrf_of(&one.cookie).as_ref(), Some(&one.csrf));
    for (csrf, good) in
        [(None, false), (Some(one.csrf.as_str()), true), (Some(&other.csrf), false), (Some(""), false)]
    {
        let presented = Presented { cookie: Some(&one.cookie), csrf, is_unsafe: true, bearer: None };
        let answer = stage.tenancy.authenticate(&presented).await;
        assert_eq!(answer.as_ref().err().map(Error::kind), (!good).then_some(Kind::Forbidden), "{csrf:?}");
        // Browsers do not send bearer tokens by themselves, so no CSRF token is needed.
        let presented = Presented { bearer: Some(person.token.expose()), ..presented };
        assert!(stage.tenancy.authenticate(&presented).await.is_ok());
    }
}

#[tokio::test]
async fn a_new_password_needs_the_old_secret_and_ends_all_sessions() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let new = Password::chosen("something else").unwrap();
    let signed_in = stage.sign_in(&person).await;
    let change = async |actor: &Actor, user: &Person, old| {
        stage.tenancy.change_password(actor, &user.id, old, &new, HERE).await.map_err(|error| error.kind())
    };
    for old in [None, Some(""), Some("wrong")] {
        assert_eq!(change(&signed_in.actor, &person, old).await, Err(Kind::Forbidden), "{old:?}");
    }
    let limited = Via::Token { id: "aaaaaaaaaa".parse().unwrap(), scopes: Scopes::parse(["read"]).unwrap() };
    let limited = Actor { via: limited, ..signed_in.actor.clone() };
    assert_eq!(change(&limited, &person, Some(PASSWORD)).await, Err(Kind::Forbidden));
    assert!(stage.who(&signed_in.cookie).await.is_ok(), "nothing has changed");

    assert_eq!(change(&signed_in.actor, &person, Some(PASSWORD)).await, Ok(()));
    refused(stage.who(&signed_in.cookie).await);
    refused(stage.tenancy.sign_in(person.id.as_str(), PASSWORD, HERE).await);
    let again = stage.tenancy.sign_in(person.id.as_str(), new.expose(), HERE).await.unwrap();

    // Administrators of accounts can set passwords without the old secret; other users cannot.
    let other = stage.person(UserSpec::default()).await;
    assert_eq!(change(&stage.actor(&other), &person, Some(new.expose())).await, Err(Kind::Forbidden));
    let admin = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
    let admin = stage.person(admin).await;
    // A password grants all rights: an administrator's scoped token cannot set one for others.
    let scoped =
        Via::Token { id: "aaaaaaaaaa".parse().unwrap(), scopes: Scopes::parse(["tenancy"]).unwrap() };
    let scoped = Actor { via: scoped, ..stage.actor(&admin) };
    let second = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
    let second = stage.person(second).await;
    for target in [&person, &second] {
        assert_eq!(change(&scoped, target, None).await, Err(Kind::Forbidden));
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
        assert_eq!(refusal.err().map(|error| error.kind()), Some(Kind::Forbidden));
    }
    assert!(stage.bearer(person.token.expose()).await.is_ok());
    assert_eq!(change(&stage.actor(&admin), &person, None).await, Ok(()));
    refused(stage.who(&again.cookie).await);
    refused(stage.bearer(person.token.expose()).await);
    assert_eq!(change(&stage.actor(&admin), &admin, None).await, Err(Kind::Forbidden));
    let nobody = Person { id: crate::secrets::new_user_id(), token: other.token.clone() };
    assert_eq!(change(&stage.actor(&admin), &nobody, None).await, Err(Kind::NotFound));
}

#[tokio::test]
async fn whoever_is_revoked_is_let_go_at_once() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    stage.workspace("acme", &[(&person.id, "viewer")]).await;
    let directory = stage.tenancy.directory().clone();
    let kept = stage.person(UserSpec::default()).await;
    let others = directory.until_revoked(&stage.sign_in(&kept).await.actor);
    let let_go =
        async |actor: &Actor| timeout(testkit::until::LIMIT, directory.until_revoked(actor)).await.unwrap();

    let request = TokenRequest { name: "x".to_owned(), scopes: vec!["all".to_owned()], days: Some(1) };
    let token = stage.tenancy.create_token(&stage.actor(&person), &request).await.unwrap();
    let by_token = stage.bearer(token.text.expose()).await.unwrap();
    let by_session = stage.sign_in(&person).await.actor;
    let still = futures::future::select(
        Box::pin(directory.until_revoked(&by_token)),
        Box::pin(directory.until_revoked(&by_session)),
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
    let workspaces: Api<kube_types::Workspace> = Api::all(stage.world.admin());
    tokio::join!(let_go(&by_login), async {
        let change = Patch::Merge(json!({"spec": {"members": []}}));
        workspaces.patch("acme", &PatchParams::default(), &change).await.unwrap();
    });
    let by_login = stage.bearer(login.expose()).await.unwrap();
    tokio::join!(
        let_go(&by_login),
        stage.patch("user-18300000000", json!({"spec": {"disabled": true}}), |account| account.disabled)
    );
    assert!(futures::poll!(Box::pin(others)).is_pending(), "nobody else");
}

#[tokio::test]
async fn somebody_with_the_cluster_gets_back_in() {
    let stage = Stage::new().await;
    let person = stage.person(UserSpec { disabled: true, ..ana() }).await;
    let before = stage.tenancy.directory().epoch(&person.id).unwrap();
    let (admin, now) = (stage.world.admin(), stage.clock_now());
    let password = administrator::reset_password(&admin, "ana@example.com", now).await.unwrap();
    let directory = stage.tenancy.directory();
    directory.until(|it| it.epoch(&person.id) > Some(before)).await;
    directory.until(|it| it.account(&person.id).is_some_and(|account| !account.disabled)).await;
    stage.tenancy.sign_in("ana@example.com", password.expose(), HERE).await.unwrap();
    refused(stage.tenancy.sign_in("ana@example.com", PASSWORD, HERE).await);
    directory.until(|it| it.tokens_of(&person.id).is_empty()).await;
    refused(stage.bearer(person.token.expose()).await);
    let nobody = administrator::reset_password(&admin, "nobody", now).await.err().unwrap();
    assert_eq!(nobody.kind(), Kind::NotFound);

    // A User that was created by hand has no credentials yet.
    let id = crate::secrets::new_user_id();
    stage.user(&id, UserSpec::default()).await;
    refused(stage.tenancy.sign_in(id.as_str(), "", HERE).await);
    let password = administrator::reset_password(&admin, id.as_str(), now).await.unwrap();
    directory.until(|it| it.epoch(&id).is_some()).await;
    stage.tenancy.sign_in(id.as_str(), password.expose(), HERE).await.unwrap();
}

#[tokio::test]
async fn credentials_that_cannot_be_read_let_nobody_in_and_are_made_anew() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let secrets: Api<Secret> = crate::secrets::api(stage.world.admin());
    let broken = Patch::Merge(json!({"data": {"epoch": "eA=="}}));
    secrets.patch(&format!("credentials-{}", person.id), &PatchParams::default(), &broken).await.unwrap();
    stage.tenancy.directory().until(|directory| directory.epoch(&person.id).is_none()).await;
    refused(stage.tenancy.sign_in(person.id.as_str(), PASSWORD, HERE).await);
    refused(stage.tenancy.sign_in(person.id.as_str(), person.token.expose(), HERE).await);
    let admin = stage.world.admin();
    let password =
        administrator::reset_password(&admin, person.id.as_str(), stage.clock_now()).await.unwrap();
    stage.tenancy.directory().until(|directory| directory.epoch(&person.id).is_some()).await;
    stage.tenancy.sign_in(person.id.as_str(), password.expose(), HERE).await.unwrap();
}

#[tokio::test]
async fn what_one_server_revokes_every_server_refuses() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let clients = Clients::new(stage.world.platform());
    let other = Tenancy::start(clients, Settings::default(), Arc::new(stage.clock.clone())).await.unwrap();
    let signed_in = stage.sign_in(&person).await;
    let presented = Presented { cookie: Some(&signed_in.cookie), ..Presented::default() };
    let there =
        testkit::until("the keys are shared", async || other.authenticate(&presented).await.ok()).await;
    let let_go = timeout(testkit::until::LIMIT, other.directory().until_revoked(&there));
    let (gone, revoked) = tokio::join!(let_go, stage.tenancy.revoke_all(&signed_in.actor, &person.id));
    gone.unwrap();
    revoked.unwrap();
    refused(other.authenticate(&presented).await);
}

#[tokio::test]
async fn while_the_cluster_does_not_answer_those_who_are_known_are_known() {
    let stage = Stage::new().await;
    let person = stage.person(ana()).await;
    let fault = Fault::none();
    let clients = Clients::new(fault.over(stage.world.platform()));
    let cut_off = Tenancy::start(clients, Settings::default(), Arc::new(stage.clock.clone())).await.unwrap();
    assert_eq!(cut_off.directory().stale_for(), None);
    fault.turn(Line::Cut);
    testkit::until("it is noticed", async || cut_off.directory().stale_for()).await;
    let signed_in = cut_off.sign_in(person.id.as_str(), PASSWORD, HERE).await.unwrap();
    let by_cookie = Presented { cookie: Some(&signed_in.cookie), ..Presented::default() };
    let by_token = Presented { bearer: Some(person.token.expose()), ..Presented::default() };
    for presented in [by_cookie, by_token] {
        assert_eq!(cut_off.authenticate(&presented).await.unwrap().id(), Some(&person.id));
    }
    let refused = cut_off.revoke_all(&signed_in.actor, &person.id).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Unavailable);
}
