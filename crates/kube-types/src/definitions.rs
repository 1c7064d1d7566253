//! CRDs that the server installs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::well_known::CRD_REVISION;
use crate::{HelmPackage, HelmRelease, HelmRepo, HelmRequest, User, Workspace, node_pool};

/// Revision of the platform's CRDs. Increased with each change, so that an older server does not replace a newer
/// definition.
pub const CURRENT_CRD_REVISION: u32 = 7;

/// A CRD and how it is installed.
pub struct CrdDefinition {
    pub crd: CustomResourceDefinition,
    /// Kind of another project: created if absent, never changed.
    pub is_foreign: bool,
}

/// Every CRD, in the order of installation.
pub fn all() -> Vec<CrdDefinition> {
    let of = |mut crd: CustomResourceDefinition, foreign: bool| {
        crd.metadata
            .annotations
            .get_or_insert_default()
            .insert(CRD_REVISION.to_owned(), CURRENT_CRD_REVISION.to_string());
        CrdDefinition { crd, is_foreign: foreign }
    };
    vec![
        of(User::crd(), true),
        of(node_pool::crd(), true),
        of(Workspace::crd(), false),
        of(HelmRepo::crd(), false),
        of(HelmPackage::crd(), false),
        of(HelmRequest::crd(), false),
        of(HelmRelease::crd(), false),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_as_they_are_installed() {
        let all: Vec<_> = all().into_iter().map(|definition| definition.crd).collect();
        insta::assert_json_snapshot!(all);
    }
}
