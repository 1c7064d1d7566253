//! The directory: a watch-fed cache of accounts, workspaces, credentials and tokens.
//!
//! Every request reads it, so nothing here waits for the cluster. [`Directory::stale_for`] bounds the age of its data; while the
//! watches are connected, that is milliseconds.
//!
//! Invariant: an account that is disabled, expired, being deleted or deleted is never an actor.
//! Elsewhere: the rights of a role (`domain::roles`), authentication (`crate::authenticate`).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::Actor;
use domain::actor::{AuthMethod, Principal};
use domain::clock::Clock;
use domain::ids::{TokenId, UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::Config;
use kube_access::cache::{CacheEvent, CacheEvents, WatchCache};
use kube_access::controller::runtime::isolate_sync;
use kube_access::controller::{TaskHandle, runtime};
use kube_types::{User, Workspace, well_known};
use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};

use crate::credential_store::{self, Credentials};
use crate::paging::PAGE_SIZE;
use crate::quota::ResourceQuantities;
use crate::tokens::TokenRecord;
use account::UserEntry;
use index::Index;
use user_secret::UserSecret;

pub(crate) mod account;
mod index;
mod revocation_watch;
pub(crate) mod user_secret;
mod workspace;

pub use account::Account;
pub use workspace::WorkspaceRecord;

/// The cache. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Directory {
    state: Arc<DirectoryState>,
    watches: DirectoryWatches,
    _tasks: Arc<[TaskHandle; 3]>,
}

/// The watches that feed the directory.
#[derive(Clone)]
pub(crate) struct DirectoryWatches {
    pub users: WatchCache<UserEntry>,
    pub workspaces: WatchCache<WorkspaceRecord>,
    /// Secrets of users: credentials and tokens.
    pub secrets: WatchCache<UserSecret>,
}

impl DirectoryWatches {
    /// `quota` is the default quota of a workspace.
    pub fn start(client: &kube::Client, quota: Arc<ResourceQuantities>) -> Self {
        let config = || Config::default().page_size(PAGE_SIZE);
        let (users, workspaces) = (Api::all(client.clone()), Api::all(client.clone()));
        let record =
            move |workspace: Workspace| WorkspaceRecord::from_workspace(&workspace).with_shared_quota(&quota);
        let of_people = config().labels(well_known::USER);
        Self {
            users: WatchCache::start_projected(users, config(), |user: User| UserEntry::from_user(&user)),
            workspaces: WatchCache::start_projected(workspaces, config(), record),
            secrets: WatchCache::start_projected(
                credential_store::api(client.clone()),
                of_people,
                |secret| UserSecret::from_secret(&secret),
            ),
        }
    }
}

/// The state that clones and background tasks share.
struct DirectoryState {
    index: RwLock<Index>,
    /// Notifies of every change.
    changed: watch::Sender<()>,
    clock: Arc<dyn Clock>,
}

impl Directory {
    /// Waits for the initial lists, then applies changes in background tasks.
    pub(crate) async fn start(feeds: DirectoryWatches, clock: Arc<dyn Clock>) -> Self {
        let shared =
            Arc::new(DirectoryState { index: RwLock::default(), changed: watch::Sender::new(()), clock });
        let (users, workspaces, secrets) = futures::join!(
            shared.clone().spawn_watch("users", &feeds.users, |index, change| match change {
                CacheEvent::Applied(person) => index.user_applied(person),
                CacheEvent::Deleted(person) => index.user_deleted(&person.name),
            }),
            shared.clone().spawn_watch("workspaces", &feeds.workspaces, |index, change| match change {
                CacheEvent::Applied(workspace) => index.workspace_applied(workspace),
                CacheEvent::Deleted(workspace) => index.workspace_deleted(&workspace.name),
            }),
            shared.clone().spawn_watch("secrets", &feeds.secrets, |index, change| match change {
                CacheEvent::Applied(held) => index.secret_applied(held),
                CacheEvent::Deleted(held) => index.secret_deleted(held),
            }),
        );
        Self { state: shared, watches: feeds, _tasks: Arc::new([users, workspaces, secrets]) }
    }

    pub fn account(&self, id: &UserId) -> Option<Arc<Account>> {
        self.state.index.read().account(id).cloned()
    }

    /// Finds an account by e-mail address, phone number, object name, id, or the administrator's login name.
    pub fn find_by_login(&self, login: &str) -> Option<Arc<Account>> {
        self.state.index.read().find_by_login(&account::normalize_login(login)).cloned()
    }

    /// All accounts, by object name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut accounts: Vec<_> = self.state.index.read().accounts().cloned().collect();
        accounts.sort_by(|one, other| one.name.cmp(&other.name));
        accounts
    }

    /// The user as an actor with current roles. `None` if the account cannot be used.
    pub fn actor(&self, id: &UserId, via: AuthMethod) -> Option<Actor> {
        self.state.actor(id, via)
    }

    pub fn workspace(&self, name: &WorkspaceName) -> Option<Arc<WorkspaceRecord>> {
        self.state.index.read().workspace(name).cloned()
    }

    /// All workspaces, by name.
    pub fn workspaces(&self) -> Vec<Arc<WorkspaceRecord>> {
        self.state.index.read().workspaces().cloned().collect()
    }

    /// The workspaces of an account, each with its role.
    pub fn memberships(&self, id: &UserId) -> BTreeMap<WorkspaceName, WorkspaceRole> {
        self.state.index.read().memberships(id)
    }

    /// The workspace of a namespace, as recorded in the workspace's status.
    pub fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
        self.state.index.read().workspace_of(namespace).cloned()
    }

    /// The account whose budgets a workspace uses: its creator, possibly of several workspaces. `None` for workspaces that platform
    /// administrators created; each of these has budgets of its own.
    pub fn account_of(&self, workspace: &WorkspaceName) -> Option<UserId> {
        let index = self.state.index.read();
        index.account_of(index.workspace(workspace)?)
    }

    /// Like [`Directory::account_of`], for a workspace that was read just now.
    pub(crate) fn account_of_object(&self, workspace: &Workspace) -> Option<UserId> {
        self.state.index.read().account_of(&WorkspaceRecord::from_workspace(workspace))
    }

    pub fn token(&self, id: &TokenId) -> Option<Arc<TokenRecord>> {
        self.state.index.read().token(id).cloned()
    }

    pub(crate) fn tokens(&self) -> Vec<Arc<TokenRecord>> {
        self.state.index.read().tokens().cloned().collect()
    }

    /// The tokens of an account, newest first.
    pub fn tokens_of(&self, id: &UserId) -> Vec<Arc<TokenRecord>> {
        let mut tokens: Vec<_> = self.state.index.read().tokens_of(id).cloned().collect();
        tokens.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
        tokens
    }

    /// The epoch of an account's credentials.
    pub fn credential_epoch(&self, id: &UserId) -> Option<u64> {
        self.state.index.read().credentials(id).map(|credentials| credentials.epoch)
    }

    pub(crate) fn credentials(&self, id: &UserId) -> Option<Arc<Credentials>> {
        self.state.index.read().credentials(id).cloned()
    }

    /// How long the cluster has been silent. `None` while all watches are connected.
    pub fn stale_for(&self) -> Option<Duration> {
        let DirectoryWatches { users, workspaces, secrets } = &self.watches;
        [users.stale_for(), workspaces.stale_for(), secrets.stale_for()].into_iter().flatten().max()
    }

    pub(crate) fn watches(&self) -> &DirectoryWatches {
        &self.watches
    }

    /// Resolves when the directory fulfils `condition`: for callers that wait for their own write or for the controllers. Has no
    /// timeout.
    pub async fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        let mut changed = self.state.changed.subscribe();
        while !condition(self) {
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }

    /// Like [`Directory::wait_until`], for the caller's own write. Returns after a timeout too: the write is valid in any case.
    pub(crate) async fn wait_for_own_write(&self, condition: impl Fn(&Self) -> bool) {
        const LIMIT: Duration = Duration::from_secs(5);
        let result = tokio::time::timeout(LIMIT, self.wait_until(condition)).await;
        if result.is_err() {
            tracing::warn!("the watch did not deliver a write within {LIMIT:?}");
        }
    }

    /// Resolves when the actor's credential becomes invalid or the actor loses a role.
    pub fn wait_until_revoked(&self, actor: &Actor) -> impl Future<Output = ()> + Send + 'static {
        revocation_watch::wait_until_revoked(
            self.state.clone(),
            actor.clone(),
            revocation_watch::TOKEN_REVIEW_TTL,
        )
    }
}

impl DirectoryState {
    /// Applies the initial list of a watch, then its changes until the watch ends.
    async fn spawn_watch<K: Send + Sync + 'static>(
        self: Arc<Self>,
        name: &'static str,
        feed: &WatchCache<K>,
        enter: fn(&mut Index, &CacheEvent<K>),
    ) -> TaskHandle {
        feed.wait_until_synced().await;
        let changes = feed.subscribe();
        {
            let mut index = self.index.write();
            feed.list().into_iter().for_each(|object| enter(&mut index, &CacheEvent::Applied(object)));
        }
        // One subscription for all restarts: no deletion is missed.
        let changes = Arc::new(Mutex::new(changes));
        runtime().spawn("directory", name, move || self.clone().apply_events(changes.clone(), enter))
    }

    /// Applies the changes of a watch until it ends.
    async fn apply_events<K>(
        self: Arc<Self>,
        changes: Arc<Mutex<CacheEvents<K>>>,
        enter: fn(&mut Index, &CacheEvent<K>),
    ) {
        let mut changes = changes.lock().await;
        while let Some(change) = changes.next().await {
            // One object that cannot be applied must not block the others.
            if let Err(error) = isolate_sync(|| enter(&mut self.index.write(), &change)) {
                tracing::error!(%error, "cannot add an object to the directory");
            }
            self.changed.send_replace(());
        }
    }

    fn actor(&self, id: &UserId, via: AuthMethod) -> Option<Actor> {
        let now = self.clock.now();
        let index = self.index.read();
        let account = index.account(id).filter(|account| account.is_open(now))?;
        Some(Actor {
            principal: Principal::User {
                id: account.id.clone(),
                account: account.name.clone(),
                uid: account.uid.clone(),
            },
            platform_roles: account.platform_roles.clone(),
            memberships: index.memberships(id),
            auth_method: via,
        })
    }
}
