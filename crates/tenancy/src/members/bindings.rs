//! RoleBindings that a removed member may have created.
//!
//! A member with write access can bind roles to ServiceAccounts and request tokens for them, which stay valid after the member is removed.
//! Kubernetes does not record who created a RoleBinding: `managedFields` has the name of a program, which the client chooses. So every
//! RoleBinding of a workspace that names one of its ServiceAccounts and that the platform did not provision may be the member's. They are
//! listed to the administrator who removes a member, and deleted unless the administrator keeps them.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use kube_types::well_known::PROVISIONED_OBJECT;

use crate::paging;

/// A RoleBinding of a tenant for ServiceAccounts of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantBinding {
    pub namespace: String,
    pub name: String,
    /// The bound role, as `Role/name` or `ClusterRole/name`.
    pub role: String,
    pub service_accounts: Vec<String>,
    pub(crate) uid: Option<String>,
}

impl TenantBinding {
    /// `None` for provisioned bindings, and for those without a ServiceAccount of the namespace.
    fn from_role_binding(binding: &RoleBinding) -> Option<Self> {
        let namespace = binding.namespace().unwrap_or_default();
        let service_accounts: BTreeSet<String> = binding
            .subjects
            .iter()
            .flatten()
            .filter(|subject| subject.kind == "ServiceAccount")
            .filter(|subject| subject.namespace.as_ref().is_none_or(|other| *other == namespace))
            .map(|subject| subject.name.clone())
            .collect();
        if service_accounts.is_empty() || binding.labels().contains_key(PROVISIONED_OBJECT) {
            return None;
        }
        Some(Self {
            name: binding.name_any(),
            role: format!("{}/{}", binding.role_ref.kind, binding.role_ref.name),
            service_accounts: service_accounts.into_iter().collect(),
            uid: binding.uid(),
            namespace,
        })
    }
}

/// The RoleBindings of tenants in a namespace.
pub(crate) async fn tenant_bindings(
    client: kube::Client,
    namespace: &str,
) -> Result<Vec<TenantBinding>, kube::Error> {
    let bindings: Api<RoleBinding> = Api::namespaced(client, namespace);
    paging::list_all(&bindings, &ListParams::default(), |binding| TenantBinding::from_role_binding(&binding))
        .await
}
