//! Queries of the index.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube_types::workspace::{Member, OwnedNamespace};
use kube_types::{User, UserSpec, UserStatus, Workspace, WorkspaceSpec, WorkspaceStatus, well_known};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::tokens::mint_login;

fn id(number: u8) -> UserId {
    UserId::from_random([number; 10])
}

/// A User with its id in the status, created at that second.
fn user(name: &str, number: u8, email: &str, made: i64) -> User {
    let mut user = User::new(name, UserSpec { email: email.to_owned(), ..UserSpec::default() });
    user.metadata.creation_timestamp = Some(Time(Timestamp::from_second(made).unwrap()));
    user.status = Some(UserStatus { tenant_id: id(number).to_string(), ..UserStatus::default() });
    user
}

fn workspace(name: &str, members: &[(u8, &str)], namespaces: &[&str]) -> Arc<WorkspaceRecord> {
    let member =
        |(number, role): &(u8, &str)| Member { user: id(*number).to_string(), role: (*role).to_owned() };
    let members = members.iter().map(member).collect();
    let mut workspace = Workspace::new(name, WorkspaceSpec { members, ..WorkspaceSpec::default() });
    let owned = |name: &&str| OwnedNamespace {
        name: (*name).to_owned(),
        uid: String::new(),
        cluster: "host".to_owned(),
        ..OwnedNamespace::default()
    };
    let namespaces = namespaces.iter().map(owned).collect();
    workspace.status = Some(WorkspaceStatus { namespaces, ..WorkspaceStatus::default() });
    Arc::new(WorkspaceRecord::from_workspace(&workspace))
}

fn name_of(account: Option<&Arc<Account>>) -> Option<&str> {
    account.map(|account| account.name.as_str())
}

#[test]
fn index_finds_account_by_current_names_only() {
    let mut index = Index::default();
    let mut ana = user("user-18300000000", 1, "Ana@example.com", 1);
    ana.spec.mobilephone = "+183 0000 0000".to_owned();
    ana.labels_mut().insert(well_known::LOGIN.to_owned(), "admin".to_owned());
    index.user_applied(&UserEntry::from_user(&ana));
    for login in ["ana@example.com", "18300000000", "user-18300000000", "admin", id(1).as_str()] {
        assert_eq!(name_of(index.find_by_login(login)), Some("user-18300000000"), "{login}");
    }
    ana.spec.email = "ana@example.org".to_owned();
    index.user_applied(&UserEntry::from_user(&ana));
    assert_eq!(name_of(index.find_by_login("ana@example.com")), None);
    assert_eq!(name_of(index.find_by_login("ana@example.org")), Some("user-18300000000"));
    index.user_deleted("user-18300000000");
    assert!(
        index.accounts.is_empty()
            && index.accounts_by_id.0.is_empty()
            && index.accounts_by_login.0.is_empty()
    );
}

#[test]
fn index_gives_contested_login_name_to_the_older_account() {
    let mut index = Index::default();
    index.user_applied(&UserEntry::from_user(&user("late", 1, "ana@example.com", 20)));
    index.user_applied(&UserEntry::from_user(&user("early", 2, "ana@example.com", 10)));
    assert_eq!(name_of(index.find_by_login("ana@example.com")), Some("early"));
    index.user_deleted("early");
    assert_eq!(name_of(index.find_by_login("ana@example.com")), Some("late"));

    // An annotation does not take over an assigned id.
    let mut thief = user("thief", 0, "", 1);
    thief.status = None;
    thief.annotations_mut().insert(well_known::TENANT_ID.to_owned(), id(1).to_string());
    index.user_applied(&UserEntry::from_user(&thief));
    assert_eq!(name_of(index.account(&id(1))), Some("late"));
}

#[test]
fn index_ignores_users_without_id_and_unknown_roles() {
    let mut index = Index::default();
    let mut nobody = user("nobody", 1, "a@example.com", 1);
    nobody.status.as_mut().unwrap().tenant_id = "kube-system".to_owned();
    index.user_applied(&UserEntry::from_user(&nobody));
    assert_eq!(name_of(index.find_by_login("a@example.com")), None);
    let mut odd = user("odd", 2, "", 1);
    odd.spec.platform_roles = vec!["root".to_owned(), "cluster-admin".to_owned(), "Admin".to_owned()];
    index.user_applied(&UserEntry::from_user(&odd));
    assert!(index.account(&id(2)).unwrap().platform_roles.is_empty());
    assert_eq!(name_of(index.find_by_login("")), None, "an empty address is no name");
    index.workspace_applied(&workspace("acme", &[(2, "owner")], &[]));
    assert!(index.memberships(&id(2)).is_empty());
}

#[test]
fn index_updates_memberships_and_namespaces_with_the_workspace() {
    let mut index = Index::default();
    index.workspace_applied(&workspace("acme", &[(1, "admin"), (2, "viewer")], &["acme", "acme-test"]));
    index.workspace_applied(&workspace("team", &[(1, "developer")], &["team"]));
    let of = |index: &Index, number| {
        let memberships = index.memberships(&id(number));
        memberships
            .iter()
            .map(|(workspace, role)| format!("{workspace} {role}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(
        (of(&index, 1), of(&index, 2)),
        ("acme admin, team developer".to_owned(), "acme viewer".to_owned())
    );
    assert_eq!(index.workspace_of("acme-test").unwrap().as_str(), "acme");
    index.workspace_applied(&workspace("acme", &[(2, "operator")], &["acme"]));
    assert_eq!((of(&index, 1), of(&index, 2)), ("team developer".to_owned(), "acme operator".to_owned()));
    assert_eq!(index.workspace_of("acme-test"), None);
    index.workspace_deleted("acme");
    assert_eq!((of(&index, 2), index.workspace_of("acme")), (String::new(), None));
}

#[test]
fn index_gives_contested_namespace_to_the_oldest_workspace() {
    let at = |second, name, namespaces: &[&str]| {
        let created = Timestamp::from_second(second).unwrap();
        Arc::new(WorkspaceRecord { created, ..(*workspace(name, &[], namespaces)).clone() })
    };
    let (owner, later) = (at(1, "team", &["team"]), at(2, "acme", &["acme", "team"]));
    for order in [[&owner, &later], [&later, &owner]] {
        let mut index = Index::default();
        for workspace in order {
            index.workspace_applied(workspace);
        }
        assert_eq!(index.workspace_of("team").unwrap().as_str(), "team");
        index.workspace_deleted("acme");
        assert_eq!(index.workspace_of("team").unwrap().as_str(), "team");
        index.workspace_deleted("team");
        assert!(index.namespaces.is_empty());
    }
}

#[test]
fn index_ignores_secrets_of_other_types() {
    let mut index = Index::default();
    let (_, token) = mint_login(&id(1), Timestamp::UNIX_EPOCH);
    let credentials = Credentials::new(None, Timestamp::UNIX_EPOCH).to_secret(&id(1));
    for secret in [token.to_secret(), credentials] {
        let foreign = Secret { type_: Some("Opaque".to_owned()), ..secret.clone() };
        index.secret_applied(&UserSecret::from_secret(&foreign));
        assert!(index.token(&token.id).is_none() && index.credentials(&id(1)).is_none());
        index.secret_applied(&UserSecret::from_secret(&secret));
        assert!(index.token(&token.id).is_some() || index.credentials(&id(1)).is_some());
        index.secret_deleted(&UserSecret::from_secret(&secret));
    }
    assert!(index.tokens.is_empty() && index.tokens_of.is_empty() && index.credentials.is_empty());
}

/// The results of all queries, as text.
fn describe(index: &Index) -> String {
    let mut lines = Vec::new();
    for number in 0..4 {
        let tokens: Vec<_> = index.tokens_of(&id(number)).map(|token| token.id.to_string()).collect();
        let account = name_of(index.account(&id(number)));
        let epoch = index.credentials(&id(number)).map(|credentials| credentials.epoch);
        lines
            .push(format!("{number}: {account:?} {:?} {tokens:?} {epoch:?}", index.memberships(&id(number))));
    }
    for login in ["a@example.com", "b@example.com", "user-0", "user-1", "user-2"] {
        lines.push(format!("{login}: {:?}", name_of(index.find_by_login(login))));
    }
    for namespace in ["acme", "team", "acme-test"] {
        lines.push(format!("{namespace}: {:?}", index.workspace_of(namespace)));
    }
    lines.join("\n")
}

#[derive(Clone, Debug)]
enum IndexEvent {
    User(u8, u8, bool, i64),
    UserDeleted(u8),
    Workspace(bool, Vec<(u8, bool)>, bool),
    WorkspaceDeleted(bool),
    Credentials(u8, i64),
    CredentialsDeleted(u8),
}

fn step() -> impl Strategy<Value = IndexEvent> {
    prop_oneof![
        (0..3_u8, 0..4_u8, any::<bool>(), 0..3_i64)
            .prop_map(|(name, id, email, made)| IndexEvent::User(name, id, email, made)),
        (0..3_u8).prop_map(IndexEvent::UserDeleted),
        (any::<bool>(), vec((0..4_u8, any::<bool>()), 0..3), any::<bool>())
            .prop_map(|(name, members, more)| IndexEvent::Workspace(name, members, more)),
        any::<bool>().prop_map(IndexEvent::WorkspaceDeleted),
        (0..4_u8, 1..9_i64).prop_map(|(user, epoch)| IndexEvent::Credentials(user, epoch)),
        (0..4_u8).prop_map(IndexEvent::CredentialsDeleted),
    ]
}

proptest! {
    /// The result does not depend on the order of events.
    #[test]
    fn the_index_is_that_of_the_objects_that_there_are(steps in vec(step(), 0..40)) {
        let mut index = Index::default();
        let (mut users, mut workspaces, mut secrets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for step in steps {
            match step {
                IndexEvent::User(name, number, email, made) => {
                    let email = if email { "a@example.com" } else { "b@example.com" };
                    let object = user(&format!("user-{name}"), number, email, made);
                    index.user_applied(&UserEntry::from_user(&object));
                    users.insert(name, object);
                }
                IndexEvent::UserDeleted(name) => {
                    index.user_deleted(&format!("user-{name}"));
                    users.remove(&name);
                }
                IndexEvent::Workspace(name, members, more) => {
                    let name = if name { "acme" } else { "team" };
                    let members: Vec<_> =
                        members.iter().map(|(user, admin)| (*user, if *admin { "admin" } else { "viewer" })).collect();
                    let namespaces = if more && name == "acme" { vec![name, "acme-test"] } else { vec![name] };
                    let object = workspace(name, &members, &namespaces);
                    index.workspace_applied(&object);
                    workspaces.insert(name, object);
                }
                IndexEvent::WorkspaceDeleted(name) => {
                    let name = if name { "acme" } else { "team" };
                    index.workspace_deleted(name);
                    workspaces.remove(name);
                }
                IndexEvent::Credentials(user, epoch) => {
                    let object = Credentials::new(None, Timestamp::from_second(epoch).unwrap()).to_secret(&id(user));
                    index.secret_applied(&UserSecret::from_secret(&object));
                    secrets.insert(user, object);
                }
                IndexEvent::CredentialsDeleted(user) => {
                    if let Some(object) = secrets.remove(&user) {
                        index.secret_deleted(&UserSecret::from_secret(&object));
                    }
                }
            }
        }
        let mut afresh = Index::default();
        for user in users.values() {
            afresh.user_applied(&UserEntry::from_user(user));
        }
        for workspace in workspaces.values() {
            afresh.workspace_applied(workspace);
        }
        for secret in secrets.values() {
            afresh.secret_applied(&UserSecret::from_secret(secret));
        }
        prop_assert_eq!(describe(&index), describe(&afresh));
    }
}
