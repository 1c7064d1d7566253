//! Identity and tenancy: accounts, authentication, workspaces, and the objects that the platform provisions for them.
//!
//! Modules:
//!
//! - Cache: `directory`.
//! - Authentication: `passwords`, `tokens`, `sessions`, `throttle`, `sign_in`, `credentials`, `kubernetes`, `authenticate`,
//!   `administrator`.
//! - Operations of users: `register`, `users`, `workspaces`, `names`, `members`, `quota`, `kubeconfig`, `edge`.
//! - Controllers: `provision`.
//!
//! Invariant: every function reachable by a caller takes a [`domain::Actor`] and authorises it first, except registration and
//! sign-in.
//! Elsewhere: the table of roles (`domain::roles`), the resources (`kube_types`), the routes (`api`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use kube::runtime::watcher::Config;
use kube_access::controller::runtime;
use kube_access::{Clients, Feed};

use directory::Feeds;
use edge::JoinTool;
use kubernetes::Reviews;
use passwords::Hasher;
use sessions::keys::{self, Keys};
use throttle::Throttle;
use tokens::last_use::LastUse;

pub mod administrator;
pub mod authenticate;
mod change;
mod credentials;
pub mod directory;
pub mod edge;
pub mod error;
#[cfg(test)]
mod heard;
pub mod kubeconfig;
pub mod kubernetes;
mod lead;
pub mod manifests;
pub mod members;
mod names;
mod pages;
mod passwords;
pub mod progress;
pub mod provision;
pub mod quota;
pub mod register;
pub mod roles;
mod secrets;
pub mod sessions;
pub mod sign_in;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod testing;
mod throttle;
pub mod tokens;
pub mod users;
pub mod workspaces;

pub use authenticate::Presented;
pub use directory::{Account, Directory, WorkspaceRecord};
pub use error::Error;
pub use sign_in::SignedIn;

/// Settings of the platform, chosen by its administrator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether visitors may register accounts.
    pub registration_open: bool,
    /// The validity of a new account in days; 0: no expiry.
    pub valid_days: i64,
    pub max_nodes: i64,
    /// How long registration waits for the new account to become ready.
    pub visitor_patience: Duration,
    /// The quota of a new workspace, with the resource names of ResourceQuota.
    pub quota: BTreeMap<String, String>,
    /// The total quota of all workspaces that one account created, with the resource names of ResourceQuota.
    pub person_quota: BTreeMap<String, String>,
    /// How long a workspace marked for removal can be restored.
    pub removal_grace: Duration,
    /// The URL of the API server in kubeconfigs. `None`: the URL that the cluster publishes.
    pub kube_url: Option<String>,
    pub session_hours: i64,
    /// The program with which machines join.
    pub join_tool: JoinTool,
    /// How long an expired account can be extended before it is deleted.
    pub account_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        #[rustfmt::skip]
        let quota = [
            ("requests.cpu", "4"), ("requests.memory", "8Gi"), ("pods", "50"), ("services", "10"),
            ("services.nodeports", "0"), ("services.loadbalancers", "0"), ("persistentvolumeclaims", "5"),
            ("requests.storage", "20Gi"), ("configmaps", "50"), ("secrets", "50"), ("count/jobs.batch", "50"),
        ];
        // Enough for the personal workspace and two shared ones.
        #[rustfmt::skip]
        let person_quota = [
            ("requests.cpu", "12"), ("requests.memory", "24Gi"), ("pods", "150"), ("services", "30"),
            ("services.nodeports", "0"), ("services.loadbalancers", "0"), ("persistentvolumeclaims", "15"),
            ("requests.storage", "60Gi"), ("configmaps", "150"), ("secrets", "150"), ("count/jobs.batch", "150"),
        ];
        Self {
            registration_open: false,
            valid_days: 7,
            max_nodes: 3,
            visitor_patience: Duration::from_mins(1),
            quota: quota.map(|(what, much)| (what.to_owned(), much.to_owned())).into(),
            person_quota: person_quota.map(|(what, much)| (what.to_owned(), much.to_owned())).into(),
            removal_grace: Duration::from_hours(24),
            kube_url: None,
            session_hours: 12,
            join_tool: JoinTool::Installed,
            account_grace: Duration::from_hours(24),
        }
    }
}

/// Identity and tenancy. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Tenancy(Arc<Inner>);

/// The state that clones of [`Tenancy`] share.
struct Inner {
    clients: Clients,
    directory: Directory,
    settings: Settings,
    clock: Arc<dyn Clock>,
    hasher: Hasher,
    throttle: Throttle,
    keys: Keys,
    last_use: LastUse,
    reviews: Reviews,
}

/// Why the platform cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the cluster did not tell who there is within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("cannot prepare the keys that sign sessions")]
    Keys(#[source] Error),
}

/// The timeout of the initial lists.
const PATIENCE: Duration = Duration::from_mins(1);
/// The interval at which the session keys are checked for rotation.
const KEYS: Duration = Duration::from_hours(1);

impl Tenancy {
    /// Starts the watches and returns when their initial lists are complete. Requires the CRDs and the system namespace.
    pub async fn start(
        clients: Clients,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let own_keys = Config::default().fields(&format!("metadata.name={}", keys::NAME));
        let keys = Keys::new(clients.own(), Feed::start(secrets::api(clients.own()), own_keys, |_| {}));
        let feeds = Feeds::start(&clients.own(), Arc::new(settings.quota.clone()));
        let following = Directory::follow(feeds, clock.clone());
        let directory =
            tokio::time::timeout(PATIENCE, following).await.map_err(|_| StartError::Silent(PATIENCE))?;
        keys.refresh(clock.now()).await.map_err(StartError::Keys)?;
        let tenancy = Self(Arc::new(Inner {
            hasher: Hasher::new(),
            throttle: Throttle::new(clock.clone()),
            last_use: LastUse::start(clients.own()),
            reviews: Reviews::new(clients.own(), clock.clone()),
            clients,
            directory,
            settings,
            clock,
            keys,
        }));
        tenancy.keep_keys_fresh();
        Ok(tenancy)
    }

    pub fn directory(&self) -> &Directory {
        &self.0.directory
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Rotates the session keys when due, until the last clone is dropped.
    fn keep_keys_fresh(&self) {
        let inner = Arc::downgrade(&self.0);
        let gone = inner.clone();
        let start = move || refresh_keys(inner.clone());
        tokio::spawn(async move {
            runtime().run_until("session-keys", "", start, || gone.strong_count() == 0).await;
        });
    }
}

/// Refreshes the session keys until the last [`Tenancy`] is dropped.
async fn refresh_keys(inner: std::sync::Weak<Inner>) {
    loop {
        tokio::time::sleep(KEYS).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.keys.refresh(inner.clock.now()).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot look after the keys of sessions"
            );
        }
    }
}
