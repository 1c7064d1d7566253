//! The rendered objects of a release, before they are written.

use helm_release::actions::PostRender;
use kube_apply::{Discovery, Object};
use kube_types::HelmReleaseSpec;

use super::identity::Identity;
use crate::chain::{self, Chain};

/// The rendered objects on their way to the cluster: changed as the spec says, and looked at for what this one may not have.
pub(crate) struct Change<'a> {
    pub spec: &'a HelmReleaseSpec,
    pub identity: &'a Identity,
    pub discovery: &'a Discovery,
}

impl PostRender for Change<'_> {
    fn change(&self, objects: Vec<Object>) -> Result<Vec<Object>, String> {
        let chain = Chain { roles: &self.spec.roles, patches: &self.spec.patches, paused: self.spec.paused };
        let objects = chain::change(objects, &chain).map_err(|error| error.to_string())?;
        if !self.identity.administrates {
            let of_cluster: Vec<String> =
                objects.iter().filter(|object| self.is_of_cluster(object)).map(named).collect();
            if !of_cluster.is_empty() {
                return Err(format!(
                    "only an administrator of the platform may install what belongs to the whole cluster: {}",
                    of_cluster.join(", ")
                ));
            }
        }
        Ok(objects)
    }
}

impl Change<'_> {
    fn is_of_cluster(&self, object: &Object) -> bool {
        self.discovery.known(object.api_version(), object.kind()).is_some_and(|kind| !kind.namespaced)
    }
}

fn named(object: &Object) -> String {
    format!("{} {}", object.kind(), object.name())
}
