//! Reads and changes of accounts, by authorised and by other users.

use domain::ErrorKind;
use domain::fields::Email;
use domain::ids::TokenId;
use domain::scopes::Scopes;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_types::well_known;

use super::*;
use crate::register::email_claims::{self, EmailClaim};
use crate::test_harness::TestHarness;
use domain::actor::AuthMethod;

fn roles(roles: &[PlatformRole]) -> UserPatch {
    UserPatch { platform_roles: Some(roles.iter().copied().collect()), ..UserPatch::default() }
}

fn disabled(disabled: bool) -> UserPatch {
    UserPatch { disabled: Some(disabled), ..UserPatch::default() }
}

fn email_patch(email: &str) -> UserPatch {
    UserPatch { email: Some(email.to_owned()), ..UserPatch::default() }
}

fn with_token_scopes(actor: &Actor, scopes: &str) -> Actor {
    let scopes = Scopes::parse([scopes]).unwrap();
    Actor { auth_method: AuthMethod::Token { id: TokenId::from_random([0; 10]), scopes }, ..actor.clone() }
}

async fn email_claims(stage: &TestHarness) -> Vec<(String, EmailClaim)> {
    let maps = email_claims::config_maps(stage.world.admin_client())
        .list(&ListParams::default().labels(well_known::USER))
        .await
        .unwrap();
    let claim = |map: &ConfigMap| (map.name_any(), EmailClaim::from_config_map(map).unwrap());
    maps.iter().map(claim).collect()
}

/// Resolves when the account is deleted completely.
async fn wait_until_deleted(stage: &TestHarness, id: &UserId) {
    // Deleting a namespace takes time by the manual clock.
    testkit::wait_for("the account is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        stage.tenancy.directory().account(id).is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn foreign_accounts_are_not_found() {
    let stage = TestHarness::new().await;
    let (admin_id, admin) = stage.register_administrator("18300000000").await;
    let (id, person) = stage.register_user("18300000001").await;
    assert_eq!(stage.tenancy.users(&admin).unwrap().len(), 2);
    assert_eq!(stage.tenancy.users(&person).unwrap_err().kind(), ErrorKind::Forbidden);
    assert_eq!(stage.tenancy.user(&person, &id).unwrap().phone, "18300000001");
    assert!(stage.tenancy.user(&admin, &id).is_ok());
    let nobody = UserId::from_random([9; 10]);
    for other in [&admin_id, &nobody] {
        let message = |error: Error| error.to_string().replace(other.as_str(), "");
        let refused = [
            stage.tenancy.user(&person, other).unwrap_err(),
            stage.tenancy.patch_user(&person, other, disabled(true), None).await.unwrap_err(),
            stage.tenancy.delete_user(&person, other, None).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!((error.kind(), message(error).as_str()), (ErrorKind::NotFound, "user `` not found"));
        }
    }
}

#[tokio::test]
async fn owner_changes_only_own_fields() {
    let stage = TestHarness::new().await;
    let (id, person) = stage.register_user("18300000002").await;
    let own = UserPatch { organization: Some(" Other ".to_owned()), ..UserPatch::default() };
    let changed = stage.tenancy.patch_user(&person, &id, own.clone(), None).await.unwrap();
    assert_eq!(changed.organization, "Other");
    assert_eq!(stage.tenancy.user(&person, &id).unwrap().organization, "Other", "and memory knows it");
    let forbidden = [
        disabled(false),
        UserPatch { valid_days: Some(0), ..UserPatch::default() },
        UserPatch { max_nodes: Some(99), ..UserPatch::default() },
        roles(&[PlatformRole::Admin]),
        UserPatch { max_nodes: Some(99), ..own.clone() },
    ];
    for patch in forbidden {
        let refused = stage.tenancy.patch_user(&person, &id, patch.clone(), None).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Forbidden, "{patch:?}");
    }
    let refused =
        stage.tenancy.patch_user(&with_token_scopes(&person, "tenancy"), &id, own, None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden, "by a token that is not good for the account itself");
    let spec = stage.users().get("user-18300000002").await.unwrap().spec;
    assert_eq!((spec.max_node_num, spec.valid_period, spec.platform_roles.len()), (3, 7, 0));
}

#[tokio::test]
async fn administrator_changes_all_fields() {
    let stage = TestHarness::new().await;
    let (_, admin) = stage.register_administrator("18300000003").await;
    let (id, _) = stage.register_user("18300000004").await;
    let patch = UserPatch {
        disabled: Some(true),
        valid_days: Some(30),
        max_nodes: Some(9),
        platform_roles: Some([PlatformRole::ReviewerBusiness].into()),
        ..UserPatch::default()
    };
    let changed = stage.tenancy.patch_user(&admin, &id, patch, None).await.unwrap();
    assert_eq!((changed.is_disabled, changed.valid_days, changed.max_nodes), (true, 30, 9));
    assert_eq!(changed.platform_roles, [PlatformRole::ReviewerBusiness].into());
    for wrong in [-1, 36_501] {
        let patch = UserPatch { valid_days: Some(wrong), ..UserPatch::default() };
        let refused = stage.tenancy.patch_user(&admin, &id, patch, None).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let limited = with_token_scopes(&admin, "tenancy");
    assert!(stage.tenancy.patch_user(&limited, &id, disabled(false), None).await.is_ok());
    let refused =
        stage.tenancy.patch_user(&limited, &id, roles(&[PlatformRole::Admin]), None).await.unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::Forbidden,
        "a token that is good for little makes nobody an administrator"
    );
}

#[tokio::test]
async fn patch_user_rejects_stale_resource_version() {
    let stage = TestHarness::new().await;
    let (_, admin) = stage.register_administrator("18300000005").await;
    let (id, _) = stage.register_user("18300000006").await;
    // Concurrent writes of the controllers can require another attempt.
    let version = || stage.tenancy.user(&admin, &id).unwrap().version.clone();
    let seen = testkit::wait_for("changed from the version that was seen", async || {
        let seen = version();
        stage.tenancy.patch_user(&admin, &id, disabled(true), Some(&seen)).await.is_ok().then_some(seen)
    })
    .await;
    let refused = stage.tenancy.patch_user(&admin, &id, disabled(false), Some(&seen)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Precondition);
    let refused = stage.tenancy.delete_user(&admin, &id, Some(&seen)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Precondition);
    assert!(stage.tenancy.user(&admin, &id).unwrap().is_disabled);
    testkit::wait_for("deleted at the version that was seen", async || {
        stage.tenancy.delete_user(&admin, &id, Some(&version())).await.ok()
    })
    .await;
    wait_until_deleted(&stage, &id).await;
}

#[tokio::test]
async fn last_administrator_cannot_be_removed() {
    let stage = TestHarness::new().await;
    let (first, admin) = stage.register_administrator("18300000007").await;
    let ended = UserPatch { valid_days: Some(7), ..UserPatch::default() };
    let attempts = async || {
        let tenancy = &stage.tenancy;
        for patch in [disabled(true), roles(&[]), roles(&[PlatformRole::ReviewerTechnical]), ended.clone()] {
            let refused = tenancy.patch_user(&admin, &first, patch.clone(), None).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{patch:?}");
        }
        let refused = tenancy.delete_user(&admin, &first, None).await.unwrap_err();
        assert_eq!(refused.to_string(), "user-18300000007 is the last administrator of the platform");
    };
    attempts().await;
    // An account that expires or is disabled does not count as an administrator.
    let (second, _) = stage.register_user("18300000008").await;
    let patch = |patch| stage.tenancy.patch_user(&admin, &second, patch, None);
    patch(roles(&[PlatformRole::Admin])).await.unwrap();
    attempts().await;
    patch(UserPatch { valid_days: Some(0), disabled: Some(true), ..UserPatch::default() }).await.unwrap();
    attempts().await;
    patch(disabled(false)).await.unwrap();
    stage.tenancy.delete_user(&admin, &first, None).await.unwrap();
    wait_until_deleted(&stage, &first).await;
}

#[tokio::test]
async fn two_administrators_cannot_remove_each_other_concurrently() {
    let stage = TestHarness::new().await;
    for round in 0..6 {
        let (one, first) = stage.register_administrator(&format!("1840000{round:04}")).await;
        let (two, second) = stage.register_administrator(&format!("1850000{round:04}")).await;
        let nobody_else = stage.tenancy.users(&first).unwrap();
        for other in nobody_else
            .iter()
            .filter(|account| account.id != one && account.id != two && !account.is_deleting)
        {
            let resigned = stage.tenancy.patch_user(&first, &other.id, roles(&[]), None).await;
            resigned.unwrap();
        }
        let (a, b) = futures::join!(stage.tenancy.patch_user(&first, &two, roles(&[]), None), async {
            if round % 2 == 0 {
                stage.tenancy.delete_user(&second, &one, None).await
            } else {
                stage.tenancy.patch_user(&second, &one, disabled(true), None).await.map(drop)
            }
        },);
        let left = stage.users().list(&ListParams::default()).await.unwrap();
        assert!(left.iter().any(is_permanent_administrator), "round {round}: {:?} {:?}", a.err(), b.err());
    }
}

#[tokio::test]
async fn email_change_moves_the_claim() {
    let stage = TestHarness::new().await;
    let (id, person) = stage.register_user("18300000009").await;
    let (other, another) = stage.register_user("18300000010").await;
    let move_to = |email: &str| stage.tenancy.patch_user(&person, &id, email_patch(email), None);
    assert_eq!(move_to("New@Example.com").await.unwrap().email, "new@example.com");
    let refused = move_to("18300000010@example.com").await.unwrap_err();
    assert!(matches!(refused, Error::AccountExists));
    assert_eq!(move_to("nonsense").await.unwrap_err().kind(), ErrorKind::Invalid);
    let name = |email: &str| email_claims::claim_name(&Email::parse(email).unwrap());
    let held = email_claims(&stage).await;
    let expected = [(name("new@example.com"), id.clone()), (name("18300000010@example.com"), other.clone())];
    let mut expected: Vec<_> = expected.into();
    expected.sort();
    assert_eq!(
        held.iter().map(|(name, claim)| (name.clone(), claim.user.clone())).collect::<Vec<_>>(),
        expected
    );
    // The old address is free.
    let taken =
        stage.tenancy.patch_user(&another, &other, email_patch("18300000009@example.com"), None).await;
    assert_eq!(taken.unwrap().email, "18300000009@example.com");
    // A conflict releases the claim.
    let outdated = stage
        .tenancy
        .patch_user(&person, &id, email_patch("third@example.com"), Some("1"))
        .await
        .unwrap_err();
    assert_eq!(outdated.kind(), ErrorKind::Precondition);
    assert_eq!(email_claims(&stage).await.len(), 2);
}

#[tokio::test]
async fn leftover_claim_can_be_taken_over_after_a_minute() {
    let stage = TestHarness::new().await;
    let email = Email::parse("left@example.com").unwrap();
    let ghost = UserId::from_random([5; 10]);
    let left = EmailClaim { account: "user-1".to_owned(), user: ghost, created: stage.tenancy.0.clock.now() };
    email_claims::claim_email(stage.world.admin_client(), &email, &left).await.unwrap();
    let (id, person) = stage.register_user("18300000011").await;
    let take = || stage.tenancy.patch_user(&person, &id, email_patch(email.as_str()), None);
    assert!(matches!(take().await, Err(Error::AccountExists)));
    stage.clock.advance(SignedDuration::from_secs(61));
    assert_eq!(take().await.unwrap().email, email.as_str());
}

#[tokio::test]
async fn delete_user_rejects_sole_admin_of_a_workspace() {
    let stage = TestHarness::new().await;
    let (id, person) = stage.register_user("18300000012").await;
    stage.tenancy.create_workspace(&person, "acme", "").await.unwrap();
    let refused = stage.tenancy.delete_user(&person, &id, None).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "user-18300000012 is the only admin of workspace `acme`: appoint another, or delete the workspace first"
    );
}

#[tokio::test]
async fn killed_email_change_leaves_one_address_and_one_claim() {
    let phone = "18300000013";
    let points = testkit::every_kill_point(
        async || {
            let stage = TestHarness::new().await;
            stage.register_user(phone).await;
            stage
        },
        async |stage, fault| {
            let tenancy = crate::test_harness::tenancy(
                &stage.world,
                &stage.clock,
                fault,
                crate::test_harness::open_settings(),
            )
            .await;
            let account = tenancy.directory().find_by_login(phone).unwrap();
            let actor =
                tenancy.directory().actor(&account.id, AuthMethod::Session { id: String::new() }).unwrap();
            tenancy.patch_user(&actor, &account.id, email_patch("moved@example.com"), None).await.map(drop)
        },
        async |stage| {
            stage.clock.advance(SignedDuration::from_mins(11));
            stage.tenancy.collect_registration_garbage().await.unwrap();
            let user = stage.users().get(&format!("user-{phone}")).await.unwrap();
            assert_eq!(user.spec.email, "moved@example.com");
            let held: Vec<String> = email_claims(stage).await.into_iter().map(|(name, _)| name).collect();
            assert_eq!(held, [email_claims::claim_name(&Email::parse("moved@example.com").unwrap())]);
        },
    );
    assert!(points.await >= 3);
}
