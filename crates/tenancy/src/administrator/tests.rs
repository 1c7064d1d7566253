//! Creation of the first administrator and password reset, on an embedded cluster.

use std::sync::Arc;

use domain::Kind;
use domain::clock::SystemClock;
use domain::ids::UserId;
use kube_access::Clients;
use parking_lot::Mutex;
use testkit::{World, every_kill_point};

use super::*;
use crate::testing::{HERE, Stage};
use crate::{Settings, StartError};

async fn start(client: kube::Client) -> Result<Tenancy, StartError> {
    Tenancy::start(Clients::new(client), Settings::default(), Arc::new(SystemClock)).await
}

#[tokio::test]
async fn the_first_administrator_is_told_once() {
    let stage = Stage::new().await;
    let first = stage.tenancy.first_administrator(None).await.unwrap().expect("the store is empty");
    stage.tenancy.administrator_was_told().await.unwrap();
    assert!(first.password.expose().len() >= 20);
    let signed_in = stage.tenancy.sign_in("admin", first.password.expose(), HERE).await.unwrap();
    assert!(signed_in.actor.is_platform_admin());
    assert!(stage.tenancy.first_administrator(None).await.unwrap().is_none());
    let id = signed_in.actor.id().unwrap();
    let user: User = Api::all(stage.world.admin()).get(&format!("user-{id}")).await.unwrap();
    assert!(!serde_json::to_string(&user).unwrap().contains(first.password.expose()));

    let directory = stage.tenancy.directory();
    let before = directory.epoch(id);
    let new = reset_password(&stage.world.admin(), "admin", Timestamp::now()).await.unwrap();
    directory.until(|directory| directory.epoch(id) > before).await;
    stage.tenancy.sign_in("admin", new.expose(), HERE).await.unwrap();
    let wrong = stage.tenancy.sign_in("admin", first.password.expose(), HERE).await.err().unwrap();
    assert_eq!(wrong.kind(), Kind::Unauthenticated);
    assert!(stage.tenancy.first_administrator(None).await.unwrap().is_none());
}

#[tokio::test]
async fn whoever_was_told_last_gets_in_wherever_the_start_was_cut_off() {
    let make = async || {
        let clock = Arc::new(kube_embedded::clock::SystemClock);
        (World::under(clock, crate::manifests::manifests()).await, Mutex::new(Vec::new()))
    };
    let points = every_kill_point(
        make,
        async |(world, told), fault| {
            let tenancy = start(fault.over(world.platform())).await?;
            if let Some(first) = tenancy.first_administrator(None).await? {
                told.lock().push(first.password);
                tenancy.administrator_was_told().await?;
            }
            Ok::<_, Box<dyn std::error::Error>>(())
        },
        async |(world, told)| {
            let tenancy = start(world.platform()).await.unwrap();
            let last = told.lock().last().cloned().expect("somebody was told");
            tenancy.sign_in(LOGIN, last.expose(), HERE).await.unwrap();
            assert!(tenancy.first_administrator(None).await.unwrap().is_none());
            assert_eq!(tenancy.directory().accounts().len(), 1);
        },
    )
    .await;
    assert_eq!(points, 4, "the keys, the account, its credentials, the mark");
}

#[test]
fn nobody_gets_a_password_while_somebody_can_get_in() {
    let admin = |login: Option<&str>| {
        let id = UserId::from_random(random());
        let spec = UserSpec { platform_roles: vec!["admin".to_owned()], ..UserSpec::default() };
        let mut user = User::new(&format!("user-{id}"), spec);
        user.annotations_mut().insert(marks::TENANT_ID.to_owned(), id.to_string());
        user.labels_mut().extend(login.map(|login| (marks::LOGIN.to_owned(), login.to_owned())));
        Account::of(&user).unwrap()
    };
    let credentials = |untold: bool| {
        let mut secret = Secret::default();
        if untold {
            secret.annotations_mut().insert(marks::UNTOLD.to_owned(), "true".to_owned());
        }
        Some(secret)
    };
    let first = admin(Some(LOGIN));
    let tell = || Step::Tell(Box::new(first.clone()));
    for (admins, expected) in [
        (vec![], Step::Make),
        (vec![(first.clone(), None)], tell()),
        (vec![(first.clone(), credentials(true))], tell()),
        (vec![(first.clone(), credentials(false))], Step::Rest),
        (vec![(admin(None), None)], Step::Rest),
        (vec![(admin(None), credentials(false)), (first.clone(), None)], Step::Rest),
        (vec![(admin(None), None), (first.clone(), credentials(true))], tell()),
    ] {
        assert_eq!(decide(admins.clone()), expected, "{}", admins.len());
    }
}

#[tokio::test]
async fn a_password_that_was_changed_is_not_taken_for_untold() {
    let stage = Stage::new().await;
    let first = stage.tenancy.first_administrator(None).await.unwrap().unwrap();
    // The process ends before it records the disclosure, but the administrator changes the password first.
    let signed_in = stage.tenancy.sign_in(LOGIN, first.password.expose(), HERE).await.unwrap();
    let (id, new) = (signed_in.actor.id().unwrap(), Password::chosen("of my own choice").unwrap());
    let old = Some(first.password.expose());
    stage.tenancy.change_password(&signed_in.actor, id, old, &new, HERE).await.unwrap();
    assert!(stage.tenancy.first_administrator(None).await.unwrap().is_none());
    stage.tenancy.sign_in(LOGIN, new.expose(), HERE).await.unwrap();
}
