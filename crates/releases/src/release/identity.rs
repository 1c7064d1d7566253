//! As whom a release acts.
//!
//! Always true: nothing that a tenant can write decides it but the name of a ServiceAccount of the release's own namespace.

use domain::Kind;
use domain::actor::Impersonation;
use kube::ResourceExt;
use kube_access::Feed;
use kube_types::release::{DEPLOYER, RequestRef};
use kube_types::{HelmRelease, HelmRequest};

use crate::people::{People, Person};
use crate::requests::wanted;
use crate::tell::Failure;

/// Whose rights a release has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub acts_as: Impersonation,
    /// It may have objects of the whole cluster.
    pub administrates: bool,
    /// For people.
    pub by: String,
    /// The version that its request goes back to.
    pub rollback_of: Option<i64>,
}

/// As whom this release acts now.
pub(crate) fn identity(
    release: &HelmRelease,
    requests: &Feed<HelmRequest>,
    people: &dyn People,
) -> Result<Identity, Failure> {
    match &release.spec.request_ref {
        None => Ok(of_service_account(release)),
        Some(reference) => of_person(release, reference, requests.get(&reference.name).as_deref(), people),
    }
}

/// The ServiceAccount that a release names, or the one that every namespace of a workspace has.
pub(crate) fn of_service_account(release: &HelmRelease) -> Identity {
    let name = release.spec.service_account_name.as_deref().unwrap_or(DEPLOYER);
    let acts_as = Impersonation::service_account(&release.namespace().unwrap_or_default(), name);
    Identity { by: acts_as.user().to_owned(), acts_as, administrates: false, rollback_of: None }
}

fn of_person(
    release: &HelmRelease,
    reference: &RequestRef,
    request: Option<&HelmRequest>,
    people: &dyn People,
) -> Result<Identity, Failure> {
    let forbidden = |reason, message: String| Failure { kind: Kind::Forbidden, reason, message };
    let request = request.filter(|request| wanted::belongs(release, request)).ok_or_else(|| {
        // A request that was made just now is heard of in a moment.
        let message = format!("there is no request `{}` that this release belongs to", reference.name);
        Failure { kind: Kind::Unavailable, reason: "NoRequest", message }
    })?;
    // Somebody changed the release behind the request's back: it is put right before anything is done for it.
    if release.spec != wanted::spec(request) {
        let message = "the release is not what its request asks for, and is about to be put right".to_owned();
        return Err(Failure { kind: Kind::Conflict, reason: "NotAsRequested", message });
    }
    let run_as = &request.spec.run_as;
    let user = run_as
        .user
        .parse()
        .map_err(|error: domain::ids::IdError| forbidden("NoPerson", error.to_string()))?;
    let Person { acts_as, administrates } = people.person(&user, &run_as.uid).ok_or_else(|| {
        let message = format!("the account of `{user}`, as whom the release acts, is closed or gone");
        forbidden("NoPerson", message)
    })?;
    Ok(Identity { acts_as, administrates, by: user.to_string(), rollback_of: request.spec.rollback_of })
}
