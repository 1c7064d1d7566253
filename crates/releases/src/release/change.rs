//! Post-rendering of a release's objects, and the check that the release may have them.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::WorkspaceName;
use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::Error;
use helm_release::actions::{Content, PostRender};
use helm_release::render::{PoolAdmission, Renderer};
use helm_template::budget::{Budget, Limits};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube_access::{Clients, may};
use kube_apply::discovery::Kind;
use kube_apply::{Discovery, Id, Object, Reserved};
use kube_types::HelmReleaseSpec;
use kube_types::release::status::ADMINISTERED;

use super::identity::Identity;
use crate::chain::{self, Chain};
use crate::people::People;

/// The verbs that a release needs on an object over its lifetime. Without `delete` an object could be created but never removed.
const VERBS: [&str; 4] = ["get", "create", "patch", "delete"];

/// Post-renderer of a release: applies the changes of the spec, then checks the objects.
pub(crate) struct Change<'a> {
    pub spec: &'a HelmReleaseSpec,
    pub admission: Admission<'a>,
    pub renderer: &'a Renderer,
}

/// Rejects objects that a release may not have, hooks included, before any of them is written.
pub(crate) struct Admission<'a> {
    pub namespace: &'a str,
    pub identity: &'a Identity,
    /// Objects written as the administrator, if one requested this operation; otherwise objects to skip.
    pub reserved: &'a Reserved,
    pub people: &'a dyn People,
    pub discovery: &'a Discovery,
    pub clients: &'a Clients,
}

impl PostRender for Admission<'_> {
    fn change(&self, objects: Vec<Object>, content: Content) -> BoxFuture<'_, Result<Vec<Object>, Error>> {
        async move { self.admit(objects, content).await.map_err(Error::PostRender) }.boxed()
    }
}

impl PostRender for Change<'_> {
    fn change(&self, objects: Vec<Object>, content: Content) -> BoxFuture<'_, Result<Vec<Object>, Error>> {
        async move {
            let objects = self.chained(objects).await?;
            self.admission.admit(objects, content).await.map_err(Error::PostRender)
        }
        .boxed()
    }
}

impl Change<'_> {
    /// Applies role overrides, patches and pause on the renderer's pool.
    async fn chained(&self, objects: Vec<Object>) -> Result<Vec<Object>, Error> {
        let HelmReleaseSpec { roles, patches, paused, .. } = self.spec;
        if (Chain { roles, patches, paused: *paused }).is_empty() {
            return Ok(objects);
        }
        let (roles, patches, paused) = (roles.clone(), patches.clone(), *paused);
        let Admission { namespace, people, .. } = self.admission;
        let workspace = people.workspace_of(namespace);
        let workspace = workspace.as_ref().map_or(namespace, |workspace| workspace.as_str());
        let changed = self.renderer.run(workspace, move |ticket| {
            let admission = PoolAdmission::new(ticket);
            let budget = Budget::new(Limits::default(), &admission);
            let chain = Chain { roles: &roles, patches: &patches, paused };
            let changed = chain::change(objects, &chain, &budget);
            match (changed, admission.failure()) {
                (Err(_), Some(error)) => Err(Error::Render(error.into())),
                (changed, _) => changed.map_err(|error| Error::PostRender(error.to_string())),
            }
        });
        changed.await.map_err(Error::Render)?
    }
}

impl Admission<'_> {
    /// Rejects namespaced objects outside the workspace's namespaces, and cluster-scoped ones that Kubernetes does not permit to this
    /// identity. The API server would reject most of them as well, but only in the middle of the operation.
    ///
    /// Removes reserved objects: this operation skips them. In an operation that an administrator requested all rendered objects are
    /// permitted, and those that would be rejected are reserved for the administrator.
    async fn admit(&self, mut objects: Vec<Object>, content: Content) -> Result<Vec<Object>, String> {
        if content == Content::Rendered && self.reserved.client().is_some() {
            self.reserve(&objects).await?;
            return Ok(objects);
        }
        objects.retain(|object| !self.reserved.contains(&self.id(object), self.namespace));
        self.stay_inside(&objects)?;
        let mut refused = Vec::new();
        for object in &objects {
            let kind = self.discovery.known(object.api_version(), object.kind());
            if let Some(kind) = kind.filter(|kind| !kind.namespaced)
                && !self.may_have(&kind, None, Some(object.name())).await
            {
                refused.push(format!("{} {}", object.kind(), object.name()));
            }
        }
        if refused.is_empty() {
            return Ok(objects);
        }
        Err(format!(
            "objects that belong to the whole cluster need rights that Kubernetes does not give to {}: {}",
            self.identity.acts_as.groups().first().map_or(self.identity.acts_as.user(), String::as_str),
            refused.join(", ")
        ))
    }

    /// Reserves the objects that the identity of the release may not have: those outside the workspace, those that RBAC does not permit,
    /// and those of unknown kinds.
    async fn reserve(&self, objects: &[Object]) -> Result<(), String> {
        let workspace = self.people.workspace_of(self.namespace);
        let mut answers = BTreeMap::new();
        let mut beyond = BTreeSet::new();
        for object in objects {
            let id = self.id(object);
            let kind = self.discovery.known(object.api_version(), object.kind());
            let is_own = match kind {
                None => false,
                Some(_) if self.is_outside(object, workspace.as_ref()) => false,
                Some(kind) if !kind.namespaced => self.may_have(&kind, None, Some(object.name())).await,
                Some(kind) => {
                    let question = (id.group.clone(), id.kind.clone(), id.namespace.clone());
                    if let Some(answer) = answers.get(&question) {
                        *answer
                    } else {
                        let answer = self.may_have(&kind, id.namespace.as_deref(), None).await;
                        answers.insert(question, answer);
                        answer
                    }
                }
            };
            if is_own {
                continue;
            }
            if object.name().is_empty() {
                return Err(format!(
                    "a {} without a name needs the rights of an administrator: give it a name, so that it can be listed",
                    object.kind()
                ));
            }
            beyond.insert(id);
        }
        let count = self.reserved.ids().union(&beyond).count();
        if count > ADMINISTERED {
            return Err(format!(
                "{count} objects of the release need the rights of an administrator (limit {ADMINISTERED})"
            ));
        }
        self.reserved.add(&beyond);
        Ok(())
    }

    fn id(&self, object: &Object) -> Id {
        let kind = self.discovery.in_any_version(object.api_version(), object.kind());
        let namespaced = kind.is_none_or(|kind| kind.namespaced);
        let namespace = namespaced.then(|| object.namespace().unwrap_or(self.namespace).to_owned());
        Id { namespace, ..object.id() }
    }

    /// Whether an object is in a namespace that does not belong to the workspace. Always false without a workspace.
    fn is_outside(&self, object: &Object, workspace: Option<&WorkspaceName>) -> bool {
        let Some(workspace) = workspace else { return false };
        let kind = self.discovery.known(object.api_version(), object.kind());
        let elsewhere = object.namespace().filter(|other| *other != self.namespace);
        // A kind that is not known yet may be namespaced.
        kind.is_none_or(|kind| kind.namespaced)
            && elsewhere.is_some_and(|other| self.people.workspace_of(other).as_ref() != Some(workspace))
    }

    /// Rejects objects outside the workspace. A release in a namespace without a workspace is an operator's: only the RBAC of its
    /// `ServiceAccount` applies.
    fn stay_inside(&self, objects: &[Object]) -> Result<(), String> {
        let Some(workspace) = self.people.workspace_of(self.namespace) else { return Ok(()) };
        let outside = objects.iter().filter(|object| self.is_outside(object, Some(&workspace)));
        let outside = outside.map(|object| {
            let namespace = object.namespace().unwrap_or_default();
            format!("{} {} in namespace {namespace}", object.kind(), object.name())
        });
        let outside: Vec<String> = outside.collect();
        if outside.is_empty() {
            return Ok(());
        }
        Err(format!(
            "objects of a chart stay inside the namespaces of workspace {workspace}: {}",
            outside.join(", ")
        ))
    }

    async fn may_have(&self, kind: &Kind, namespace: Option<&str>, name: Option<&str>) -> bool {
        for verb in VERBS {
            let what = ResourceAttributes {
                group: Some(kind.resource.group.clone()),
                resource: Some(kind.resource.plural.clone()),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            match may(&self.clients.own(), &self.identity.acts_as, what).await {
                Ok(true) => {}
                Ok(false) => return false,
                // If the check fails, the write is attempted and the API server decides.
                Err(error) => {
                    tracing::debug!(%error, "cannot ask what somebody may have");
                    return true;
                }
            }
        }
        true
    }
}
