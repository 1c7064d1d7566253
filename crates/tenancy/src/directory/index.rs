//! The index itself: who is who, by every name. Pure: it is told what changed, and answers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use domain::ids::{TokenId, UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube_types::{User, Workspace, marks};

use super::account::Account;
use crate::secrets::Credentials;
use crate::tokens::TokenRecord;

#[derive(Default)]
pub(super) struct Index {
    /// By the name of the object.
    accounts: HashMap<String, Arc<Account>>,
    ids: Claims<UserId>,
    logins: Claims<String>,
    workspaces: BTreeMap<WorkspaceName, Arc<Workspace>>,
    memberships: HashMap<UserId, BTreeMap<WorkspaceName, WorkspaceRole>>,
    /// Of which workspace a namespace is.
    namespaces: HashMap<String, WorkspaceName>,
    credentials: HashMap<UserId, Credentials>,
    tokens: HashMap<TokenId, Arc<TokenRecord>>,
    tokens_of: HashMap<UserId, BTreeSet<TokenId>>,
}

/// Who claims a name. Where several do, the first by [`Account::rank`] has it.
struct Claims<K>(HashMap<K, Vec<Arc<Account>>>);

impl<K> Default for Claims<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> Claims<K> {
    fn add(&mut self, key: K, account: &Arc<Account>) {
        let claims = self.0.entry(key).or_default();
        claims.push(account.clone());
        claims.sort_by(|one, other| one.rank().cmp(&other.rank()));
    }

    fn remove(&mut self, key: &K, account: &Account) {
        if let Some(claims) = self.0.get_mut(key) {
            claims.retain(|claim| claim.name != account.name);
            if claims.is_empty() {
                self.0.remove(key);
            }
        }
    }
}

impl Index {
    pub fn user_applied(&mut self, user: &User) {
        self.user_deleted(&user.name_any());
        if let Some(account) = Account::of(user).map(Arc::new) {
            self.ids.add(account.id.clone(), &account);
            for login in account.logins() {
                self.logins.add(login, &account);
            }
            self.accounts.insert(account.name.clone(), account);
        }
    }

    pub fn user_deleted(&mut self, name: &str) {
        if let Some(account) = self.accounts.remove(name) {
            self.ids.remove(&account.id, &account);
            for login in account.logins() {
                self.logins.remove(&login, &account);
            }
        }
    }

    pub fn workspace_applied(&mut self, workspace: &Arc<Workspace>) {
        self.workspace_deleted(&workspace.name_any());
        let Ok(name) = workspace.name_any().parse::<WorkspaceName>() else { return };
        for member in &workspace.spec.members {
            if let (Ok(user), Ok(role)) = (member.user.parse(), member.role.parse()) {
                self.memberships.entry(user).or_default().insert(name.clone(), role);
            }
        }
        for namespace in workspace.status.iter().flat_map(|status| &status.namespaces) {
            self.namespaces.insert(namespace.name.clone(), name.clone());
        }
        self.workspaces.insert(name, workspace.clone());
    }

    pub fn workspace_deleted(&mut self, name: &str) {
        let Ok(name) = name.parse::<WorkspaceName>() else { return };
        let Some(workspace) = self.workspaces.remove(&name) else { return };
        for user in workspace.spec.members.iter().filter_map(|member| member.user.parse().ok()) {
            if let Some(memberships) = self.memberships.get_mut(&user) {
                memberships.remove(&name);
                if memberships.is_empty() {
                    self.memberships.remove(&user);
                }
            }
        }
        self.namespaces.retain(|_, of| *of != name);
    }

    pub fn secret_applied(&mut self, secret: &Secret) {
        self.secret_deleted(secret);
        match secret.type_.as_deref() {
            Some(marks::CREDENTIALS_TYPE) => {
                if let (Some(user), Some(credentials)) =
                    (owner_of_credentials(secret), Credentials::of(secret))
                {
                    self.credentials.insert(user, credentials);
                }
            }
            Some(marks::TOKEN_TYPE) => {
                if let Some(token) = TokenRecord::of(secret) {
                    self.tokens_of.entry(token.owner.clone()).or_default().insert(token.id.clone());
                    self.tokens.insert(token.id.clone(), Arc::new(token));
                }
            }
            _ => {}
        }
    }

    pub fn secret_deleted(&mut self, secret: &Secret) {
        if let Some(user) = owner_of_credentials(secret) {
            self.credentials.remove(&user);
        }
        let token = secret.name_any().strip_prefix("token-").and_then(|id| id.parse::<TokenId>().ok());
        if let Some(token) = token.and_then(|id| self.tokens.remove(&id))
            && let Some(of) = self.tokens_of.get_mut(&token.owner)
        {
            of.remove(&token.id);
            if of.is_empty() {
                self.tokens_of.remove(&token.owner);
            }
        }
    }

    pub fn account(&self, id: &UserId) -> Option<&Arc<Account>> {
        self.ids.0.get(id)?.first()
    }

    pub fn by_login(&self, normal: &str) -> Option<&Arc<Account>> {
        self.logins.0.get(normal)?.first()
    }

    pub fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.values()
    }

    pub fn memberships(&self, id: &UserId) -> BTreeMap<WorkspaceName, WorkspaceRole> {
        self.memberships.get(id).cloned().unwrap_or_default()
    }

    pub fn workspace(&self, name: &WorkspaceName) -> Option<&Arc<Workspace>> {
        self.workspaces.get(name)
    }

    pub fn workspaces(&self) -> impl Iterator<Item = &Arc<Workspace>> {
        self.workspaces.values()
    }

    /// The workspace whose namespace this is, as recorded when it was made.
    pub fn workspace_of(&self, namespace: &str) -> Option<&WorkspaceName> {
        self.namespaces.get(namespace)
    }

    pub fn credentials(&self, id: &UserId) -> Option<&Credentials> {
        self.credentials.get(id)
    }

    pub fn token(&self, id: &TokenId) -> Option<&Arc<TokenRecord>> {
        self.tokens.get(id)
    }

    pub fn tokens(&self) -> impl Iterator<Item = &Arc<TokenRecord>> {
        self.tokens.values()
    }

    pub fn tokens_of(&self, id: &UserId) -> impl Iterator<Item = &Arc<TokenRecord>> {
        self.tokens_of.get(id).into_iter().flatten().filter_map(|token| self.tokens.get(token))
    }
}

/// By its name, which the label repeats for selectors.
fn owner_of_credentials(secret: &Secret) -> Option<UserId> {
    secret.metadata.name.as_deref()?.strip_prefix("credentials-")?.parse().ok()
}

#[cfg(test)]
mod tests;
