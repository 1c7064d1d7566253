//! Registration with crashes and concurrent requests.

use futures::future::join_all;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use kube_types::SYSTEM_NAMESPACE;
use testkit::{FaultInjector, ManualClock, TestCluster, every_kill_point};

use super::gc::{Orphan, orphans};
use super::*;
use crate::Settings;
use crate::test_harness::{self, LOCAL_CLIENT, TestHarness, open_settings, registration};

/// The names of users' objects in the system namespace, and of User objects.
async fn object_names(world: &TestCluster) -> Vec<String> {
    let of_people = ListParams::default().labels(well_known::USER);
    let secrets: Api<Secret> = Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE);
    let users: Api<User> = Api::all(world.admin_client());
    let mut names: Vec<String> =
        secrets.list(&of_people).await.unwrap().iter().map(ResourceExt::name_any).collect();
    names.extend(maps.list(&of_people).await.unwrap().iter().map(ResourceExt::name_any));
    names.extend(users.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any));
    names
}

#[tokio::test]
async fn registered_account_has_requested_fields_and_default_limits() {
    let stage = TestHarness::new().await;
    let made = stage.tenancy.register(
        Registration::parse(" Ana@Example.COM", "+86 183-0000-0000", "Acme", Some("correct horse")).unwrap(),
        LOCAL_CLIENT,
    );
    let made = made.await.unwrap();
    assert!(made.is_ready && made.expires.is_some());
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
    assert_eq!(object_names(&stage.world).await.len(), 4, "a claim, two Secrets, a User");
    let directory = stage.tenancy.directory();
    let login = stage.tenancy.directory().tokens_of(&made.id);
    assert!(login.len() == 1 && login[0].matches(made.token.expose()));
    let password = Password::from_sign_in("correct horse");
    let hash = directory.credentials(&made.id).unwrap().password_hash.clone();
    assert!(stage.tenancy.0.hasher.verify(&password, hash.as_deref()).await.unwrap());
}

#[tokio::test]
async fn registration_leaks_no_secrets() {
    let stage = TestHarness::new().await;
    let registration = registration("18300000001", Some("canary password"));
    assert!(!format!("{registration:?}").contains("canary"));
    let made = stage.tenancy.register(registration, LOCAL_CLIENT).await.unwrap();
    assert!(!format!("{made:?}").contains(made.token.expose()));
    let secrets: Api<Secret> = Api::namespaced(stage.world.admin_client(), SYSTEM_NAMESPACE);
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
async fn duplicate_registration_is_rejected_without_leftovers() {
    let stage = TestHarness::new().await;
    stage.register("18300000002").await.unwrap();
    let before = object_names(&stage.world).await;
    let same = [("18300000002@EXAMPLE.com", "18300000003"), ("other@example.com", "+183 0000 0002")];
    for (email, phone) in same {
        let again = Registration::parse(email, phone, "Acme", None).unwrap();
        let refused = stage.tenancy.register(again, LOCAL_CLIENT).await.unwrap_err();
        assert!(matches!(refused, Error::AccountExists), "{email} {phone}: {refused}");
    }
    assert_eq!(object_names(&stage.world).await, before);
}

#[tokio::test]
async fn concurrent_registrations_of_one_email_create_one_account() {
    let stage = TestHarness::new().await;
    let one_address =
        |n| Registration::parse("ana@example.com", &format!("1830000{n:04}"), "Acme", None).unwrap();
    let answers = join_all((0..20).map(|n| stage.tenancy.register(one_address(n), LOCAL_CLIENT))).await;
    let refused = |answer: &&Result<_, Error>| matches!(answer, Err(Error::AccountExists));
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(refused).count(), 19);
    let one_phone =
        |n| Registration::parse(&format!("p{n}@example.com"), "18400000000", "Acme", None).unwrap();
    let answers = join_all((0..20).map(|n| stage.tenancy.register(one_phone(n), LOCAL_CLIENT))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(refused).count(), 19);
    assert_eq!(object_names(&stage.world).await.len(), 2 * 4, "nothing is left of the others");
}

#[tokio::test]
async fn fifty_concurrent_registrations_succeed() {
    let stage = TestHarness::new().await;
    let phones: Vec<String> = (0..50).map(|n| format!("1830000{n:04}")).collect();
    for made in join_all(phones.iter().map(|phone| stage.register(phone))).await {
        assert!(made.unwrap().is_ready);
    }
}

#[tokio::test]
async fn closed_registration_allows_only_administrators() {
    let stage = TestHarness::with_settings(open_settings()).await;
    let (_, admin) = stage.register_administrator("18300000004").await;
    let (_, other) = stage.register_user("18300000005").await;
    let closed =
        test_harness::tenancy(&stage.world, &stage.clock, &FaultInjector::healthy(), Settings::default())
            .await;
    let refused = closed.register(registration("18300000006", None), LOCAL_CLIENT).await.unwrap_err();
    assert!(matches!(refused, Error::RegistrationClosed));
    let refused = closed.create_user(&other, registration("18300000006", None)).await.unwrap_err();
    assert_eq!(refused.kind(), domain::ErrorKind::Forbidden);
    let made = closed.create_user(&admin, registration("18300000006", None)).await.unwrap();
    assert!(made.is_ready && stage.users().get(&made.name).await.unwrap().spec.platform_roles.is_empty());
}

#[tokio::test]
async fn registration_is_throttled_per_address() {
    let stage = TestHarness::new().await;
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
struct ManualClockCluster {
    world: TestCluster,
    clock: ManualClock,
    controllers: tokio::task::AbortHandle,
}

impl Drop for ManualClockCluster {
    fn drop(&mut self) {
        self.controllers.abort();
    }
}

async fn manual_clock_cluster() -> ManualClockCluster {
    let clock = ManualClock::new();
    let world = TestCluster::with_clock(std::sync::Arc::new(clock.clone())).await;
    let stand_in = test_harness::spawn_stand_in_controllers(&world);
    // The first start creates the session keys.
    test_harness::tenancy(&world, &clock, &FaultInjector::healthy(), open_settings()).await;
    ManualClockCluster { world, clock, controllers: stand_in }
}

/// Registers as after a restart: garbage collection is due, and the visitor tries again.
async fn register_with(
    moved: &ManualClockCluster,
    fault: &FaultInjector,
    password: Option<&str>,
) -> Result<(), Error> {
    let tenancy = test_harness::tenancy(&moved.world, &moved.clock, fault, open_settings()).await;
    moved.clock.advance(SignedDuration::from_mins(11));
    tenancy.collect_registration_garbage().await?;
    match tenancy.register(registration("18300000009", password), LOCAL_CLIENT).await {
        Err(Error::AccountExists) => Ok(()),
        made => made.map(drop),
    }
}

#[tokio::test]
async fn killed_registration_can_be_completed_by_retry() {
    let points = every_kill_point(
        manual_clock_cluster,
        async |moved, fault| register_with(moved, fault, Some("correct horse")).await,
        async |moved| {
            let tenancy =
                test_harness::tenancy(&moved.world, &moved.clock, &FaultInjector::healthy(), open_settings())
                    .await;
            let account = tenancy.directory().find_by_login("18300000009@example.com").unwrap();
            let hash = tenancy.directory().credentials(&account.id).unwrap().password_hash.clone();
            let password = Password::from_sign_in("correct horse");
            assert!(tenancy.0.hasher.verify(&password, hash.as_deref()).await.unwrap());
            moved.clock.advance(SignedDuration::from_mins(11));
            tenancy.collect_registration_garbage().await.unwrap();
            assert_eq!(
                object_names(&moved.world).await.len(),
                4,
                "nothing is left of what did not come to its end"
            );
        },
    );
    assert!(points.await >= 4);
}

#[tokio::test]
async fn account_with_undisclosed_token_is_replaced_by_the_next_registration() {
    let moved = manual_clock_cluster().await;
    // Killed before the token's disclosure is recorded: the claim, two Secrets and the User have been written.
    let fault = FaultInjector::cut_after_writes(4, testkit::FailurePoint::BeforeHandling);
    let killed = register_with(&moved, &fault, None).await;
    assert!(matches!(killed, Err(Error::Unavailable(_))), "{killed:?}");
    let left = object_names(&moved.world).await;
    assert_eq!(left.len(), 4, "{left:?}");

    let tenancy =
        test_harness::tenancy(&moved.world, &moved.clock, &FaultInjector::healthy(), open_settings()).await;
    let again = || tenancy.register(registration("18300000009", None), LOCAL_CLIENT);
    assert!(matches!(again().await, Err(Error::AccountExists)), "it may still be told");
    moved.clock.advance(SignedDuration::from_mins(11));
    tenancy.collect_registration_garbage().await.unwrap();
    let unknown = async || tenancy.directory().find_by_login("18300000009").is_none().then_some(());
    testkit::wait_for("the account is gone", unknown).await;
    assert!(again().await.unwrap().is_ready);
    moved.clock.advance(SignedDuration::from_mins(11));
    tenancy.collect_registration_garbage().await.unwrap();
    assert_eq!(object_names(&moved.world).await.len(), 4);
}

#[tokio::test]
async fn garbage_collection_keeps_objects_of_existing_accounts() {
    let stage = TestHarness::new().await;
    stage.register("18300000010").await.unwrap();
    stage.tenancy.register(registration("18300000011", Some("correct horse")), LOCAL_CLIENT).await.unwrap();
    let before = object_names(&stage.world).await;
    stage.clock.advance(SignedDuration::from_hours(1));
    assert_eq!(stage.tenancy.collect_registration_garbage().await.unwrap(), 0);
    assert_eq!(object_names(&stage.world).await, before);
}

#[test]
fn orphans_are_objects_without_an_account() {
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
    let claim = EmailClaim { account: "user-1".to_owned(), user: id.clone(), created: made };
    let claims = [claim.to_config_map(&email, None)];
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
