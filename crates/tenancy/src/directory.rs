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
use domain::actor::{Via, Who};
use domain::clock::Clock;
use domain::ids::{TokenId, UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::Config;
use kube_access::controller::runtime::isolate_sync;
use kube_access::controller::{TaskHandle, runtime};
use kube_access::feed::{Change, Changes, Feed};
use kube_types::{User, Workspace, marks};
use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};

use crate::pages::PAGE;
use crate::quota::Amounts;
use crate::secrets::{self, Credentials};
use crate::tokens::TokenRecord;
use account::Person;
use held::Held;
use index::Index;

pub(crate) mod account;
pub(crate) mod held;
mod index;
mod revoked;
mod workspace;

pub use account::Account;
pub use workspace::WorkspaceRecord;

/// The cache. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Directory {
    shared: Arc<Shared>,
    feeds: Feeds,
    _tasks: Arc<[TaskHandle; 3]>,
}

/// The watches that feed the directory.
#[derive(Clone)]
pub(crate) struct Feeds {
    pub users: Feed<Person>,
    pub workspaces: Feed<WorkspaceRecord>,
    /// Secrets of users: credentials and tokens.
    pub secrets: Feed<Held>,
}

impl Feeds {
    /// `quota` is the default quota of a workspace.
    pub fn start(client: &kube::Client, quota: Arc<Amounts>) -> Self {
        let config = || Config::default().page_size(PAGE);
        let (users, workspaces) = (Api::all(client.clone()), Api::all(client.clone()));
        let record = move |workspace: Workspace| WorkspaceRecord::of(&workspace).sharing(&quota);
        let of_people = config().labels(marks::USER);
        Self {
            users: Feed::keeping(users, config(), |user: User| Person::of(&user)),
            workspaces: Feed::keeping(workspaces, config(), record),
            secrets: Feed::keeping(secrets::api(client.clone()), of_people, |secret| Held::of(&secret)),
        }
    }
}

/// The state that clones and background tasks share.
struct Shared {
    index: RwLock<Index>,
    /// Notifies of every change.
    changed: watch::Sender<()>,
    clock: Arc<dyn Clock>,
}

impl Directory {
    /// Waits for the initial lists, then applies changes in background tasks.
    pub(crate) async fn follow(feeds: Feeds, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared { index: RwLock::default(), changed: watch::Sender::new(()), clock });
        let (users, workspaces, secrets) = futures::join!(
            shared.clone().fed_by("users", &feeds.users, |index, change| match change {
                Change::Applied(person) => index.user_applied(person),
                Change::Deleted(person) => index.user_deleted(&person.name),
            }),
            shared.clone().fed_by("workspaces", &feeds.workspaces, |index, change| match change {
                Change::Applied(workspace) => index.workspace_applied(workspace),
                Change::Deleted(workspace) => index.workspace_deleted(&workspace.name),
            }),
            shared.clone().fed_by("secrets", &feeds.secrets, |index, change| match change {
                Change::Applied(held) => index.secret_applied(held),
                Change::Deleted(held) => index.secret_deleted(held),
            }),
        );
        Self { shared, feeds, _tasks: Arc::new([users, workspaces, secrets]) }
    }

    pub fn account(&self, id: &UserId) -> Option<Arc<Account>> {
        self.shared.index.read().account(id).cloned()
    }

    /// Finds an account by e-mail address, phone number, object name, id, or the administrator's login name.
    pub fn by_login(&self, login: &str) -> Option<Arc<Account>> {
        self.shared.index.read().by_login(&account::normal(login)).cloned()
    }

    /// All accounts, by object name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut accounts: Vec<_> = self.shared.index.read().accounts().cloned().collect();
        accounts.sort_by(|one, other| one.name.cmp(&other.name));
        accounts
    }

    /// The user as an actor with current roles. `None` if the account cannot be used.
    pub fn actor(&self, id: &UserId, via: Via) -> Option<Actor> {
        self.shared.actor(id, via)
    }

    pub fn workspace(&self, name: &WorkspaceName) -> Option<Arc<WorkspaceRecord>> {
        self.shared.index.read().workspace(name).cloned()
    }

    /// All workspaces, by name.
    pub fn workspaces(&self) -> Vec<Arc<WorkspaceRecord>> {
        self.shared.index.read().workspaces().cloned().collect()
    }

    /// The workspaces of an account, each with its role.
    pub fn memberships(&self, id: &UserId) -> BTreeMap<WorkspaceName, WorkspaceRole> {
        self.shared.index.read().memberships(id)
    }

    /// The workspace of a namespace, as recorded in the workspace's status.
    pub fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
        self.shared.index.read().workspace_of(namespace).cloned()
    }

    /// The account whose budgets a workspace uses: its creator, who may have several workspaces. `None` for workspaces that platform
    /// administrators created; each of these has budgets of its own.
    pub fn account_of(&self, workspace: &WorkspaceName) -> Option<UserId> {
        let index = self.shared.index.read();
        index.account_of(index.workspace(workspace)?)
    }

    /// Like [`Directory::account_of`], for a workspace that was read just now.
    pub(crate) fn account_of_object(&self, workspace: &Workspace) -> Option<UserId> {
        self.shared.index.read().account_of(&WorkspaceRecord::of(workspace))
    }

    pub fn token(&self, id: &TokenId) -> Option<Arc<TokenRecord>> {
        self.shared.index.read().token(id).cloned()
    }

    pub(crate) fn tokens(&self) -> Vec<Arc<TokenRecord>> {
        self.shared.index.read().tokens().cloned().collect()
    }

    /// The tokens of an account, newest first.
    pub fn tokens_of(&self, id: &UserId) -> Vec<Arc<TokenRecord>> {
        let mut tokens: Vec<_> = self.shared.index.read().tokens_of(id).cloned().collect();
        tokens.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
        tokens
    }

    /// The epoch of an account's credentials.
    pub fn epoch(&self, id: &UserId) -> Option<u64> {
        self.shared.index.read().credentials(id).map(|credentials| credentials.epoch)
    }

    pub(crate) fn credentials(&self, id: &UserId) -> Option<Arc<Credentials>> {
        self.shared.index.read().credentials(id).cloned()
    }

    /// How long the cluster has been silent. `None` while all watches are connected.
    pub fn stale_for(&self) -> Option<Duration> {
        let Feeds { users, workspaces, secrets } = &self.feeds;
        [users.stale_for(), workspaces.stale_for(), secrets.stale_for()].into_iter().flatten().max()
    }

    pub(crate) fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Resolves when the directory fulfils `condition`: for callers that wait for their own write or for the controllers. Has no
    /// timeout.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !condition(self) {
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }

    /// Like [`Directory::until`], for the caller's own write. Returns after a timeout too: the write is valid in any case.
    pub(crate) async fn seen(&self, condition: impl Fn(&Self) -> bool) {
        const LIMIT: Duration = Duration::from_secs(5);
        let heard = tokio::time::timeout(LIMIT, self.until(condition)).await;
        if heard.is_err() {
            tracing::warn!("what was written has not been heard of after {LIMIT:?}");
        }
    }

    /// Resolves when the actor's credential becomes invalid or the actor loses a role.
    pub fn until_revoked(&self, actor: &Actor) -> impl Future<Output = ()> + Send + 'static {
        revoked::until_revoked(self.shared.clone(), actor.clone(), revoked::REVIEW)
    }
}

impl Shared {
    /// Applies the initial list of a watch, then its changes until the watch ends.
    async fn fed_by<K: Send + Sync + 'static>(
        self: Arc<Self>,
        name: &'static str,
        feed: &Feed<K>,
        enter: fn(&mut Index, &Change<K>),
    ) -> TaskHandle {
        feed.synced().await;
        let changes = feed.changes();
        {
            let mut index = self.index.write();
            feed.all().into_iter().for_each(|object| enter(&mut index, &Change::Applied(object)));
        }
        // One subscription for all restarts: no deletion is missed.
        let changes = Arc::new(Mutex::new(changes));
        runtime().spawn("directory", name, move || self.clone().go_on(changes.clone(), enter))
    }

    /// Applies the changes of a watch until it ends.
    async fn go_on<K>(self: Arc<Self>, changes: Arc<Mutex<Changes<K>>>, enter: fn(&mut Index, &Change<K>)) {
        let mut changes = changes.lock().await;
        while let Some(change) = changes.next().await {
            // One object that cannot be applied must not block the others.
            if let Err(error) = isolate_sync(|| enter(&mut self.index.write(), &change)) {
                tracing::error!(%error, "an object cannot be entered into the directory");
            }
            self.changed.send_replace(());
        }
    }

    fn actor(&self, id: &UserId, via: Via) -> Option<Actor> {
        let now = self.clock.now();
        let index = self.index.read();
        let account = index.account(id).filter(|account| account.is_open(now))?;
        Some(Actor {
            who: Who::Person {
                id: account.id.clone(),
                account: account.name.clone(),
                uid: account.uid.clone(),
            },
            platform: account.platform.clone(),
            memberships: index.memberships(id),
            via,
        })
    }
}
