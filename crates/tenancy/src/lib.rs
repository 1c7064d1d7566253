//! Identity and tenancy: accounts, authentication, workspaces, and the objects that the platform provisions for them.
//!
//! Modules:
//!
//! - Cache: `directory`.
//! - Authentication: `passwords`, `tokens`, `sessions`, `throttle`, `sign_in`, `credential_store`, `revocation`, `token_review`,
//!   `authenticate`, `first_admin`.
//! - Operations of users: `register`, `users`, `workspaces`, `retired_names`, `members`, `quota`, `kubeconfig`, `node_join`.
//! - Controllers: `controller`, on the `leader`.
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
use kube_access::{Clients, WatchCache};

use directory::DirectoryWatches;
use node_join::JoinTool;
use passwords::Hasher;
use sessions::keys::{self, SessionKeys};
use throttle::Throttle;
use token_review::TokenReviewCache;
use tokens::last_use::LastUseRecorder;

#[cfg(test)]
mod auth_test_harness;
pub mod authenticate;
pub mod controller;
mod credential_store;
pub mod directory;
pub mod error;
pub mod first_admin;
pub mod kubeconfig;
mod leader;
#[cfg(test)]
mod log_capture;
pub mod manifests;
pub mod members;
pub mod node_join;
mod paging;
mod passwords;
pub mod progress;
pub mod quota;
pub mod register;
mod retired_names;
mod revocation;
pub mod roles;
pub mod sessions;
pub mod sign_in;
#[cfg(test)]
mod test_harness;
mod throttle;
pub mod token_review;
pub mod tokens;
mod update;
pub mod users;
pub mod workspaces;

pub use authenticate::RequestCredentials;
pub use directory::{Account, Directory, WorkspaceRecord};
pub use error::Error;
pub use sign_in::NewSession;

/// Settings of the platform, chosen by its administrator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether visitors may register accounts.
    pub is_registration_open: bool,
    /// The validity of a new account in days; 0: no expiry.
    pub validity_days: i64,
    pub max_nodes: i64,
    /// How long registration waits for the new account to become ready.
    pub registration_timeout: Duration,
    /// The quota of a new workspace, with the resource names of ResourceQuota.
    pub quota: BTreeMap<String, String>,
    /// The total quota of all workspaces that one account created, with the resource names of ResourceQuota.
    pub account_quota: BTreeMap<String, String>,
    /// How long a workspace marked for removal can be restored.
    pub removal_grace_period: Duration,
    /// The URL of the API server in kubeconfigs. `None`: the URL that the cluster publishes.
    pub kube_url: Option<String>,
    pub session_lifetime_hours: i64,
    /// The program with which machines join.
    pub join_tool: JoinTool,
    /// How long an expired account can be extended before it is deleted.
    pub account_grace_period: Duration,
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
            is_registration_open: false,
            validity_days: 7,
            max_nodes: 3,
            registration_timeout: Duration::from_mins(1),
            quota: quota.map(|(what, much)| (what.to_owned(), much.to_owned())).into(),
            account_quota: person_quota.map(|(what, much)| (what.to_owned(), much.to_owned())).into(),
            removal_grace_period: Duration::from_hours(24),
            kube_url: None,
            session_lifetime_hours: 12,
            join_tool: JoinTool::Installed,
            account_grace_period: Duration::from_hours(24),
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
    session_keys: SessionKeys,
    last_use: LastUseRecorder,
    token_reviews: TokenReviewCache,
}

/// Why the platform cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("initial lists of users and workspaces timed out after {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("cannot prepare the keys that sign sessions")]
    SessionKeys(#[source] Error),
}

/// The timeout of the initial lists.
const INITIAL_LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// The interval at which the session keys are checked for rotation.
const KEY_CHECK_INTERVAL: Duration = Duration::from_hours(1);

impl Tenancy {
    /// Starts the watches and returns when their initial lists are complete. Requires the CRDs and the system namespace.
    pub async fn start(
        clients: Clients,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let own_keys = Config::default().fields(&format!("metadata.name={}", keys::SECRET_NAME));
        let keys = SessionKeys::new(
            clients.platform(),
            WatchCache::start(credential_store::api(clients.platform()), own_keys, |_| {}),
        );
        let feeds = DirectoryWatches::start(&clients.platform(), Arc::new(settings.quota.clone()));
        let following = Directory::start(feeds, clock.clone());
        let directory = tokio::time::timeout(INITIAL_LIST_TIMEOUT, following)
            .await
            .map_err(|_| StartError::Timeout(INITIAL_LIST_TIMEOUT))?;
        keys.rotate_and_wait(clock.now()).await.map_err(StartError::SessionKeys)?;
        let tenancy = Self(Arc::new(Inner {
            hasher: Hasher::new(),
            throttle: Throttle::new(clock.clone()),
            last_use: LastUseRecorder::start(clients.platform()),
            token_reviews: TokenReviewCache::new(clients.platform(), clock.clone()),
            clients,
            directory,
            settings,
            clock,
            session_keys: keys,
        }));
        tenancy.spawn_key_rotation();
        Ok(tenancy)
    }

    pub fn directory(&self) -> &Directory {
        &self.0.directory
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Rotates the session keys when due, until the last clone is dropped.
    fn spawn_key_rotation(&self) {
        let inner = Arc::downgrade(&self.0);
        let gone = inner.clone();
        let start = move || rotate_keys_periodically(inner.clone());
        tokio::spawn(async move {
            runtime().run_until("session-keys", "", start, || gone.strong_count() == 0).await;
        });
    }
}

/// Refreshes the session keys until the last [`Tenancy`] is dropped.
async fn rotate_keys_periodically(inner: std::sync::Weak<Inner>) {
    loop {
        tokio::time::sleep(KEY_CHECK_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.session_keys.rotate_and_wait(inner.clock.now()).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot look after the keys of sessions"
            );
        }
    }
}
