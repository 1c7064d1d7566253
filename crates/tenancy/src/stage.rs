//! Test harness: an embedded cluster with the platform and its controllers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use domain::Actor;
use domain::actor::Via;
use domain::ids::UserId;
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use kube_access::{Change, Clients, Feed};
use kube_types::{User, marks};
use serde_json::json;
use testkit::{Fault, HeldClock, World};
use tokio::task::AbortHandle;

use crate::register::{Registered, Registration};
use crate::{Error, Settings, Tenancy, manifests, provision};

pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An embedded cluster with the platform and its running controllers.
pub(crate) struct Stage {
    pub world: World,
    pub clock: HeldClock,
    pub tenancy: Tenancy,
    provision: AbortHandle,
}

/// Settings with open registration.
pub(crate) fn open() -> Settings {
    Settings { registration_open: true, ..Settings::default() }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.provision.abort();
    }
}

/// The platform on this cluster, over a link with fault injection.
pub(crate) async fn tenancy(world: &World, clock: &HeldClock, fault: &Fault, settings: Settings) -> Tenancy {
    let clients = Clients::new(fault.over(world.platform()));
    Tenancy::start(clients, settings, Arc::new(clock.clone())).await.unwrap()
}

pub(crate) fn registration(phone: &str, password: Option<&str>) -> Registration {
    Registration::parse(&format!("{phone}@example.com"), phone, "Acme", password).unwrap()
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(open()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let clock = HeldClock::new();
        // The platform has the rights of its manifests, and no more.
        let world = World::under(Arc::new(clock.clone()), manifests::manifests()).await;
        let tenancy = tenancy(&world, &clock, &Fault::none(), settings).await;
        let provision = tokio::spawn(provision::run(tenancy.clone())).abort_handle();
        Self { world, clock, tenancy, provision }
    }

    pub fn users(&self) -> Api<User> {
        Api::all(self.world.admin())
    }

    /// Registers an account with that phone number and `<phone>@example.com`.
    pub async fn register(&self, phone: &str) -> Result<Registered, Error> {
        self.tenancy.register(registration(phone, None), HERE).await
    }

    /// Registers an account and returns its actor.
    pub async fn person(&self, phone: &str) -> (UserId, Actor) {
        let id = self.register(phone).await.unwrap().id;
        let actor = self.actor(&id);
        (id, actor)
    }

    /// The actor of an account with its current roles.
    pub fn actor(&self, id: &UserId) -> Actor {
        self.tenancy.directory().actor(id, Via::Session { id: "session".to_owned() }).unwrap()
    }

    /// Registers an account and makes it an administrator of the platform.
    pub async fn administrator(&self, phone: &str) -> (UserId, Actor) {
        let (id, _) = self.person(phone).await;
        let patch = json!({"spec": {"platformRoles": ["admin"], "validPeriod": 0}});
        self.users()
            .patch(&format!("user-{phone}"), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        testkit::until("the role is known", async || {
            let account = self.tenancy.directory().account(&id)?;
            (!account.platform.is_empty()).then_some(())
        })
        .await;
        let actor = self.actor(&id);
        (id, actor)
    }
}

/// Replaces the controllers: reports every account as ready.
pub(crate) fn stand_in(world: &World) -> AbortHandle {
    let users: Api<User> = Api::all(world.admin());
    let feed = Feed::start(users.clone(), Config::default(), |_| {});
    let ready = async move {
        let mut changes = feed.changes();
        while let Some(change) = changes.next().await {
            let Change::Applied(user) = change else { continue };
            let Some(id) = user.annotations().get(marks::TENANT_ID) else { continue };
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
