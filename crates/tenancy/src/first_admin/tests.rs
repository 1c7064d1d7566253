//! Creation of the first administrator and password reset, on an embedded cluster.

use std::sync::Arc;

use domain::ErrorKind;
use domain::clock::SystemClock;
use domain::ids::UserId;
use kube_access::Clients;
use parking_lot::Mutex;
use testkit::{TestCluster, every_kill_point};

use super::*;
use crate::auth_test_harness::{AuthTestHarness, LOCAL_CLIENT};
use crate::{Settings, StartError};

async fn start(client: kube::Client) -> Result<Tenancy, StartError> {
    Tenancy::start(Clients::new(client), Settings::default(), Arc::new(SystemClock)).await
}

#[tokio::test]
async fn first_administrator_credentials_are_disclosed_once() {
    let stage = AuthTestHarness::new().await;
    let first = stage.tenancy.bootstrap_administrator(None).await.unwrap().expect("the store is empty");
    stage.tenancy.mark_administrator_disclosed().await.unwrap();
    assert!(first.password.expose().len() >= 20);
    let signed_in = stage.tenancy.sign_in("admin", first.password.expose(), LOCAL_CLIENT).await.unwrap();
    assert!(signed_in.actor.is_platform_admin());
    assert!(stage.tenancy.bootstrap_administrator(None).await.unwrap().is_none());
    let id = signed_in.actor.user_id().unwrap();
    let user: User = Api::all(stage.world.admin_client()).get(&format!("user-{id}")).await.unwrap();
    assert!(!serde_json::to_string(&user).unwrap().contains(first.password.expose()));

    let directory = stage.tenancy.directory();
    let before = directory.credential_epoch(id);
    let new = reset_password(&stage.world.admin_client(), "admin", Timestamp::now()).await.unwrap();
    directory.wait_until(|directory| directory.credential_epoch(id) > before).await;
    stage.tenancy.sign_in("admin", new.expose(), LOCAL_CLIENT).await.unwrap();
    let wrong = stage.tenancy.sign_in("admin", first.password.expose(), LOCAL_CLIENT).await.err().unwrap();
    assert_eq!(wrong.kind(), ErrorKind::Unauthenticated);
    assert!(stage.tenancy.bootstrap_administrator(None).await.unwrap().is_none());
}

#[tokio::test]
async fn last_disclosed_password_is_valid_after_a_crash_at_any_write() {
    let make = async || {
        let clock = Arc::new(kube_embedded::clock::SystemClock);
        (TestCluster::with_permissions(clock, crate::manifests::manifests()).await, Mutex::new(Vec::new()))
    };
    let points = every_kill_point(
        make,
        async |(world, told), fault| {
            let tenancy = start(fault.wrap(world.platform_client())).await?;
            if let Some(first) = tenancy.bootstrap_administrator(None).await? {
                told.lock().push(first.password);
                tenancy.mark_administrator_disclosed().await?;
            }
            Ok::<_, Box<dyn std::error::Error>>(())
        },
        async |(world, told)| {
            let tenancy = start(world.platform_client()).await.unwrap();
            let last = told.lock().last().cloned().expect("somebody was told");
            tenancy.sign_in(ADMIN_LOGIN, last.expose(), LOCAL_CLIENT).await.unwrap();
            assert!(tenancy.bootstrap_administrator(None).await.unwrap().is_none());
            assert_eq!(tenancy.directory().accounts().len(), 1);
        },
    )
    .await;
    assert_eq!(points, 4, "the keys, the account, its credentials, the mark");
}

#[test]
fn no_password_is_generated_while_an_administrator_has_access() {
    let admin = |login: Option<&str>| {
        let id = UserId::from_random(random_bytes());
        let spec = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
        let mut user = User::new(&format!("user-{id}"), spec);
        user.annotations_mut().insert(well_known::TENANT_ID.to_owned(), id.to_string());
        user.labels_mut().extend(login.map(|login| (well_known::LOGIN.to_owned(), login.to_owned())));
        Account::from_user(&user).unwrap()
    };
    let credentials = |untold: bool| {
        let mut secret = Secret::default();
        if untold {
            secret
                .annotations_mut()
                .insert(well_known::CREDENTIALS_UNDISCLOSED.to_owned(), "true".to_owned());
        }
        Some(secret)
    };
    let first = admin(Some(ADMIN_LOGIN));
    let tell = || BootstrapDecision::ResetPassword(Box::new(first.clone()));
    for (admins, expected) in [
        (vec![], BootstrapDecision::Create),
        (vec![(first.clone(), None)], tell()),
        (vec![(first.clone(), credentials(true))], tell()),
        (vec![(first.clone(), credentials(false))], BootstrapDecision::Skip),
        (vec![(admin(None), None)], BootstrapDecision::Skip),
        (vec![(admin(None), credentials(false)), (first.clone(), None)], BootstrapDecision::Skip),
        (vec![(admin(None), None), (first.clone(), credentials(true))], tell()),
    ] {
        assert_eq!(decide(admins.clone()), expected, "{}", admins.len());
    }
}

#[tokio::test]
async fn changed_password_is_not_reset() {
    let stage = AuthTestHarness::new().await;
    let first = stage.tenancy.bootstrap_administrator(None).await.unwrap().unwrap();
    // The process ends before it records the disclosure, but the administrator changes the password first.
    let signed_in = stage.tenancy.sign_in(ADMIN_LOGIN, first.password.expose(), LOCAL_CLIENT).await.unwrap();
    let (id, new) = (signed_in.actor.user_id().unwrap(), Password::parse_new("of my own choice").unwrap());
    let old = Some(first.password.expose());
    stage.tenancy.change_password(&signed_in.actor, id, old, &new, LOCAL_CLIENT).await.unwrap();
    assert!(stage.tenancy.bootstrap_administrator(None).await.unwrap().is_none());
    stage.tenancy.sign_in(ADMIN_LOGIN, new.expose(), LOCAL_CLIENT).await.unwrap();
}
