//! Installation of CustomResourceDefinitions.
//!
//! The platform's own CRDs are applied, unless a newer server has installed a newer revision. CRDs of other projects are created if
//! absent. One that was installed by others is never changed; one that an older server of this platform created is updated.
//! An existing CRD that is incompatible is an error that names it.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::{self, await_condition};
use kube::{Client, ResourceExt};
use kube_types::FIELD_MANAGER;
use kube_types::definitions::CrdDefinition;
use kube_types::well_known::CRD_REVISION;
use tokio::time::{sleep, timeout};

/// Timeout until a kind is served.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);
/// Polling interval while a CRD changes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why a CRD could not be installed. The existing CRD is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CrdInstallError {
    #[error("CRD `{name}` on the cluster has scope {theirs}, but scope {ours} is required")]
    Scope { name: String, theirs: String, ours: String },
    #[error("CRD `{name}` on the cluster serves none of the versions {versions}")]
    Versions { name: String, versions: String },
    #[error("cannot install CRD `{name}`")]
    Call { name: String, source: Box<kube::Error> },
    #[error("cannot determine whether the cluster serves `{name}`")]
    Wait { name: String, source: Box<wait::Error> },
    #[error("the cluster does not serve `{name}` within {} s of the installation of its CRD", ESTABLISHED_TIMEOUT.as_secs())]
    NotServed { name: String },
}

/// The action for one CRD.
#[derive(Debug, PartialEq, Eq)]
enum CrdAction {
    Create,
    Apply,
    Keep,
    /// It is being deleted, and is created once it is gone.
    AwaitDeletion,
}

/// Installs the CRDs in order and waits until each is served.
pub async fn install_crds(client: &Client, definitions: Vec<CrdDefinition>) -> Result<(), CrdInstallError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for definition in &definitions {
        let name = definition.crd.name_any();
        match timeout(ESTABLISHED_TIMEOUT, install_crd(&api, &name, definition)).await {
            Ok(done) => done?,
            Err(_) => return Err(CrdInstallError::NotServed { name }),
        }
    }
    Ok(())
}

async fn install_crd(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    definition: &CrdDefinition,
) -> Result<(), CrdInstallError> {
    let failed = |source| CrdInstallError::Call { name: name.to_owned(), source: Box::new(source) };
    loop {
        let found = api.get_opt(name).await.map_err(failed)?;
        let written = match decide(found.as_ref(), definition)? {
            CrdAction::Keep => break,
            CrdAction::AwaitDeletion => {
                sleep(POLL_INTERVAL).await;
                continue;
            }
            CrdAction::Create => {
                let manager = Some(FIELD_MANAGER.to_owned());
                api.create(&PostParams { field_manager: manager, dry_run: false }, &definition.crd).await
            }
            CrdAction::Apply => {
                let params = PatchParams::apply(FIELD_MANAGER).force();
                api.patch(name, &params, &Patch::Apply(&definition.crd)).await
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(definition = name, "installed a CRD");
                break;
            }
            // Created concurrently: read it and decide again.
            Err(kube::Error::Api(status)) if status.is_already_exists() => sleep(POLL_INTERVAL).await,
            Err(error) => return Err(failed(error)),
        }
    }
    let served = await_condition(api.clone(), name, is_crd_established()).await;
    served.map_err(|source| CrdInstallError::Wait { name: name.to_owned(), source: Box::new(source) })?;
    Ok(())
}

/// Pure: no I/O, no clock.
fn decide(
    found: Option<&CustomResourceDefinition>,
    definition: &CrdDefinition,
) -> Result<CrdAction, CrdInstallError> {
    let CrdDefinition { crd: ours, is_foreign: foreign } = definition;
    let Some(theirs) = found else {
        return Ok(if *foreign { CrdAction::Create } else { CrdAction::Apply });
    };
    if theirs.metadata.deletion_timestamp.is_some() {
        return Ok(CrdAction::AwaitDeletion);
    }
    let name = ours.name_any();
    if theirs.spec.scope != ours.spec.scope {
        let (theirs, ours) = (theirs.spec.scope.clone(), ours.spec.scope.clone());
        return Err(CrdInstallError::Scope { name, theirs, ours });
    }
    if *foreign {
        let made_by_us = theirs.annotations().contains_key(CRD_REVISION);
        if made_by_us && revision(theirs) < revision(ours) {
            return Ok(CrdAction::Apply);
        }
        let served = |crd: &CustomResourceDefinition| -> Vec<String> {
            let versions = crd.spec.versions.iter().filter(|version| version.served);
            versions.map(|version| version.name.clone()).collect()
        };
        let (ours, theirs) = (served(ours), served(theirs));
        if !ours.iter().any(|version| theirs.contains(version)) {
            return Err(CrdInstallError::Versions { name, versions: ours.join(", ") });
        }
        return Ok(CrdAction::Keep);
    }
    Ok(if revision(theirs) > revision(ours) { CrdAction::Keep } else { CrdAction::Apply })
}

fn revision(crd: &CustomResourceDefinition) -> u32 {
    crd.annotations().get(CRD_REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
