//! Test harness: an embedded cluster with the platform and its controllers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use domain::Actor;
use domain::actor::AuthMethod;
use domain::ids::UserId;
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use kube_access::{CacheEvent, Clients, WatchCache};
use kube_types::{User, well_known};
use serde_json::json;
use testkit::{FaultInjector, ManualClock, TestCluster};
use tokio::task::AbortHandle;

use crate::register::{RegisteredAccount, Registration};
use crate::{Error, Settings, Tenancy, controller, manifests};

pub(crate) const LOCAL_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An embedded cluster with the platform and its running controllers.
pub(crate) struct TestHarness {
    pub world: TestCluster,
    pub clock: ManualClock,
    pub tenancy: Tenancy,
    controllers: AbortHandle,
}

/// Settings with open registration.
pub(crate) fn open_settings() -> Settings {
    Settings { is_registration_open: true, ..Settings::default() }
}

impl Drop for TestHarness {
    fn drop(&mut self) {
        self.controllers.abort();
    }
}

/// The platform on this cluster, over a link with fault injection.
pub(crate) async fn tenancy(
    world: &TestCluster,
    clock: &ManualClock,
    fault: &FaultInjector,
    settings: Settings,
) -> Tenancy {
    let clients = Clients::new(fault.wrap(world.platform_client()));
    Tenancy::start(clients, settings, Arc::new(clock.clone())).await.unwrap()
}

pub(crate) fn registration(phone: &str, password: Option<&str>) -> Registration {
    Registration::parse(&format!("{phone}@example.com"), phone, "Acme", password).unwrap()
}

impl TestHarness {
    pub async fn new() -> Self {
        Self::with_settings(open_settings()).await
    }

    pub async fn with_settings(settings: Settings) -> Self {
        let clock = ManualClock::new();
        // The platform has only the rights of its manifests.
        let world = TestCluster::with_permissions(Arc::new(clock.clone()), manifests::manifests()).await;
        let tenancy = tenancy(&world, &clock, &FaultInjector::healthy(), settings).await;
        let provision = tokio::spawn(controller::run(tenancy.clone())).abort_handle();
        Self { world, clock, tenancy, controllers: provision }
    }

    pub fn users(&self) -> Api<User> {
        Api::all(self.world.admin_client())
    }

    /// Registers an account with that phone number and `<phone>@example.com`.
    pub async fn register(&self, phone: &str) -> Result<RegisteredAccount, Error> {
        self.tenancy.register(registration(phone, None), LOCAL_CLIENT).await
    }

    /// Registers an account and returns its actor.
    pub async fn register_user(&self, phone: &str) -> (UserId, Actor) {
        let id = self.register(phone).await.unwrap().id;
        let actor = self.actor(&id);
        (id, actor)
    }

    /// The actor of an account with its current roles.
    pub fn actor(&self, id: &UserId) -> Actor {
        self.tenancy.directory().actor(id, AuthMethod::Session { id: "session".to_owned() }).unwrap()
    }

    /// Registers an account and makes it an administrator of the platform.
    pub async fn register_administrator(&self, phone: &str) -> (UserId, Actor) {
        let (id, _) = self.register_user(phone).await;
        let patch = json!({"spec": {"platformRoles": ["admin"], "validPeriod": 0}});
        self.users()
            .patch(&format!("user-{phone}"), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        testkit::wait_for("the role is known", async || {
            let account = self.tenancy.directory().account(&id)?;
            (!account.platform_roles.is_empty()).then_some(())
        })
        .await;
        let actor = self.actor(&id);
        (id, actor)
    }
}

/// Replaces the controllers: reports every account as ready.
pub(crate) fn spawn_stand_in_controllers(world: &TestCluster) -> AbortHandle {
    let users: Api<User> = Api::all(world.admin_client());
    let feed = WatchCache::start(users.clone(), Config::default(), |_| {});
    let ready = async move {
        let mut changes = feed.subscribe();
        while let Some(change) = changes.next().await {
            let CacheEvent::Applied(user) = change else { continue };
            let Some(id) = user.annotations().get(well_known::TENANT_ID) else { continue };
            if user.status.is_some() {
                continue;
            }
            let condition = json!({
                "type": "Ready", "status": "True", "reason": "Test", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            });
            let status = json!({"status": {
                "tenantID": id, "conditions": [condition], "effectiveTime": "2026-01-02T03:04:05Z",
                "expireTime": "2026-01-09T03:04:05Z", "expired": false, "nodeNum": 0, "sequence": 1,
            }});
            // The account may be deleted already.
            let _ =
                users.patch_status(&user.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
        }
    };
    tokio::spawn(ready).abort_handle()
}
