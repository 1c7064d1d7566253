//! Limits of a workspace's namespaces: each is raised only by amounts that other namespaces have returned.
//!
//! Invariant: a namespace that exists counts against its workspace's quota, whether or not spec and status name it.
//!
//! Elsewhere: shares (`crate::quota::split_workspace_quota`), amounts in use (`crate::quota::limits`), the ResourceQuotas themselves
//! ([`super::namespace`]).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use kube_types::Workspace;
use kube_types::well_known::{PROVISIONED_OBJECT, WORKSPACE};
use kube_types::workspace::OwnedNamespace;

use super::namespace::{self, NamespaceMeta, NamespaceOwnership, ownership};
use super::owned_object::OwnedKind;
use super::workspace::recorded_namespace;
use super::{ErrorContext, HOST_CLUSTER, REQUEUE_AFTER, ReconcileError, TenancyController};
use crate::paging;
use crate::quota::limits::{NamespaceLimits, ObservedQuota, limits_within_use};
use crate::quota::{QuotaError, split_workspace_quota};

/// The ResourceQuota with a namespace's part of the workspace's quota.
const SHARE_QUOTA: &str = "longshore";

/// The requeue interval until Kubernetes enforces a lowered limit.
const ENFORCEMENT_POLL: Duration = Duration::from_millis(500);

impl TenancyController {
    /// The limits to set in each namespace, and the requeue delay if some of them are to be raised later.
    pub(super) async fn namespace_limits(
        &self,
        workspace: &Workspace,
    ) -> Result<(Result<NamespaceLimits, QuotaError>, Option<Duration>), ReconcileError> {
        let desired = match split_workspace_quota(workspace) {
            Ok(desired) => desired,
            Err(error) => return Ok((Err(error), None)),
        };
        // A single namespace has the whole quota, and unchanged limits need no call.
        if desired.len() < 2 || self.has_limits(workspace, &desired) {
            return Ok((Ok(desired), None));
        }
        let observed = self.observe_quotas(workspace, &desired).await?;
        let limits = limits_within_use(&desired, &observed);
        if limits == desired {
            return Ok((Ok(limits), None));
        }
        let is_enforced =
            observed.iter().all(|(name, quota)| desired.get(name).is_none_or(|hard| !quota.exceeds(hard)));
        Ok((Ok(limits), Some(if is_enforced { REQUEUE_AFTER } else { ENFORCEMENT_POLL })))
    }

    /// Whether the namespaces of the spec have these limits already, by the cache.
    fn has_limits(&self, workspace: &Workspace, limits: &NamespaceLimits) -> bool {
        workspace.spec.namespaces.iter().all(|namespace| {
            let Some(hard) = limits.get(&namespace.name) else { return true };
            let is_share =
                |kind: OwnedKind, name: &str| kind == OwnedKind::ResourceQuota && name == SHARE_QUOTA;
            let objects = namespace::desired_objects(workspace, &namespace.name, hard, true);
            let quota = objects.into_iter().find(|object| is_share(object.kind, &object.name()));
            quota.is_none_or(|quota| {
                self.objects.object_hash(&namespace.name, quota.kind, SHARE_QUOTA) == Some(quota.hash())
            })
        })
    }

    /// The limits and the use of the namespaces, from the cluster.
    async fn observe_quotas(
        &self,
        workspace: &Workspace,
        desired: &NamespaceLimits,
    ) -> Result<BTreeMap<String, ObservedQuota>, ReconcileError> {
        let name = workspace.name_any();
        let ours = ListParams::default().labels(&format!("{PROVISIONED_OBJECT},{WORKSPACE}={name}"));
        let keep = |quota: ResourceQuota| {
            let namespace = quota.namespace().filter(|namespace| desired.contains_key(namespace))?;
            (quota.name_any() == SHARE_QUOTA).then(|| (namespace, ObservedQuota::from_quota(&quota)))
        };
        let found = paging::list_all(&Api::<ResourceQuota>::all(self.client.clone()), &ours, keep).await;
        let found = found.context(|| format!("list the quotas of workspace `{name}`"))?;
        let mut observed: BTreeMap<String, ObservedQuota> = found.into_iter().collect();
        for record in workspace.status.iter().flat_map(|status| &status.namespaces) {
            if !workspace.spec.namespaces.iter().any(|listed| listed.name == record.name) {
                observed.entry(record.name.clone()).or_default().allow_share(&record.share);
            }
        }
        Ok(observed)
    }

    /// Records the namespaces of this workspace that neither spec nor status names, with their limits. Such a namespace was removed from
    /// the spec while it was being created. It is deleted once it is recorded, so that its share is not lost if the server stops.
    pub(super) async fn record_unlisted_namespaces(
        &self,
        workspace: Workspace,
    ) -> Result<Workspace, ReconcileError> {
        let mut status = workspace.status.clone().unwrap_or_default();
        // A spec that never changed lists all namespaces; one that was observed has them all recorded.
        let generation = workspace.metadata.generation;
        if generation == Some(1) || status.observed_generation == generation {
            return Ok(workspace);
        }
        let name = workspace.name_any();
        let labelled = ListParams::default().labels(&format!("{WORKSPACE}={name}"));
        let is_listed = |found: &str| workspace.spec.namespaces.iter().any(|listed| listed.name == found);
        let keep = |found: Namespace| {
            let namespace = found.name_any();
            if is_listed(&namespace) || recorded_namespace(&workspace, &namespace).is_some() {
                return None;
            }
            match ownership(&workspace, None, Some(&NamespaceMeta::from_namespace(&found))) {
                NamespaceOwnership::Owned(uid) | NamespaceOwnership::Terminating(uid) => {
                    Some((namespace, uid))
                }
                NamespaceOwnership::Absent | NamespaceOwnership::Foreign => None,
            }
        };
        // Not from the cache, which may lack a namespace that was just created.
        let unrecorded = paging::list_all(&self.api::<Namespace>(), &labelled, keep).await;
        let unrecorded = unrecorded.context(|| format!("list the namespaces of workspace `{name}`"))?;
        if unrecorded.is_empty() {
            return Ok(workspace);
        }
        for (namespace, uid) in unrecorded {
            let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &namespace);
            let quota = quotas.get_opt(SHARE_QUOTA).await;
            let quota = quota.context(|| format!("read the quota of namespace `{namespace}`"))?;
            let hard = quota.and_then(|quota| quota.spec?.hard).unwrap_or_default();
            let share = hard.into_iter().map(|(resource, amount)| (resource, amount.0)).collect();
            let cluster = HOST_CLUSTER.to_owned();
            status.namespaces.push(OwnedNamespace { name: namespace, uid, cluster, share });
        }
        let recorded = Workspace { status: Some(status), ..workspace };
        let updated = self.api::<Workspace>().replace_status(&name, &PostParams::default(), &recorded).await;
        updated.context(|| format!("write the status of workspace `{name}`"))
    }
}
