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
use kube_types::definitions::Definition;
use kube_types::marks::CRD_REVISION;
use tokio::time::{sleep, timeout};

/// Timeout until a kind is served.
const LIMIT: Duration = Duration::from_secs(30);
/// Polling interval while a CRD changes.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a CRD could not be installed. The existing CRD is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(
        "the cluster has a definition `{name}` of scope {theirs}; ours is of scope {ours}, and both cannot be"
    )]
    Scope { name: String, theirs: String, ours: String },
    #[error(
        "the cluster has a definition `{name}` of another project that serves none of the versions {versions}"
    )]
    Versions { name: String, versions: String },
    #[error("cannot bring in the definition `{name}`")]
    Call { name: String, source: Box<kube::Error> },
    #[error("cannot see whether the cluster serves `{name}`")]
    Wait { name: String, source: Box<wait::Error> },
    #[error("the cluster does not serve `{name}` within {} s of its definition", LIMIT.as_secs())]
    NotServed { name: String },
}

/// The action for one CRD.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create,
    Apply,
    Leave,
    /// It is being deleted, and is created once it is gone.
    Wait,
}

/// Installs the CRDs in order and waits until each is served.
pub async fn install(client: &Client, definitions: Vec<Definition>) -> Result<(), InstallError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for definition in &definitions {
        let name = definition.crd.name_any();
        match timeout(LIMIT, bring_in(&api, &name, definition)).await {
            Ok(done) => done?,
            Err(_) => return Err(InstallError::NotServed { name }),
        }
    }
    Ok(())
}

async fn bring_in(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    definition: &Definition,
) -> Result<(), InstallError> {
    let failed = |source| InstallError::Call { name: name.to_owned(), source: Box::new(source) };
    loop {
        let found = api.get_opt(name).await.map_err(failed)?;
        let written = match decide(found.as_ref(), definition)? {
            Step::Leave => break,
            Step::Wait => {
                sleep(PAUSE).await;
                continue;
            }
            Step::Create => {
                let manager = Some(FIELD_MANAGER.to_owned());
                api.create(&PostParams { field_manager: manager, dry_run: false }, &definition.crd).await
            }
            Step::Apply => {
                let params = PatchParams::apply(FIELD_MANAGER).force();
                api.patch(name, &params, &Patch::Apply(&definition.crd)).await
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(definition = name, "brought in a definition");
                break;
            }
            // Created concurrently: read it and decide again.
            Err(kube::Error::Api(status)) if status.is_already_exists() => sleep(PAUSE).await,
            Err(error) => return Err(failed(error)),
        }
    }
    let served = await_condition(api.clone(), name, is_crd_established()).await;
    served.map_err(|source| InstallError::Wait { name: name.to_owned(), source: Box::new(source) })?;
    Ok(())
}

/// Pure: no I/O, no clock.
fn decide(found: Option<&CustomResourceDefinition>, definition: &Definition) -> Result<Step, InstallError> {
    let Definition { crd: ours, foreign } = definition;
    let Some(theirs) = found else {
        return Ok(if *foreign { Step::Create } else { Step::Apply });
    };
    if theirs.metadata.deletion_timestamp.is_some() {
        return Ok(Step::Wait);
    }
    let name = ours.name_any();
    if theirs.spec.scope != ours.spec.scope {
        let (theirs, ours) = (theirs.spec.scope.clone(), ours.spec.scope.clone());
        return Err(InstallError::Scope { name, theirs, ours });
    }
    if *foreign {
        let made_by_us = theirs.annotations().contains_key(CRD_REVISION);
        if made_by_us && revision(theirs) < revision(ours) {
            return Ok(Step::Apply);
        }
        let served = |crd: &CustomResourceDefinition| -> Vec<String> {
            let versions = crd.spec.versions.iter().filter(|version| version.served);
            versions.map(|version| version.name.clone()).collect()
        };
        let (ours, theirs) = (served(ours), served(theirs));
        if !ours.iter().any(|version| theirs.contains(version)) {
            return Err(InstallError::Versions { name, versions: ours.join(", ") });
        }
        return Ok(Step::Leave);
    }
    Ok(if revision(theirs) > revision(ours) { Step::Leave } else { Step::Apply })
}

fn revision(crd: &CustomResourceDefinition) -> u32 {
    crd.annotations().get(CRD_REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
