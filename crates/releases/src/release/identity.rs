//! As whom a release acts.
//!
//! Always true: nothing that a tenant can write decides it but the name of a ServiceAccount of the release's own namespace.

use domain::Kind;
use domain::actor::Impersonation;
use kube::ResourceExt;
use kube_access::Feed;
use kube_types::release::{DEPLOYER, RequestRef};
use kube_types::{HelmRelease, HelmRequest};

use crate::people::People;
use crate::requests::wanted;
use crate::tell::Failure;

/// Whose rights a release has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub acts_as: Impersonation,
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
    Identity { by: acts_as.user().to_owned(), acts_as, rollback_of: None }
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
    let acts_as = people.acts_as(&user, &run_as.uid).ok_or_else(|| {
        let message = format!("the account of `{user}`, as whom the release acts, is closed or gone");
        forbidden("NoPerson", message)
    })?;
    Ok(Identity { acts_as, by: user.to_string(), rollback_of: request.spec.rollback_of })
}

#[cfg(test)]
mod tests {
    use domain::ids::{UserId, WorkspaceName};
    use kube_types::HelmRequestSpec;
    use kube_types::request::RunAs;

    use super::*;

    struct One;

    impl People for One {
        fn acts_as(&self, user: &UserId, uid: &str) -> Option<Impersonation> {
            (uid == "uid-1").then(|| Impersonation::service_account("somebody", user.as_str()))
        }

        fn workspace_of(&self, _: &str) -> Option<WorkspaceName> {
            None
        }
    }

    fn request(uid: &str) -> HelmRequest {
        let run_as = RunAs { user: UserId::from_random([7; 10]).to_string(), uid: uid.to_owned() };
        let spec = HelmRequestSpec {
            release_name: "web".to_owned(),
            namespace: "shop".to_owned(),
            run_as,
            ..HelmRequestSpec::default()
        };
        let mut request = HelmRequest::new("req-1", spec);
        request.metadata.uid = Some("request-1".to_owned());
        request
    }

    fn refused(release: &HelmRelease, request: Option<&HelmRequest>) -> &'static str {
        let reference = release.spec.request_ref.clone().unwrap();
        of_person(release, &reference, request, &One).map_or_else(|failure| failure.reason, |_| "nobody")
    }

    #[test]
    fn a_release_acts_for_a_person_only_as_that_person_asked() {
        let ours = request("uid-1");
        let release = wanted::release(&ours);
        assert_eq!(refused(&release, Some(&ours)), "nobody");
        assert_eq!(refused(&release, None), "NoRequest");
        let mut other = release.clone();
        other.spec.values_object = Some(serde_json::Map::new());
        assert_eq!(refused(&other, Some(&ours)), "NotAsRequested");
        let mut elsewhere = release.clone();
        elsewhere.metadata.namespace = Some("mine".to_owned());
        assert_eq!(refused(&elsewhere, Some(&ours)), "NoRequest");
        let mut former = release.clone();
        former.spec.request_ref.as_mut().unwrap().uid = "request-0".to_owned();
        assert_eq!(refused(&former, Some(&ours)), "NoRequest");
        // The account of that name is another's now.
        let closed = request("uid-0");
        assert_eq!(refused(&wanted::release(&closed), Some(&closed)), "NoPerson");
    }
}
