//! Registration with crashes and concurrent requests.

use futures::future::join_all;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use kube_types::SYSTEM_NAMESPACE;
use testkit::{Fault, HeldClock, World, every_kill_point};

use super::sweep::{Orphan, orphans};
use super::*;
use crate::Settings;
use crate::stage::{self, HERE, Stage, open, registration};

/// The names of users' objects in the system namespace, and of User objects.
async fn kept(world: &World) -> Vec<String> {
    let of_people = ListParams::default().labels(marks::USER);
    let secrets: Api<Secret> = Api::namespaced(world.admin(), SYSTEM_NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(world.admin(), SYSTEM_NAMESPACE);
    let users: Api<User> = Api::all(world.admin());
    let mut names: Vec<String> =
        secrets.list(&of_people).await.unwrap().iter().map(ResourceExt::name_any).collect();
    names.extend(maps.list(&of_people).await.unwrap().iter().map(ResourceExt::name_any));
    names.extend(users.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any));
    names
}

#[tokio::test]
async fn an_account_has_what_was_said_and_what_the_settings_say() {
    let stage = Stage::new().await;
    let made = stage.tenancy.register(
        Registration::parse(" Ana@Example.COM", "+86 183-0000-0000", "Acme", Some("correct horse")).unwrap(),
        HERE,
    );
    let made = made.await.unwrap();
    assert!(made.ready && made.expires.is_some());
    assert_eq!((made.name.as_str(), made.namespace.as_str()), ("user-8618300000000", made.id.as_str()));
    let user = stage.users().get(&made.name).await.unwrap();
    let spec = UserSpec {
        email: "ana@example.com".to_owned(),
        mobilephone: "8618300000000".to_owned(),
        organization: "Acme".to_owned(),
        namespace: made.id.to_string(),
        valid_period: 7,
        max_node_num: 3,
        ..UserSpec::default()
    };
    assert_eq!(user.spec, spec);
    assert_eq!(kept(&stage.world).await.len(), 4, "a claim, two Secrets, a User");
    let directory = stage.tenancy.directory();
    let login = stage.tenancy.directory().tokens_of(&made.id);
    assert!(login.len() == 1 && login[0].is(made.token.expose()));
    let password = Password::attempt("correct horse");
    let hash = directory.credentials(&made.id).unwrap().password.clone();
    assert!(stage.tenancy.0.hasher.is(&password, hash.as_deref()).await.unwrap());
}

#[tokio::test]
async fn no_secret_is_in_what_anybody_reads() {
    let stage = Stage::new().await;
    let registration = registration("18300000001", Some("canary password"));
    assert!(!format!("{registration:?}").contains("canary"));
    let made = stage.tenancy.register(registration, HERE).await.unwrap();
    assert!(!format!("{made:?}").contains(made.token.expose()));
    let secrets: Api<Secret> = Api::namespaced(stage.world.admin(), SYSTEM_NAMESPACE);
    let secrets = secrets.list(&ListParams::default()).await.unwrap();
    let values = secrets.iter().flat_map(|secret| secret.data.iter().flatten());
    for (key, value) in values {
        let text = String::from_utf8_lossy(&value.0);
        assert!(!text.contains("canary") && !text.contains(made.token.expose()), "{key}");
    }
    let user = serde_json::to_string(&stage.users().get(&made.name).await.unwrap()).unwrap();
    assert!(!user.contains("canary") && !user.contains("lsh_"), "{user}");
}

#[tokio::test]
async fn a_second_account_is_refused_and_leaves_nothing() {
    let stage = Stage::new().await;
    stage.register("18300000002").await.unwrap();
    let before = kept(&stage.world).await;
    let same = [("18300000002@EXAMPLE.com", "18300000003"), ("other@example.com", "+183 0000 0002")];
    for (email, phone) in same {
        let again = Registration::parse(email, phone, "Acme", None).unwrap();
        let refused = stage.tenancy.register(again, HERE).await.unwrap_err();
        assert!(matches!(refused, Error::AccountExists), "{email} {phone}: {refused}");
    }
    assert_eq!(kept(&stage.world).await, before);
}

#[tokio::test]
async fn of_many_at_once_with_one_address_one_gets_it() {
    let stage = Stage::new().await;
    let one_address =
        |n| Registration::parse("ana@example.com", &format!("1830000{n:04}"), "Acme", None).unwrap();
    let answers = join_all((0..20).map(|n| stage.tenancy.register(one_address(n), HERE))).await;
    let refused = |answer: &&Result<_, Error>| matches!(answer, Err(Error::AccountExists));
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(refused).count(), 19);
    let one_phone =
        |n| Registration::parse(&format!("p{n}@example.com"), "18400000000", "Acme", None).unwrap();
    let answers = join_all((0..20).map(|n| stage.tenancy.register(one_phone(n), HERE))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(refused).count(), 19);
    assert_eq!(kept(&stage.world).await.len(), 2 * 4, "nothing is left of the others");
}

#[tokio::test]
async fn fifty_at_once_all_succeed() {
    let stage = Stage::new().await;
    let phones: Vec<String> = (0..50).map(|n| format!("1830000{n:04}")).collect();
    for made in join_all(phones.iter().map(|phone| stage.register(phone))).await {
        assert!(made.unwrap().ready);
    }
}

#[tokio::test]
async fn while_registration_is_closed_only_administrators_make_accounts() {
    let stage = Stage::with(open()).await;
    let (_, admin) = stage.administrator("18300000004").await;
    let (_, other) = stage.person("18300000005").await;
    let closed = stage::tenancy(&stage.world, &stage.clock, &Fault::none(), Settings::default()).await;
    let refused = closed.register(registration("18300000006", None), HERE).await.unwrap_err();
    assert!(matches!(refused, Error::RegistrationClosed));
    let refused = closed.create_user(&other, registration("18300000006", None)).await.unwrap_err();
    assert_eq!(refused.kind(), domain::Kind::Forbidden);
    let made = closed.create_user(&admin, registration("18300000006", None)).await.unwrap();
    assert!(made.ready && stage.users().get(&made.name).await.unwrap().spec.platform_roles.is_empty());
}

#[tokio::test]
async fn one_address_cannot_try_without_end() {
    let stage = Stage::new().await;
    stage.register("18300000007").await.unwrap();
    let mut refused = Vec::new();
    for _ in 0..120 {
        refused.push(stage.register("18300000007").await.unwrap_err());
    }
    assert!(matches!(refused[0], Error::AccountExists));
    assert!(matches!(refused[119], Error::Throttled { .. }));
    let elsewhere = stage.tenancy.register(registration("18300000008", None), "192.0.2.7".parse().unwrap());
    assert!(elsewhere.await.is_ok());
}

/// A cluster with a manual clock.
struct Moved {
    world: World,
    clock: HeldClock,
    stand_in: tokio::task::AbortHandle,
}

impl Drop for Moved {
    fn drop(&mut self) {
        self.stand_in.abort();
    }
}

async fn moved() -> Moved {
    let clock = HeldClock::new();
    let world = World::at(std::sync::Arc::new(clock.clone())).await;
    let stand_in = stage::stand_in(&world);
    // The first start creates the session keys.
    stage::tenancy(&world, &clock, &Fault::none(), open()).await;
    Moved { world, clock, stand_in }
}

/// Registers as after a restart: garbage collection is due, and the visitor tries again.
async fn register_with(moved: &Moved, fault: &Fault, password: Option<&str>) -> Result<(), Error> {
    let tenancy = stage::tenancy(&moved.world, &moved.clock, fault, open()).await;
    moved.clock.advance(SignedDuration::from_mins(11));
    tenancy.sweep().await?;
    match tenancy.register(registration("18300000009", password), HERE).await {
        Err(Error::AccountExists) => Ok(()),
        made => made.map(drop),
    }
}

#[tokio::test]
async fn wherever_it_is_killed_somebody_can_enter_in_the_end() {
    let points = every_kill_point(
        moved,
        async |moved, fault| register_with(moved, fault, Some("correct horse")).await,
        async |moved| {
            let tenancy = stage::tenancy(&moved.world, &moved.clock, &Fault::none(), open()).await;
            let account = tenancy.directory().by_login("18300000009@example.com").unwrap();
            let hash = tenancy.directory().credentials(&account.id).unwrap().password.clone();
            let password = Password::attempt("correct horse");
            assert!(tenancy.0.hasher.is(&password, hash.as_deref()).await.unwrap());
            moved.clock.advance(SignedDuration::from_mins(11));
            tenancy.sweep().await.unwrap();
            assert_eq!(kept(&moved.world).await.len(), 4, "nothing is left of what did not come to its end");
        },
    );
    assert!(points.await >= 4);
}

#[tokio::test]
async fn an_account_whose_token_nobody_was_told_makes_room_for_the_next_try() {
    let moved = moved().await;
    // Killed before the token's disclosure is recorded: the claim, two Secrets and the User have been written.
    let fault = Fault::after_writes(4, testkit::Blow::Before);
    let killed = register_with(&moved, &fault, None).await;
    assert!(matches!(killed, Err(Error::Unavailable(_))), "{killed:?}");
    let left = kept(&moved.world).await;
    assert_eq!(left.len(), 4, "{left:?}");

    let tenancy = stage::tenancy(&moved.world, &moved.clock, &Fault::none(), open()).await;
    let again = || tenancy.register(registration("18300000009", None), HERE);
    assert!(matches!(again().await, Err(Error::AccountExists)), "it may still be told");
    moved.clock.advance(SignedDuration::from_mins(11));
    tenancy.sweep().await.unwrap();
    let unknown = async || tenancy.directory().by_login("18300000009").is_none().then_some(());
    testkit::until("the account is gone", unknown).await;
    assert!(again().await.unwrap().ready);
    moved.clock.advance(SignedDuration::from_mins(11));
    tenancy.sweep().await.unwrap();
    assert_eq!(kept(&moved.world).await.len(), 4);
}

#[tokio::test]
async fn nothing_of_anybody_is_swept_away() {
    let stage = Stage::new().await;
    stage.register("18300000010").await.unwrap();
    stage.tenancy.register(registration("18300000011", Some("correct horse")), HERE).await.unwrap();
    let before = kept(&stage.world).await;
    stage.clock.advance(SignedDuration::from_hours(1));
    assert_eq!(stage.tenancy.sweep().await.unwrap(), 0);
    assert_eq!(kept(&stage.world).await, before);
}

#[test]
fn what_is_left_over() {
    let made: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
    let later = |minutes| made.checked_add(SignedDuration::from_mins(minutes)).unwrap();
    let id = UserId::from_random([1; 10]);
    let (_, record) = tokens::mint_login(&id, made);
    let dated = |mut secret: Secret| {
        secret.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(made));
        secret
    };
    let secrets = [dated(Credentials::new(None, made).to_secret(&id)), dated(record.to_secret())];
    let email = Email::parse("ana@example.com").unwrap();
    let claim = Claim { account: "user-1".to_owned(), user: id.clone(), at: made };
    let claims = [claim.to_map(&email, None)];
    let user = |name: &str, id: &UserId, email: &str, told: bool| {
        let mut user = User::new(name, UserSpec { email: email.to_owned(), ..UserSpec::default() });
        user.metadata.annotations = Some(annotations(id, !told));
        user.metadata.creation_timestamp = secrets[0].metadata.creation_timestamp.clone();
        user
    };
    let count = |users: &[User], minutes| {
        let orphans = orphans(users, &claims, &secrets, later(minutes));
        let of = |kind: fn(&Orphan) -> bool| orphans.iter().filter(|orphan| kind(orphan)).count();
        let claims = of(|orphan| matches!(orphan, Orphan::Claim(_)));
        (
            claims,
            of(|orphan| matches!(orphan, Orphan::Secret(_))),
            of(|orphan| matches!(orphan, Orphan::User(_))),
        )
    };
    let other = UserId::from_random([2; 10]);
    #[rustfmt::skip]
    let table = [
        ("nobody, soon",                count(&[], 9),                                               (0, 0, 0)),
        ("nobody, later",               count(&[], 10),                                              (1, 2, 0)),
        ("themselves",                  count(&[user("user-1", &id, "ANA@example.com", true)], 99),  (0, 0, 0)),
        ("themselves, moved",           count(&[user("user-1", &id, "b@example.com", true)], 99),    (1, 0, 0)),
        ("another under the name",      count(&[user("user-1", &other, "ana@example.com", true)], 99), (1, 2, 0)),
        ("never told, soon",            count(&[user("user-1", &id, "ana@example.com", false)], 9),  (0, 0, 0)),
        ("never told, later",           count(&[user("user-1", &id, "ana@example.com", false)], 10), (0, 0, 1)),
    ];
    for (what, found, expected) in table {
        assert_eq!(found, expected, "{what}");
    }
}
