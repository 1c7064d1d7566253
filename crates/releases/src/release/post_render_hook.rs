//! Post-rendering of a release's objects, and the check that the release may have them.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::WorkspaceName;
use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::Error;
use helm_release::actions::{ContentSource, PostRenderer};
use helm_release::render::{PoolAdmission, Renderer};
use helm_template::budget::{Budget, RenderLimits};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube_access::{Clients, is_allowed};
use kube_apply::discovery::ServedKind;
use kube_apply::{Discovery, Object, ObjectId, ReservedObjects};
use kube_types::HelmReleaseSpec;
use kube_types::release::status::MAX_ADMINISTERED;

use super::identity::ReleaseIdentity;
use crate::post_render::{self, PostRenderSpec};
use crate::tenant_directory::TenantDirectory;

/// The verbs that a release needs on an object over its lifetime. Without `delete` an object could be created but never removed.
const VERBS: [&str; 4] = ["get", "create", "patch", "delete"];

/// Post-renderer of a release: applies the changes of the spec, then checks the objects.
pub(crate) struct ReleasePostRenderer<'a> {
    pub spec: &'a HelmReleaseSpec,
    pub admission: ObjectAdmission<'a>,
    pub renderer: &'a Renderer,
}

/// Rejects objects that a release may not have, hooks included, before any of them is written.
pub(crate) struct ObjectAdmission<'a> {
    pub namespace: &'a str,
    pub identity: &'a ReleaseIdentity,
    /// Objects written as the administrator, if one requested this operation; otherwise objects to skip.
    pub reserved: &'a ReservedObjects,
    pub tenants: &'a dyn TenantDirectory,
    pub discovery: &'a Discovery,
    pub clients: &'a Clients,
}

impl PostRenderer for ObjectAdmission<'_> {
    fn run(&self, objects: Vec<Object>, content: ContentSource) -> BoxFuture<'_, Result<Vec<Object>, Error>> {
        async move { self.check_cluster_scoped(objects, content).await.map_err(Error::PostRender) }.boxed()
    }
}

impl PostRenderer for ReleasePostRenderer<'_> {
    fn run(&self, objects: Vec<Object>, content: ContentSource) -> BoxFuture<'_, Result<Vec<Object>, Error>> {
        async move {
            let objects = self.apply_spec_changes(objects).await?;
            self.admission.check_cluster_scoped(objects, content).await.map_err(Error::PostRender)
        }
        .boxed()
    }
}

impl ReleasePostRenderer<'_> {
    /// Applies role overrides, patches and pause on the renderer's pool.
    async fn apply_spec_changes(&self, objects: Vec<Object>) -> Result<Vec<Object>, Error> {
        let HelmReleaseSpec { roles, patches, paused, .. } = self.spec;
        if (PostRenderSpec { roles, patches, paused: *paused }).is_empty() {
            return Ok(objects);
        }
        let (roles, patches, paused) = (roles.clone(), patches.clone(), *paused);
        let ObjectAdmission { namespace, tenants: people, .. } = self.admission;
        let workspace = people.workspace_of(namespace);
        let workspace = workspace.as_ref().map_or(namespace, |workspace| workspace.as_str());
        let changed = self.renderer.run(workspace, move |ticket| {
            let admission = PoolAdmission::new(ticket);
            let budget = Budget::new(RenderLimits::default(), &admission);
            let chain = PostRenderSpec { roles: &roles, patches: &patches, paused };
            let changed = post_render::apply(objects, &chain, &budget);
            match (changed, admission.failure()) {
                (Err(_), Some(error)) => Err(Error::Render(error.into())),
                (changed, _) => changed.map_err(|error| Error::PostRender(error.to_string())),
            }
        });
        changed.await.map_err(Error::Render)?
    }
}

impl ObjectAdmission<'_> {
    /// Rejects namespaced objects outside the workspace's namespaces, and cluster-scoped ones that Kubernetes does not permit to this
    /// identity. The API server would reject most of them as well, but only in the middle of the operation.
    ///
    /// Removes reserved objects: this operation skips them. In an operation that an administrator requested all rendered objects are
    /// permitted, and objects that would be rejected are reserved for the administrator.
    async fn check_cluster_scoped(
        &self,
        mut objects: Vec<Object>,
        content: ContentSource,
    ) -> Result<Vec<Object>, String> {
        if content == ContentSource::Rendered && self.reserved.client().is_some() {
            self.reserve_for_administrator(&objects).await?;
            return Ok(objects);
        }
        objects.retain(|object| !self.reserved.contains(&self.object_id(object), self.namespace));
        self.check_namespaces(&objects)?;
        let mut refused = Vec::new();
        for object in &objects {
            let kind = self.discovery.get_cached(object.api_version(), object.kind());
            if let Some(kind) = kind.filter(|kind| !kind.is_namespaced)
                && !self.is_permitted(&kind, None, Some(object.name())).await
            {
                refused.push(format!("{} {}", object.kind(), object.name()));
            }
        }
        if refused.is_empty() {
            return Ok(objects);
        }
        Err(format!(
            "cluster-scoped objects require permissions that Kubernetes does not grant to {}: {}",
            self.identity
                .impersonation
                .groups()
                .first()
                .map_or(self.identity.impersonation.user(), String::as_str),
            refused.join(", ")
        ))
    }

    /// Reserves the objects that the identity of the release may not have: objects outside the workspace, objects that RBAC does not
    /// permit, and objects of unknown kinds.
    async fn reserve_for_administrator(&self, objects: &[Object]) -> Result<(), String> {
        let workspace = self.tenants.workspace_of(self.namespace);
        let mut reviews = BTreeMap::new();
        let mut not_permitted = BTreeSet::new();
        for object in objects {
            let id = self.object_id(object);
            let kind = self.discovery.get_cached(object.api_version(), object.kind());
            let is_own = match kind {
                None => false,
                Some(_) if self.is_outside_workspace(object, workspace.as_ref()) => false,
                Some(kind) if !kind.is_namespaced => {
                    self.is_permitted(&kind, None, Some(object.name())).await
                }
                Some(kind) => {
                    let question = (id.group.clone(), id.kind.clone(), id.namespace.clone());
                    if let Some(answer) = reviews.get(&question) {
                        *answer
                    } else {
                        let answer = self.is_permitted(&kind, id.namespace.as_deref(), None).await;
                        reviews.insert(question, answer);
                        answer
                    }
                }
            };
            if is_own {
                continue;
            }
            if object.name().is_empty() {
                return Err(format!(
                    "a {} without a name requires administrator permissions: give it a name, so that it can be listed",
                    object.kind()
                ));
            }
            not_permitted.insert(id);
        }
        let count = self.reserved.ids().union(&not_permitted).count();
        if count > MAX_ADMINISTERED {
            return Err(format!(
                "{count} objects of the release require administrator permissions (limit {MAX_ADMINISTERED})"
            ));
        }
        self.reserved.add(&not_permitted);
        Ok(())
    }

    fn object_id(&self, object: &Object) -> ObjectId {
        let kind = self.discovery.find_any_version(object.api_version(), object.kind());
        let namespaced = kind.is_none_or(|kind| kind.is_namespaced);
        let namespace = namespaced.then(|| object.namespace().unwrap_or(self.namespace).to_owned());
        ObjectId { namespace, ..object.id() }
    }

    /// Whether an object is in a namespace that does not belong to the workspace. Always false without a workspace.
    fn is_outside_workspace(&self, object: &Object, workspace: Option<&WorkspaceName>) -> bool {
        let Some(workspace) = workspace else { return false };
        let kind = self.discovery.get_cached(object.api_version(), object.kind());
        let elsewhere = object.namespace().filter(|other| *other != self.namespace);
        // A kind that is not known yet may be namespaced.
        kind.is_none_or(|kind| kind.is_namespaced)
            && elsewhere.is_some_and(|other| self.tenants.workspace_of(other).as_ref() != Some(workspace))
    }

    /// Rejects objects outside the workspace. A release in a namespace without a workspace is an operator's: only the RBAC of its
    /// `ServiceAccount` applies.
    fn check_namespaces(&self, objects: &[Object]) -> Result<(), String> {
        let Some(workspace) = self.tenants.workspace_of(self.namespace) else { return Ok(()) };
        let outside = objects.iter().filter(|object| self.is_outside_workspace(object, Some(&workspace)));
        let outside = outside.map(|object| {
            let namespace = object.namespace().unwrap_or_default();
            format!("{} {} in namespace {namespace}", object.kind(), object.name())
        });
        let outside: Vec<String> = outside.collect();
        if outside.is_empty() {
            return Ok(());
        }
        Err(format!(
            "objects of a chart must be in the namespaces of workspace {workspace}: {}",
            outside.join(", ")
        ))
    }

    async fn is_permitted(&self, kind: &ServedKind, namespace: Option<&str>, name: Option<&str>) -> bool {
        for verb in VERBS {
            let what = ResourceAttributes {
                group: Some(kind.resource.group.clone()),
                resource: Some(kind.resource.plural.clone()),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            match is_allowed(&self.clients.platform(), &self.identity.impersonation, what).await {
                Ok(true) => {}
                Ok(false) => return false,
                // If the check fails, the write is attempted and the API server decides.
                Err(error) => {
                    tracing::debug!(%error, "cannot check permissions");
                    return true;
                }
            }
        }
        true
    }
}
