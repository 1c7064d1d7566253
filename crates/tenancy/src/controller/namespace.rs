//! Namespaces of workspaces and their initial objects. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use domain::actor::workspace_group;
use domain::ids::{UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use k8s_openapi::api::core::v1::{
    LimitRange, LimitRangeItem, LimitRangeSpec, Namespace, ResourceQuota, ResourceQuotaSpec, ServiceAccount,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use kube_types::well_known::{ACCOUNT, ACCOUNT_CLOSED, MANAGED_BY, TENANT, WORKSPACE, WORKSPACE_UID};
use kube_types::workspace::{Allowance, Member, OwnedNamespace};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, Workspace};

use super::owned_object::{OwnedKind, OwnedObject, labels};
use crate::quota::object_counts::count_limits;

/// The ServiceAccount that installs releases without a user, in each namespace.
pub const DEPLOYER: &str = "longshore-deployer";

/// The ResourceQuota that limits object counts.
const COUNTS_QUOTA: &str = "longshore-counts";

const POD_SECURITY_LABEL: &str = "pod-security.kubernetes.io/enforce";

/// The mechanism that refuses pods with privileges on their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSecurity {
    /// Pod Security Admission at level `baseline`.
    Baseline,
    /// The policy `longshore-host-ports`, which permits ports of nodes.
    HostPorts,
}

impl PodSecurity {
    /// The level of Pod Security Admission.
    fn level(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::HostPorts => "privileged",
        }
    }
}
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The ownership of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceOwnership {
    Absent,
    /// Created for this workspace, with this UID.
    Owned(String),
    /// Ours, and being deleted.
    Terminating(String),
    /// Not ours: never touched.
    Foreign,
}

/// The compared metadata of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceMeta {
    pub uid: Box<str>,
    /// The label that names its workspace.
    pub workspace: Box<str>,
    /// The annotation with the UID of the workspace that it was created for.
    workspace_uid: Box<str>,
    tenant: Box<str>,
    /// The label of the account whose budgets it uses.
    pub account: Box<str>,
    pod_security: Box<str>,
    /// The labels for the exceptions that an administrator allows in the workspace.
    allowances: Vec<Box<str>>,
    /// It has the label of a disabled or expired account.
    is_account_closed: bool,
    is_terminating: bool,
}

impl NamespaceMeta {
    pub fn from_namespace(namespace: &impl Resource) -> Self {
        let text = |text: Option<&String>| text.map_or_else(Box::default, |text| text.as_str().into());
        let label = |label: &str| text(namespace.labels().get(label));
        Self {
            uid: text(namespace.meta().uid.as_ref()),
            workspace: label(WORKSPACE),
            workspace_uid: text(namespace.annotations().get(WORKSPACE_UID)),
            tenant: label(TENANT),
            account: label(ACCOUNT),
            pod_security: label(POD_SECURITY_LABEL),
            allowances: Allowance::ALL
                .iter()
                .map(|allowance| allowance.label())
                .filter(|label| namespace.labels().contains_key(*label))
                .map(Box::from)
                .collect(),
            is_account_closed: namespace.labels().contains_key(ACCOUNT_CLOSED),
            is_terminating: namespace.meta().deletion_timestamp.is_some(),
        }
    }

    /// Whether the labels equal the labels of `wanted`.
    pub fn has_labels_of(&self, wanted: &Namespace) -> bool {
        let wanted = Self::from_namespace(wanted);
        let (uid, workspace_uid) = (self.uid.clone(), self.workspace_uid.clone());
        *self == Self { uid, workspace_uid, is_terminating: self.is_terminating, ..wanted }
    }

    /// The labels that server-side apply does not remove, because the namespace was created with them, and that `wanted` lacks.
    pub fn surplus_labels(&self, wanted: &Namespace) -> Vec<&'static str> {
        let wanted = Self::from_namespace(wanted);
        let account = (!self.account.is_empty() && wanted.account.is_empty()).then_some(ACCOUNT);
        let closed = (self.is_account_closed && !wanted.is_account_closed).then_some(ACCOUNT_CLOSED);
        account.into_iter().chain(closed).collect()
    }
}

/// The ownership of a namespace. Ours has our label and the recorded UID. Before a UID is recorded, ours is one that was created for the
/// UID of this workspace: a server can crash between creating and recording it.
pub fn ownership(
    workspace: &Workspace,
    recorded: Option<&OwnedNamespace>,
    found: Option<&NamespaceMeta>,
) -> NamespaceOwnership {
    let Some(found) = found else { return NamespaceOwnership::Absent };
    let ours = match recorded {
        Some(recorded) => *recorded.uid == *found.uid,
        None => Some(&*found.workspace_uid) == workspace.metadata.uid.as_deref(),
    };
    let uid = found.uid.to_string();
    match (*found.workspace == workspace.name_any() && ours, found.is_terminating) {
        (false, _) => NamespaceOwnership::Foreign,
        (true, true) => NamespaceOwnership::Terminating(uid),
        (true, false) => NamespaceOwnership::Owned(uid),
    }
}

/// Whether a namespace of this workspace may have this name: the workspace's name, alone or followed by a dash and more.
pub fn is_allowed_name(workspace: &str, namespace: &str) -> bool {
    namespace
        .strip_prefix(workspace)
        .is_some_and(|rest| rest.is_empty() || (rest.len() > 1 && rest.starts_with('-')))
}

/// Builds the namespace. `account` is the one whose budgets the workspace uses, `security` the level of Pod Security.
pub fn desired_namespace(
    workspace: &Workspace,
    account: Option<&UserId>,
    security: PodSecurity,
    name: &str,
) -> Namespace {
    let mut labels: BTreeMap<String, String> = [
        (WORKSPACE.to_owned(), workspace.name_any()),
        (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned()),
        (POD_SECURITY_LABEL.to_owned(), security.level().to_owned()),
    ]
    .into();
    if !workspace.spec.owner.is_empty() {
        labels.insert(TENANT.to_owned(), workspace.spec.owner.clone());
    }
    labels.extend(account.map(|account| (ACCOUNT.to_owned(), account.to_string())));
    if workspace.annotations().contains_key(ACCOUNT_CLOSED) {
        labels.insert(ACCOUNT_CLOSED.to_owned(), "true".to_owned());
    }
    labels.extend(workspace.spec.allow.iter().map(|allowed| (allowed.label().to_owned(), "true".to_owned())));
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        annotations: Some([(WORKSPACE_UID.to_owned(), workspace.uid().unwrap_or_default())].into()),
        ..ObjectMeta::default()
    };
    Namespace { metadata, ..Namespace::default() }
}

/// The desired objects in a namespace. A closed workspace has all of them except the RoleBindings.
pub fn desired_objects(
    workspace: &Workspace,
    namespace: &str,
    hard: &BTreeMap<String, String>,
    closed: bool,
) -> Vec<OwnedObject> {
    let parts = ObjectBuilder { workspace, namespace };
    let mut pieces = vec![
        OwnedObject::new(OwnedKind::ServiceAccount, &parts.deployer()),
        OwnedObject::new(OwnedKind::NetworkPolicy, &parts.network_policy()),
        OwnedObject::new(OwnedKind::LimitRange, &parts.limit_range()),
    ];
    let counts = count_limits(&workspace.spec.quota);
    pieces.push(OwnedObject::new(OwnedKind::ResourceQuota, &parts.quota(COUNTS_QUOTA, &counts)));
    if !hard.is_empty() {
        pieces.push(OwnedObject::new(OwnedKind::ResourceQuota, &parts.quota("longshore", hard)));
    }
    if !closed {
        let bindings = WorkspaceRole::ALL.iter().map(|role| parts.member_binding(*role));
        pieces.extend(
            bindings
                .chain([parts.deployer_binding()])
                .map(|binding| OwnedObject::new(OwnedKind::RoleBinding, &binding)),
        );
    }
    pieces
}

/// Builder of the desired objects.
struct ObjectBuilder<'a> {
    workspace: &'a Workspace,
    namespace: &'a str,
}

impl ObjectBuilder<'_> {
    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels(WORKSPACE, &self.workspace.name_any())),
            ..ObjectMeta::default()
        }
    }

    fn deployer(&self) -> ServiceAccount {
        ServiceAccount {
            metadata: self.metadata(DEPLOYER),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        }
    }

    /// Allows only DNS lookups and traffic within the workspace: an application of two pods works, and other tenants are unreachable.
    /// Tenants can add policies that allow more.
    fn network_policy(&self) -> NetworkPolicy {
        let selector = |key: &str, value: &str| LabelSelector {
            match_labels: Some([(key.to_owned(), value.to_owned())].into()),
            ..LabelSelector::default()
        };
        let peer = |namespaces, pods| NetworkPolicyPeer {
            namespace_selector: Some(namespaces),
            pod_selector: pods,
            ..NetworkPolicyPeer::default()
        };
        let own = || peer(selector(WORKSPACE, &self.workspace.name_any()), None);
        let dns = peer(
            selector("kubernetes.io/metadata.name", "kube-system"),
            Some(selector("k8s-app", "kube-dns")),
        );
        let port = |protocol: &str| NetworkPolicyPort {
            port: Some(IntOrString::Int(53)),
            protocol: Some(protocol.to_owned()),
            ..NetworkPolicyPort::default()
        };
        let spec = NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule { from: Some(vec![own()]), ports: None }]),
            egress: Some(vec![
                NetworkPolicyEgressRule { to: Some(vec![dns]), ports: Some(vec![port("UDP"), port("TCP")]) },
                NetworkPolicyEgressRule { to: Some(vec![own()]), ports: None },
            ]),
        };
        NetworkPolicy { metadata: self.metadata("longshore-default-deny"), spec: Some(spec) }
    }

    /// Default requests and limits of containers: the quota refuses containers without them.
    fn limit_range(&self) -> LimitRange {
        let amounts = |cpu: &str, memory: &str| {
            let amount = |resource: &str, amount: &str| (resource.to_owned(), Quantity(amount.to_owned()));
            Some([amount("cpu", cpu), amount("memory", memory)].into())
        };
        let item = LimitRangeItem {
            type_: "Container".to_owned(),
            default: amounts("500m", "512Mi"),
            default_request: amounts("100m", "128Mi"),
            ..LimitRangeItem::default()
        };
        LimitRange { metadata: self.metadata("longshore"), spec: Some(LimitRangeSpec { limits: vec![item] }) }
    }

    fn quota(&self, name: &str, hard: &BTreeMap<String, String>) -> ResourceQuota {
        let hard =
            hard.iter().map(|(resource, amount)| (resource.clone(), Quantity(amount.clone()))).collect();
        let spec = ResourceQuotaSpec { hard: Some(hard), ..ResourceQuotaSpec::default() };
        ResourceQuota { metadata: self.metadata(name), spec: Some(spec), ..ResourceQuota::default() }
    }

    fn role_binding(&self, name: &str, role: WorkspaceRole, subjects: Vec<Subject>) -> RoleBinding {
        RoleBinding {
            metadata: self.metadata(name),
            role_ref: RoleRef {
                api_group: Some(RBAC_GROUP.to_owned()),
                kind: "ClusterRole".to_owned(),
                name: role.cluster_role(),
            },
            subjects: Some(subjects),
        }
    }

    /// Binds the members with a role: by group (through the platform) and by ServiceAccount (with a kubeconfig).
    fn member_binding(&self, role: WorkspaceRole) -> RoleBinding {
        let mut subjects = Vec::new();
        if let Ok(name) = self.workspace.name_any().parse::<WorkspaceName>() {
            subjects.push(Subject {
                kind: "Group".to_owned(),
                api_group: Some(RBAC_GROUP.to_owned()),
                name: workspace_group(&name, role),
                namespace: None,
            });
        }
        let people = self.workspace.spec.members.iter().filter(|member| member.role == role.as_str());
        subjects
            .extend(people.filter_map(member_id).map(|id| service_account(SYSTEM_NAMESPACE, id.as_str())));
        self.role_binding(&role.cluster_role(), role, subjects)
    }

    fn deployer_binding(&self) -> RoleBinding {
        self.role_binding(DEPLOYER, WorkspaceRole::Developer, vec![service_account(self.namespace, DEPLOYER)])
    }
}

/// The id of a member. Only ids become subjects: any other name could be the platform's own ServiceAccount.
fn member_id(member: &Member) -> Option<UserId> {
    member.user.parse().ok()
}

pub(super) fn service_account(namespace: &str, name: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use kube_types::WorkspaceSpec;

    use super::*;

    const ID: &str = "uaaaaaaaaaa";

    fn acme() -> Workspace {
        let member = |user: &str, role: &str| Member { user: user.to_owned(), role: role.to_owned() };
        let members =
            vec![member(ID, "admin"), member("ubbbbbbbbbb", "viewer"), member("longshore", "admin")];
        let mut acme = Workspace::new("acme", WorkspaceSpec { members, ..WorkspaceSpec::default() });
        acme.metadata.uid = Some("1".to_owned());
        acme
    }

    #[test]
    fn what_a_namespace_begins_with() {
        let hard = [("pods".to_owned(), "50".to_owned())].into();
        let mut text = serde_norway::to_string(&desired_namespace(
            &acme(),
            Some(&ID.parse().unwrap()),
            PodSecurity::Baseline,
            "acme",
        ))
        .unwrap();
        for piece in desired_objects(&acme(), "acme", &hard, false) {
            write!(text, "---\n{}", serde_norway::to_string(&piece.object).unwrap()).unwrap();
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn closed_workspace_has_no_member_bindings() {
        let kinds = |closed| {
            desired_objects(&acme(), "acme", &BTreeMap::new(), closed).into_iter().map(|piece| piece.kind)
        };
        assert_eq!(kinds(false).filter(|kind| *kind == OwnedKind::RoleBinding).count(), 6);
        let (open, closed): (Vec<_>, Vec<_>) = (kinds(false).collect(), kinds(true).collect());
        assert_eq!(
            closed,
            open.into_iter().filter(|kind| *kind != OwnedKind::RoleBinding).collect::<Vec<_>>()
        );
    }

    #[test]
    fn namespace_ownership_is_decided_by_label_and_recorded_uid() {
        use NamespaceOwnership::*;
        let found = |uid: &str, workspace: &str, made_for: &str| NamespaceMeta {
            uid: uid.into(),
            workspace: workspace.into(),
            workspace_uid: made_for.into(),
            tenant: "".into(),
            account: "".into(),
            pod_security: "".into(),
            allowances: Vec::new(),
            is_account_closed: false,
            is_terminating: false,
        };
        let recorded = OwnedNamespace {
            name: "acme".to_owned(),
            uid: "a".to_owned(),
            cluster: "host".to_owned(),
            ..OwnedNamespace::default()
        };
        let ours = || Owned("a".to_owned());
        #[rustfmt::skip]
        let rows = [
            // recorded, found (UID, label, created for), ownership
            (true,  Some(found("a", "acme",  "1")), ours()),
            (true,  Some(found("a", "acme",  "")),  ours()),
            (true,  Some(found("b", "acme",  "1")), Foreign), // replaced, with our label and annotation
            (true,  Some(found("a", "",      "1")), Foreign), // without our label
            (true,  Some(found("a", "other", "1")), Foreign),
            (true,  None,                           Absent),
            (false, Some(found("a", "acme",  "1")), ours()), // created, but not recorded yet
            (false, Some(found("a", "acme",  "2")), Foreign),  // of a former workspace of this name
            (false, Some(found("a", "acme",  "")),  Foreign),
            (false, Some(found("a", "",      "1")), Foreign),
            (false, None,                           Absent),
        ];
        for (is_recorded, found, whose) in rows {
            let recorded = Some(&recorded).filter(|_| is_recorded);
            assert_eq!(ownership(&acme(), recorded, found.as_ref()), whose, "{is_recorded} {found:?}");
            let leaving = found.map(|found| NamespaceMeta { is_terminating: true, ..found });
            let whose = if whose == ours() { Terminating("a".to_owned()) } else { whose };
            assert_eq!(ownership(&acme(), recorded, leaving.as_ref()), whose, "{is_recorded} {leaving:?}");
        }
    }

    #[test]
    fn namespace_name_must_start_with_the_workspace_name() {
        for (name, own) in [
            ("acme", true),
            ("acme-test", true),
            ("acme-", false),
            ("acmetest", false),
            ("kube-system", false),
            ("", false),
        ] {
            assert_eq!(is_allowed_name("acme", name), own, "{name}");
        }
    }
}
