//! Roles and capabilities: one table for code, documentation, tests and the console.
//!
//! A platform role applies everywhere, a workspace role in its workspace. [`CAPABILITY_TABLE`] defines the actions of a role on
//! the platform. [`KUBERNETES_RULES`] defines its permissions inside namespaces, which become the ClusterRole
//! `longshore-ws-<role>`.
//!
//! Invariant: a role with any capability in a workspace can also read the workspace.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use Area::*;
use Capability::*;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role `{}`", crate::ids::truncate_for_error(.0))]
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
    /// Role on the whole platform.
    PlatformRole {
        Admin = "admin",
        ReviewerBusiness = "reviewer-business",
        ReviewerTechnical = "reviewer-technical",
    }
}

words! {
    /// Role in one workspace.
    WorkspaceRole {
        /// Manages the members.
        Admin = "admin",
        /// Publishes the developers' applications.
        Isv = "isv",
        /// Develops applications.
        Developer = "developer",
        /// Operates applications.
        Operator = "operator",
        /// Reads only.
        Viewer = "viewer",
    }
}

words! {
    /// Group of capabilities that a token scope can name.
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
    /// A permission checked by the platform.
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

/// Capability, area, whether it is read-only, the platform roles that have it everywhere, and the workspace roles that
/// have it in their workspace. Each letter is a role, in the order of the lists: `abt` and `aidov`.
pub type CapabilityRow = (Capability, Area, bool, &'static str, &'static str);

#[rustfmt::skip]
pub const CAPABILITY_TABLE: &[CapabilityRow] = &[
    //                             read   abt    aidov
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

fn has_letter(letters: &str, place: usize) -> bool {
    letters.as_bytes().get(place).is_some_and(|letter| *letter != b'-')
}

impl Capability {
    fn row(self) -> &'static CapabilityRow {
        CAPABILITY_TABLE.iter().find(|row| row.0 == self).expect("every capability has a row")
    }

    pub fn area(self) -> Area {
        self.row().1
    }

    /// Whether it is read-only.
    pub fn is_read_only(self) -> bool {
        self.row().2
    }
}

impl PlatformRole {
    /// Whether the role has the capability, everywhere.
    pub fn allows(self, what: Capability) -> bool {
        has_letter(what.row().3, self as usize)
    }
}

impl WorkspaceRole {
    /// Whether the role has the capability in its workspace.
    pub fn allows(self, what: Capability) -> bool {
        has_letter(what.row().4, self as usize)
    }

    /// The ClusterRole bound in each namespace of the workspace.
    pub fn cluster_role(self) -> String {
        format!("longshore-ws-{self}")
    }
}

/// Kubernetes permissions inside a workspace's namespaces: roles (letters as above), API group, resources, verbs.
pub type KubernetesRuleRow = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const READ_VERBS: &[&str] = &["get", "list", "watch"];
const WRITE_VERBS: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];
const WORKLOAD_RESOURCES: &[&str] = &["daemonsets", "deployments", "replicasets", "statefulsets"];

/// The four roles that can write have the same permissions, because each of them can start a pod as any ServiceAccount of the
/// namespace. They differ in their capabilities on the platform ([`CAPABILITY_TABLE`]). No role can change quotas, limits or the
/// namespace. Kubernetes prevents privilege escalation: a role cannot grant permissions that it does not have.
#[rustfmt::skip]
pub const KUBERNETES_RULES: &[KubernetesRuleRow] = &[
    ("aidov", "",                          &["configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods", "pods/log", "pods/status",
                                             "replicationcontrollers", "resourcequotas", "resourcequotas/status", "serviceaccounts", "services", "services/status"], READ_VERBS),
    ("aidov", "",                          &["namespaces"],                                                     &["get"]),
    ("aido-", "",                          &["secrets"],                                                        READ_VERBS),
    ("aido-", "",                          &["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "replicationcontrollers/scale", "secrets",
                                             "serviceaccounts", "services"],                                    WRITE_VERBS),
    ("aido-", "",                          &["pods/attach", "pods/ephemeralcontainers", "pods/exec", "pods/portforward"], &["get", "create", "update", "patch"]),
    ("aido-", "",                          &["pods/eviction", "serviceaccounts/token"],                         &["create"]),
    ("aido-", "",                          &["events"],                                                         &["create", "patch", "update"]),
    ("aidov", "apps",                      WORKLOAD_RESOURCES,                                                           READ_VERBS),
    ("aidov", "apps",                      &["controllerrevisions", "deployments/scale", "deployments/status", "statefulsets/scale", "statefulsets/status"], READ_VERBS),
    ("aido-", "apps",                      WORKLOAD_RESOURCES,                                                           WRITE_VERBS),
    ("aido-", "apps",                      &["deployments/scale", "replicasets/scale", "statefulsets/scale"],   &["update", "patch"]),
    ("aidov", "batch",                     &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],             READ_VERBS),
    ("aido-", "batch",                     &["cronjobs", "jobs"],                                               WRITE_VERBS),
    ("aidov", "autoscaling",               &["horizontalpodautoscalers"],                                       READ_VERBS),
    ("aido-", "autoscaling",               &["horizontalpodautoscalers"],                                       WRITE_VERBS),
    ("aidov", "policy",                    &["poddisruptionbudgets"],                                           READ_VERBS),
    ("aido-", "policy",                    &["poddisruptionbudgets"],                                           WRITE_VERBS),
    ("aidov", "networking.k8s.io",         &["ingresses", "networkpolicies"],                                   READ_VERBS),
    ("aido-", "networking.k8s.io",         &["ingresses", "networkpolicies"],                                   WRITE_VERBS),
    ("aidov", "discovery.k8s.io",          &["endpointslices"],                                                 READ_VERBS),
    ("aidov", "events.k8s.io",             &["events"],                                                         READ_VERBS),
    ("aido-", "events.k8s.io",             &["events"],                                                         &["create", "patch", "update"]),
    ("aidov", "coordination.k8s.io",       &["leases"],                                                         READ_VERBS),
    ("aido-", "coordination.k8s.io",       &["leases"],                                                         WRITE_VERBS),
    ("aidov", "rbac.authorization.k8s.io", &["rolebindings", "roles"],                                          READ_VERBS),
    ("aido-", "rbac.authorization.k8s.io", &["rolebindings", "roles"],                                          WRITE_VERBS),
    ("aidov", "longshore.dev",             &["helmreleases", "helmreleases/status"],                            READ_VERBS),
    ("aido-", "longshore.dev",             &["helmreleases"],                                                   WRITE_VERBS),
    ("aidov", "metrics.k8s.io",            &["pods"],                                                           READ_VERBS),
];

impl WorkspaceRole {
    /// Rows of [`KUBERNETES_RULES`] that apply to this role.
    pub fn kubernetes_rules(self) -> impl Iterator<Item = &'static KubernetesRuleRow> {
        KUBERNETES_RULES.iter().filter(move |row| has_letter(row.0, self as usize))
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
            let platform =
                PlatformRole::ALL.iter().filter(|role| role.allows(*what)).map(|role| role.as_str());
            let workspace =
                WorkspaceRole::ALL.iter().filter(|role| role.allows(*what)).map(|role| role.as_str());
            let list =
                |roles: Vec<&str>| if roles.is_empty() { "nobody".to_owned() } else { roles.join(", ") };
            let (platform, workspace) = (list(platform.collect()), list(workspace.collect()));
            writeln!(picture, "{what}: platform {platform}; workspace {workspace}").unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    /// The table in `docs/tenants.md`.
    fn markdown_table() -> String {
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
            let platform = PlatformRole::ALL.iter().map(|role| role.allows(*what));
            let workspace = WorkspaceRole::ALL.iter().map(|role| role.allows(*what));
            let marks: String =
                platform.chain(workspace).map(|may| if may { " × |" } else { " |" }).collect();
            writeln!(table, "| `{what}` |{marks}").unwrap();
        }
        table + "\n"
    }

    #[test]
    fn tenants_doc_shows_the_capability_table() {
        let page = include_str!("../../../docs/tenants.md");
        let shown = page.split("<!-- roles -->").nth(1).and_then(|rest| rest.split("<!-- /roles -->").next());
        assert_eq!(shown, Some(markdown_table().as_str()), "docs/tenants.md shows another table");
    }

    #[test]
    fn every_role_inside_a_namespace() {
        let mut picture = String::new();
        for role in WorkspaceRole::ALL {
            writeln!(picture, "{}", role.cluster_role()).unwrap();
            for (_, group, resources, verbs) in role.kubernetes_rules() {
                writeln!(picture, "  {group:25} {}: {}", resources.join(" "), verbs.join(" ")).unwrap();
            }
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn capability_table_has_one_row_per_capability_and_letters_in_order() {
        assert_eq!(CAPABILITY_TABLE.len(), Capability::ALL.len());
        for (place, (what, _, _, platform, workspace)) in CAPABILITY_TABLE.iter().enumerate() {
            assert_eq!(CAPABILITY_TABLE.iter().position(|row| row.0 == *what), Some(place), "{what}");
            for (letters, all) in [(platform, "abt"), (workspace, "aidov")] {
                assert_eq!(letters.len(), all.len(), "{what}");
                assert!(
                    letters.chars().zip(all.chars()).all(|(is, own)| is == '-' || is == own),
                    "{what} {letters}"
                );
            }
        }
        for (letters, ..) in KUBERNETES_RULES {
            assert!(
                letters.chars().zip("aidov".chars()).all(|(is, own)| is == '-' || is == own),
                "{letters}"
            );
        }
    }

    #[test]
    fn role_with_any_capability_can_read_the_workspace() {
        for role in WorkspaceRole::ALL {
            assert!(role.allows(ReadWorkspace), "{role}");
        }
    }

    #[test]
    fn no_role_has_escalating_verbs() {
        let dangerous = ["impersonate", "bind", "escalate", "*"];
        for (_, group, resources, verbs) in KUBERNETES_RULES {
            assert!(!verbs.iter().any(|verb| dangerous.contains(verb)), "{group} {resources:?}");
            assert!(!resources.contains(&"*") && *group != "*");
        }
    }
}
