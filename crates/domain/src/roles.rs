//! Who may do what: one table for code, documents, tests and the console.
//!
//! A platform role counts everywhere, a workspace role in its workspace. What a role means to the platform's own acts is a
//! row of [`TABLE`]; what it means inside a namespace is a row of [`KUBERNETES`], which becomes a ClusterRole
//! `longshore-ws-<role>`.
//!
//! Always true: whoever may do something in a workspace may also see it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use Area::*;
use Capability::*;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no role `{}`", crate::ids::shortened(.0))]
pub struct UnknownRole(pub String);

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$word_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownRole;

            fn from_str(text: &str) -> Result<Self, UnknownRole> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
            }
        }
    };
}

words! {
    /// Of the whole platform.
    PlatformRole {
        Admin = "admin",
        ReviewerBusiness = "reviewer-business",
        ReviewerTechnical = "reviewer-technical",
    }
}

words! {
    /// In one workspace.
    WorkspaceRole {
        /// Decides who belongs to it.
        Admin = "admin",
        /// Publishes what its developers make.
        Isv = "isv",
        /// Makes applications.
        Developer = "developer",
        /// Runs them.
        Operator = "operator",
        /// Looks.
        Viewer = "viewer",
    }
}

words! {
    /// What belongs together when a token is to be good for one thing only.
    Area {
        Tenancy = "tenancy",
        Releases = "releases",
        Store = "store",
        Hosts = "hosts",
        Nodes = "nodes",
        Platform = "platform",
    }
}

words! {
    /// Something that not everybody may do.
    Capability {
        ReadUsers = "users.read",
        ManageUsers = "users.manage",
        ReadWorkspace = "workspace.read",
        ManageMembers = "workspace.members",
        ManageNamespaces = "workspace.namespaces",
        DeleteWorkspace = "workspace.delete",
        SetQuota = "workspace.quota",
        ReadReleases = "releases.read",
        ChangeReleases = "releases.change",
        ReadStore = "store.read",
        Publish = "store.publish",
        ReviewAsVendor = "store.review.vendor",
        ReviewBusiness = "store.review.business",
        ReviewTechnical = "store.review.technical",
        Suspend = "store.suspend",
        WriteRepositories = "store.repositories",
        ReadHosts = "hosts.read",
        ManageHosts = "hosts.manage",
        ReadNodes = "nodes.read",
        ManageNodes = "nodes.manage",
        ReadAudit = "audit.read",
        Configure = "platform.configure",
    }
}

/// A row: what, of which area, whether it only looks, which platform roles have it everywhere, and which workspace roles
/// have it in their workspace. The letters are a role's first, in the order of the role's list: `abt` and `aidov`.
pub type Row = (Capability, Area, bool, &'static str, &'static str);

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    //                             looks  abt    aidov
    (ReadUsers,         Tenancy,   true,  "a--", "-----"),
    (ManageUsers,       Tenancy,   false, "a--", "-----"),
    (ReadWorkspace,     Tenancy,   true,  "a--", "aidov"),
    (ManageMembers,     Tenancy,   false, "a--", "a----"),
    (ManageNamespaces,  Tenancy,   false, "a--", "a----"),
    (DeleteWorkspace,   Tenancy,   false, "a--", "a----"),
    (SetQuota,          Tenancy,   false, "a--", "-----"),
    (ReadReleases,      Releases,  true,  "a--", "aidov"),
    (ChangeReleases,    Releases,  false, "a--", "aido-"),
    (ReadStore,         Store,     true,  "abt", "aidov"),
    (Publish,           Store,     false, "a--", "aid--"),
    (ReviewAsVendor,    Store,     false, "---", "-i---"),
    (ReviewBusiness,    Store,     false, "ab-", "-----"),
    (ReviewTechnical,   Store,     false, "a-t", "-----"),
    (Suspend,           Store,     false, "a--", "-----"),
    (WriteRepositories, Store,     false, "a--", "a----"),
    (ReadHosts,         Hosts,     true,  "a--", "a--ov"),
    (ManageHosts,       Hosts,     false, "a--", "a--o-"),
    (ReadNodes,         Nodes,     true,  "a--", "a--ov"),
    (ManageNodes,       Nodes,     false, "a--", "a--o-"),
    (ReadAudit,         Platform,  true,  "a--", "a----"),
    (Configure,         Platform,  false, "a--", "-----"),
];

fn marked(letters: &str, place: usize) -> bool {
    letters.as_bytes().get(place).is_some_and(|letter| *letter != b'-')
}

impl Capability {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).expect("every capability has a row")
    }

    pub fn area(self) -> Area {
        self.row().1
    }

    /// Whether it changes nothing.
    pub fn looks(self) -> bool {
        self.row().2
    }
}

impl PlatformRole {
    /// Everywhere.
    pub fn may(self, what: Capability) -> bool {
        marked(what.row().3, self as usize)
    }
}

impl WorkspaceRole {
    /// In the workspace that the role is of.
    pub fn may(self, what: Capability) -> bool {
        marked(what.row().4, self as usize)
    }

    /// The ClusterRole that it is in each namespace of the workspace.
    pub fn cluster_role(self) -> String {
        format!("longshore-ws-{self}")
    }
}

/// What roles may do inside a workspace's namespaces, in Kubernetes' words: for whom (letters as above), API group,
/// resources, verbs.
pub type KubernetesRow = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];
const WORKLOADS: &[&str] = &["daemonsets", "deployments", "replicasets", "statefulsets"];

/// The four who work there have the same rights, because each of them can start a pod as any ServiceAccount of the
/// namespace: what differs between them is what the platform does for them ([`TABLE`]). None can touch quotas, limits or the
/// namespace; Kubernetes itself lets nobody give away a right that they do not have.
#[rustfmt::skip]
pub const KUBERNETES: &[KubernetesRow] = &[
    ("aidov", "",                          &["configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods", "pods/log", "pods/status",
                                             "replicationcontrollers", "resourcequotas", "resourcequotas/status", "serviceaccounts", "services", "services/status"], READ),
    ("aidov", "",                          &["namespaces"],                                                     &["get"]),
    ("aido-", "",                          &["secrets"],                                                        READ),
    ("aido-", "",                          &["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "replicationcontrollers/scale", "secrets",
                                             "serviceaccounts", "services"],                                    WRITE),
    ("aido-", "",                          &["pods/attach", "pods/ephemeralcontainers", "pods/exec", "pods/portforward"], &["get", "create", "update", "patch"]),
    ("aido-", "",                          &["pods/eviction", "serviceaccounts/token"],                         &["create"]),
    ("aido-", "",                          &["events"],                                                         &["create", "patch", "update"]),
    ("aidov", "apps",                      WORKLOADS,                                                           READ),
    ("aidov", "apps",                      &["controllerrevisions", "deployments/scale", "deployments/status", "statefulsets/scale", "statefulsets/status"], READ),
    ("aido-", "apps",                      WORKLOADS,                                                           WRITE),
    ("aido-", "apps",                      &["deployments/scale", "replicasets/scale", "statefulsets/scale"],   &["update", "patch"]),
    ("aidov", "batch",                     &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],             READ),
    ("aido-", "batch",                     &["cronjobs", "jobs"],                                               WRITE),
    ("aidov", "autoscaling",               &["horizontalpodautoscalers"],                                       READ),
    ("aido-", "autoscaling",               &["horizontalpodautoscalers"],                                       WRITE),
    ("aidov", "policy",                    &["poddisruptionbudgets"],                                           READ),
    ("aido-", "policy",                    &["poddisruptionbudgets"],                                           WRITE),
    ("aidov", "networking.k8s.io",         &["ingresses", "networkpolicies"],                                   READ),
    ("aido-", "networking.k8s.io",         &["ingresses", "networkpolicies"],                                   WRITE),
    ("aidov", "discovery.k8s.io",          &["endpointslices"],                                                 READ),
    ("aidov", "events.k8s.io",             &["events"],                                                         READ),
    ("aido-", "events.k8s.io",             &["events"],                                                         &["create", "patch", "update"]),
    ("aidov", "coordination.k8s.io",       &["leases"],                                                         READ),
    ("aido-", "coordination.k8s.io",       &["leases"],                                                         WRITE),
    ("aidov", "rbac.authorization.k8s.io", &["rolebindings", "roles"],                                          READ),
    ("aido-", "rbac.authorization.k8s.io", &["rolebindings", "roles"],                                          WRITE),
    ("aidov", "longshore.dev",             &["helmreleases", "helmreleases/status"],                            READ),
    ("aido-", "longshore.dev",             &["helmreleases"],                                                   WRITE),
    ("aidov", "metrics.k8s.io",            &["pods"],                                                           READ),
];

impl WorkspaceRole {
    /// The rows of [`KUBERNETES`] that this role has.
    pub fn kubernetes(self) -> impl Iterator<Item = &'static KubernetesRow> {
        KUBERNETES.iter().filter(move |row| marked(row.0, self as usize))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn every_capability_and_every_role() {
        let mut picture = String::new();
        for what in Capability::ALL {
            let platform = PlatformRole::ALL.iter().filter(|role| role.may(*what)).map(|role| role.as_str());
            let workspace =
                WorkspaceRole::ALL.iter().filter(|role| role.may(*what)).map(|role| role.as_str());
            let list =
                |roles: Vec<&str>| if roles.is_empty() { "nobody".to_owned() } else { roles.join(", ") };
            let (platform, workspace) = (list(platform.collect()), list(workspace.collect()));
            writeln!(picture, "{what}: platform {platform}; workspace {workspace}").unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    /// What `docs/tenants.md` shows.
    fn markdown() -> String {
        let mut table = String::from("\n| |");
        for role in PlatformRole::ALL {
            write!(table, " platform {role} |").unwrap();
        }
        for role in WorkspaceRole::ALL {
            write!(table, " {role} |").unwrap();
        }
        writeln!(table, "\n|---|{}", "---|".repeat(PlatformRole::ALL.len() + WorkspaceRole::ALL.len()))
            .unwrap();
        for what in Capability::ALL {
            let platform = PlatformRole::ALL.iter().map(|role| role.may(*what));
            let workspace = WorkspaceRole::ALL.iter().map(|role| role.may(*what));
            let marks: String =
                platform.chain(workspace).map(|may| if may { " × |" } else { " |" }).collect();
            writeln!(table, "| `{what}` |{marks}").unwrap();
        }
        table + "\n"
    }

    #[test]
    fn the_documentation_shows_this_table() {
        let page = include_str!("../../../docs/tenants.md");
        let shown = page.split("<!-- roles -->").nth(1).and_then(|rest| rest.split("<!-- /roles -->").next());
        assert_eq!(shown, Some(markdown().as_str()), "docs/tenants.md shows another table");
    }

    #[test]
    fn every_role_inside_a_namespace() {
        let mut picture = String::new();
        for role in WorkspaceRole::ALL {
            writeln!(picture, "{}", role.cluster_role()).unwrap();
            for (_, group, resources, verbs) in role.kubernetes() {
                writeln!(picture, "  {group:25} {}: {}", resources.join(" "), verbs.join(" ")).unwrap();
            }
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn no_capability_has_two_rows_and_letters_stand_in_their_place() {
        assert_eq!(TABLE.len(), Capability::ALL.len());
        for (place, (what, _, _, platform, workspace)) in TABLE.iter().enumerate() {
            assert_eq!(TABLE.iter().position(|row| row.0 == *what), Some(place), "{what}");
            for (letters, all) in [(platform, "abt"), (workspace, "aidov")] {
                assert_eq!(letters.len(), all.len(), "{what}");
                assert!(
                    letters.chars().zip(all.chars()).all(|(is, own)| is == '-' || is == own),
                    "{what} {letters}"
                );
            }
        }
        for (letters, ..) in KUBERNETES {
            assert!(
                letters.chars().zip("aidov".chars()).all(|(is, own)| is == '-' || is == own),
                "{letters}"
            );
        }
    }

    #[test]
    fn whoever_may_act_in_a_workspace_may_see_it() {
        for role in WorkspaceRole::ALL {
            assert!(role.may(ReadWorkspace), "{role}");
        }
    }

    #[test]
    fn nobody_has_verbs_that_give_more_than_they_say() {
        let dangerous = ["impersonate", "bind", "escalate", "*"];
        for (_, group, resources, verbs) in KUBERNETES {
            assert!(!verbs.iter().any(|verb| dangerous.contains(verb)), "{group} {resources:?}");
            assert!(!resources.contains(&"*") && *group != "*");
        }
    }
}
