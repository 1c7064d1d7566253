//! The rendered objects of a release, before they are written.

use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::actions::PostRender;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube_access::{Clients, may};
use kube_apply::discovery::Kind;
use kube_apply::{Discovery, Object};
use kube_types::HelmReleaseSpec;

use super::identity::Identity;
use crate::chain::{self, Chain};

/// What a release does with an object in its life. Who may make one and not take it away could not be rid of it.
const VERBS: [&str; 4] = ["get", "create", "patch", "delete"];

/// The rendered objects on their way to the cluster: changed as the spec says, and looked at for what this one may not have.
pub(crate) struct Change<'a> {
    pub spec: &'a HelmReleaseSpec,
    pub identity: &'a Identity,
    pub discovery: &'a Discovery,
    pub clients: &'a Clients,
}

impl PostRender for Change<'_> {
    fn change(&self, objects: Vec<Object>) -> BoxFuture<'_, Result<Vec<Object>, String>> {
        async move {
            let HelmReleaseSpec { roles, patches, paused, .. } = self.spec;
            let chain = Chain { roles, patches, paused: *paused };
            let objects = chain::change(objects, &chain).map_err(|error| error.to_string())?;
            self.admit(&objects).await?;
            Ok(objects)
        }
        .boxed()
    }
}

impl Change<'_> {
    /// Refuses what belongs to the whole cluster, but for what Kubernetes lets this one have. It would refuse it itself, but
    /// only in the middle.
    async fn admit(&self, objects: &[Object]) -> Result<(), String> {
        let mut refused = Vec::new();
        for object in objects {
            let kind = self.discovery.known(object.api_version(), object.kind());
            if let Some(kind) = kind.filter(|kind| !kind.namespaced)
                && !self.may_have(&kind, object.name()).await
            {
                refused.push(format!("{} {}", object.kind(), object.name()));
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        Err(format!(
            "only an administrator of the platform, or whoever Kubernetes lets, may install what belongs to the whole cluster: {}",
            refused.join(", ")
        ))
    }

    async fn may_have(&self, kind: &Kind, name: &str) -> bool {
        for verb in VERBS {
            let what = ResourceAttributes {
                group: Some(kind.resource.group.clone()),
                resource: Some(kind.resource.plural.clone()),
                name: Some(name.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            match may(&self.clients.own(), &self.identity.acts_as, what).await {
                Ok(true) => {}
                Ok(false) => return false,
                // What is not known keeps nobody from trying: the cluster has the last word.
                Err(error) => {
                    tracing::debug!(%error, "cannot ask what somebody may have of the whole cluster");
                    return true;
                }
            }
        }
        true
    }
}
