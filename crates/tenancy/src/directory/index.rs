//! The index of accounts, workspaces and credentials by every key. Pure: no I/O, no clock.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use domain::ids::{TokenId, UserId, WorkspaceName};
use domain::roles::{PlatformRole, WorkspaceRole};
use jiff::Timestamp;

use super::account::{Account, UserEntry};
use super::user_secret::{UserSecret, UserSecretKind};
use super::workspace::WorkspaceRecord;
use crate::credential_store::Credentials;
use crate::tokens::TokenRecord;

/// Accounts, workspaces, credentials and tokens by their keys.
#[derive(Default)]
pub(super) struct Index {
    /// By object name.
    accounts: HashMap<String, Arc<Account>>,
    accounts_by_id: KeyClaims<UserId>,
    /// By the other login names.
    accounts_by_login: KeyClaims<String>,
    workspaces: BTreeMap<WorkspaceName, Arc<WorkspaceRecord>>,
    memberships: HashMap<UserId, Vec<(WorkspaceName, WorkspaceRole)>>,
    /// The workspaces whose status names a namespace, oldest first. The oldest one owns it.
    namespaces: HashMap<Box<str>, Vec<(Timestamp, WorkspaceName)>>,
    credentials: HashMap<UserId, Arc<Credentials>>,
    tokens: HashMap<TokenId, Arc<TokenRecord>>,
    tokens_of: HashMap<UserId, Vec<TokenId>>,
}

/// The accounts that claim a key. The first by [`Account::precedence`] owns it.
struct KeyClaims<K>(HashMap<K, Vec<Arc<Account>>>);

impl<K> Default for KeyClaims<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> KeyClaims<K> {
    fn add(&mut self, key: K, account: &Arc<Account>) {
        // A second claim is rare.
        let claims = self.0.entry(key).or_insert_with(|| Vec::with_capacity(1));
        claims.push(account.clone());
        claims.sort_by(|one, other| one.precedence().cmp(&other.precedence()));
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
    pub fn user_applied(&mut self, person: &UserEntry) {
        self.user_deleted(&person.name);
        if let Some(account) = &person.account {
            self.accounts_by_id.add(account.id.clone(), account);
            for login in account.custom_login_names() {
                self.accounts_by_login.add(login, account);
            }
            self.accounts.insert(account.name.clone(), account.clone());
        }
    }

    pub fn user_deleted(&mut self, name: &str) {
        if let Some(account) = self.accounts.remove(name) {
            self.accounts_by_id.remove(&account.id, &account);
            for login in account.custom_login_names() {
                self.accounts_by_login.remove(&login, &account);
            }
        }
    }

    pub fn workspace_applied(&mut self, workspace: &Arc<WorkspaceRecord>) {
        self.workspace_deleted(&workspace.name);
        let Ok(name) = workspace.name.parse::<WorkspaceName>() else { return };
        for (user, role) in &workspace.members {
            if let Some(role) = role {
                let of = self.memberships.entry(user.clone()).or_insert_with(|| Vec::with_capacity(1));
                of.push((name.clone(), *role));
            }
        }
        for namespace in &workspace.created_namespaces {
            let claims = self.namespaces.entry(namespace.clone()).or_insert_with(|| Vec::with_capacity(1));
            claims.push((workspace.created, name.clone()));
            claims.sort();
        }
        self.workspaces.insert(name, workspace.clone());
    }

    pub fn workspace_deleted(&mut self, name: &str) {
        let Ok(name) = name.parse::<WorkspaceName>() else { return };
        let Some(workspace) = self.workspaces.remove(&name) else { return };
        for (user, _) in &workspace.members {
            if let Some(memberships) = self.memberships.get_mut(user) {
                memberships.retain(|(of, _)| *of != name);
                if memberships.is_empty() {
                    self.memberships.remove(user);
                }
            }
        }
        for namespace in &workspace.created_namespaces {
            if let Some(claims) = self.namespaces.get_mut(namespace) {
                claims.retain(|(_, of)| *of != name);
                if claims.is_empty() {
                    self.namespaces.remove(namespace);
                }
            }
        }
    }

    pub fn secret_applied(&mut self, held: &UserSecret) {
        self.secret_deleted(held);
        match &held.kind {
            UserSecretKind::Credentials(user, Some(credentials)) => {
                self.credentials.insert(user.clone(), credentials.clone());
            }
            UserSecretKind::Token(id, Some(token)) => {
                self.tokens_of
                    .entry(token.owner.clone())
                    .or_insert_with(|| Vec::with_capacity(1))
                    .push(id.clone());
                self.tokens.insert(id.clone(), token.clone());
            }
            UserSecretKind::Credentials(_, None) | UserSecretKind::Token(_, None) | UserSecretKind::Other => {
            }
        }
    }

    pub fn secret_deleted(&mut self, held: &UserSecret) {
        match &held.kind {
            UserSecretKind::Credentials(user, _) => {
                self.credentials.remove(user);
            }
            UserSecretKind::Token(id, _) => {
                let Some(token) = self.tokens.remove(id) else { return };
                let Some(of) = self.tokens_of.get_mut(&token.owner) else { return };
                of.retain(|of| of != id);
                if of.is_empty() {
                    self.tokens_of.remove(&token.owner);
                }
            }
            UserSecretKind::Other => {}
        }
    }

    pub fn account(&self, id: &UserId) -> Option<&Arc<Account>> {
        self.accounts_by_id.0.get(id)?.first()
    }

    /// Finds an account by a normalised login name.
    pub fn find_by_login(&self, normal: &str) -> Option<&Arc<Account>> {
        let by_id = normal.parse().ok().and_then(|id| self.account(&id));
        let claimed = self.accounts_by_login.0.get(normal).and_then(|claims| claims.first());
        // A name may be an id, an object name and a login at once: the account with the highest precedence wins.
        let meant = [by_id, self.accounts.get(normal), claimed].into_iter().flatten();
        meant.min_by(|one, other| one.precedence().cmp(&other.precedence()))
    }

    pub fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.values()
    }

    pub fn memberships(&self, id: &UserId) -> BTreeMap<WorkspaceName, WorkspaceRole> {
        self.memberships.get(id).into_iter().flatten().cloned().collect()
    }

    /// The account whose budgets a workspace uses. `None` for workspaces of platform administrators.
    pub fn account_of(&self, workspace: &WorkspaceRecord) -> Option<UserId> {
        let account = workspace.creator.clone().or_else(|| workspace.owner.parse().ok())?;
        let is_admin = self
            .account(&account)
            .is_some_and(|account| account.platform_roles.contains(&PlatformRole::Admin));
        (!is_admin).then_some(account)
    }

    pub fn workspace(&self, name: &WorkspaceName) -> Option<&Arc<WorkspaceRecord>> {
        self.workspaces.get(name)
    }

    pub fn workspaces(&self) -> impl Iterator<Item = &Arc<WorkspaceRecord>> {
        self.workspaces.values()
    }

    /// The workspace that owns a namespace, as recorded in its status. A later workspace whose status names the same namespace does
    /// not take it over.
    pub fn workspace_of(&self, namespace: &str) -> Option<&WorkspaceName> {
        self.namespaces.get(namespace)?.first().map(|(_, workspace)| workspace)
    }

    pub fn credentials(&self, id: &UserId) -> Option<&Arc<Credentials>> {
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

#[cfg(test)]
mod tests;
