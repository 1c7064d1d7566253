//! Who there is: answers from memory, kept up to date by watches.
//!
//! Every request asks it, so that nothing here waits for the cluster. What it says may be as old as [`Directory::stale_for`]
//! tells; while the watches stand, that is milliseconds.
//!
//! Always true: somebody whose account is disabled, expired, being removed or gone is no actor.
//! Elsewhere: what a role may do (`domain::roles`), how somebody proves who they are (`crate::authenticate`).

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

/// Who there is. Clones are the same directory.
#[derive(Clone)]
pub struct Directory {
    shared: Arc<Shared>,
    feeds: Feeds,
    _tasks: Arc<[TaskHandle; 3]>,
}

/// What the directory is fed by.
#[derive(Clone)]
pub(crate) struct Feeds {
    pub users: Feed<Person>,
    pub workspaces: Feed<WorkspaceRecord>,
    /// Of people: credentials and tokens.
    pub secrets: Feed<Held>,
}

impl Feeds {
    /// `quota` is what a workspace may use unless somebody decided otherwise.
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

struct Shared {
    index: RwLock<Index>,
    /// Moves with every change.
    changed: watch::Sender<()>,
    clock: Arc<dyn Clock>,
}

impl Directory {
    /// Waits until all that there is has been heard, and follows it from there.
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

    /// By e-mail address, phone number, the object's name, id, or the administrator's login name.
    pub fn by_login(&self, login: &str) -> Option<Arc<Account>> {
        self.shared.index.read().by_login(&account::normal(login)).cloned()
    }

    /// By the name of the object.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut accounts: Vec<_> = self.shared.index.read().accounts().cloned().collect();
        accounts.sort_by(|one, other| one.name.cmp(&other.name));
        accounts
    }

    /// The person as they may act now.
    pub fn actor(&self, id: &UserId, via: Via) -> Option<Actor> {
        self.shared.actor(id, via)
    }

    pub fn workspace(&self, name: &WorkspaceName) -> Option<Arc<WorkspaceRecord>> {
        self.shared.index.read().workspace(name).cloned()
    }

    /// By name.
    pub fn workspaces(&self) -> Vec<Arc<WorkspaceRecord>> {
        self.shared.index.read().workspaces().cloned().collect()
    }

    pub fn memberships(&self, id: &UserId) -> BTreeMap<WorkspaceName, WorkspaceRole> {
        self.shared.index.read().memberships(id)
    }

    /// The workspace whose namespace this is, as recorded when it was made.
    pub fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
        self.shared.index.read().workspace_of(namespace).cloned()
    }

    /// The account whose budgets a workspace uses: its creator, who may have several workspaces. None for workspaces that platform
    /// administrators created; each of these has budgets of its own.
    pub fn account_of(&self, workspace: &WorkspaceName) -> Option<UserId> {
        let index = self.shared.index.read();
        index.account_of(index.workspace(workspace)?)
    }

    /// The same for a workspace that was read just now.
    pub(crate) fn account_of_object(&self, workspace: &Workspace) -> Option<UserId> {
        self.shared.index.read().account_of(&WorkspaceRecord::of(workspace))
    }

    pub fn token(&self, id: &TokenId) -> Option<Arc<TokenRecord>> {
        self.shared.index.read().token(id).cloned()
    }

    pub(crate) fn tokens(&self) -> Vec<Arc<TokenRecord>> {
        self.shared.index.read().tokens().cloned().collect()
    }

    /// The newest first.
    pub fn tokens_of(&self, id: &UserId) -> Vec<Arc<TokenRecord>> {
        let mut tokens: Vec<_> = self.shared.index.read().tokens_of(id).cloned().collect();
        tokens.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
        tokens
    }

    pub fn epoch(&self, id: &UserId) -> Option<u64> {
        self.shared.index.read().credentials(id).map(|credentials| credentials.epoch)
    }

    pub(crate) fn credentials(&self, id: &UserId) -> Option<Arc<Credentials>> {
        self.shared.index.read().credentials(id).cloned()
    }

    /// For how long nothing has been heard of the cluster; nothing while all watches stand.
    pub fn stale_for(&self) -> Option<Duration> {
        let Feeds { users, workspaces, secrets } = &self.feeds;
        [users.stale_for(), workspaces.stale_for(), secrets.stale_for()].into_iter().flatten().max()
    }

    pub(crate) fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Resolves when the directory has come to fulfil `condition`: for whoever wrote something and goes on with it, or
    /// waits for what others will do. Without an end of its own.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !condition(self) {
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }

    /// As [`Directory::until`], for something that was written just now: it is good whether or not we hear of it soon.
    pub(crate) async fn seen(&self, condition: impl Fn(&Self) -> bool) {
        const LIMIT: Duration = Duration::from_secs(5);
        let heard = tokio::time::timeout(LIMIT, self.until(condition)).await;
        if heard.is_err() {
            tracing::warn!("what was written has not been heard of after {LIMIT:?}");
        }
    }

    /// Resolves when what the actor was recognised by is no longer good, or when they have lost a role that they had.
    pub fn until_revoked(&self, actor: &Actor) -> impl Future<Output = ()> + Send + 'static {
        revoked::until_revoked(self.shared.clone(), actor.clone(), revoked::REVIEW)
    }
}

impl Shared {
    /// Enters all that a feed has heard, and goes on with what it hears for as long as there is the feed.
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

    async fn go_on<K>(self: Arc<Self>, changes: Arc<Mutex<Changes<K>>>, enter: fn(&mut Index, &Change<K>)) {
        let mut changes = changes.lock().await;
        while let Some(change) = changes.next().await {
            // One object that cannot be entered must not keep the others out.
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
