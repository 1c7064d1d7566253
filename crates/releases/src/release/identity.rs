//! Identities of a release: the impersonation for each kind of work.
//!
//! Invariants: the only input that a tenant can write is the name of a `ServiceAccount` in the release's own namespace. A user's identity
//! has exactly one group, that of the release's workspace, by the user's current role there and limited by the scope of the token.

use domain::Kind;
use domain::actor::Impersonation;
use domain::ids::WorkspaceName;
use kube::ResourceExt;
use kube_access::Feed;
use kube_types::release::{DEPLOYER, RequestRef};
use kube_types::{HelmRelease, HelmRequest};

use crate::people::{People, is_of_living_workspace};
use crate::requests::wanted;
use crate::tell::Failure;

/// The impersonations of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub acts_as: Impersonation,
    /// Executes content of Helm records that are not trusted.
    pub foreign: Impersonation,
    /// Writes objects that `acts_as` may not, in the one operation that a platform administrator requested.
    pub administrator: Option<Impersonation>,
    /// The display name in statuses and history.
    pub by: String,
    /// The version that a rollback request restores.
    pub rollback_of: Option<i64>,
}

/// Determines the current identity of a release.
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

/// The `ServiceAccount` that a release names, or the deployer, which every workspace namespace has.
fn of_service_account(release: &HelmRelease) -> Identity {
    let namespace = release.namespace().unwrap_or_default();
    let name = release.spec.service_account_name.as_deref().unwrap_or(DEPLOYER);
    let acts_as = Impersonation::service_account(&namespace, name);
    Identity { acts_as, ..of_deployer(&namespace) }.named()
}

/// The deployer of a namespace: the fallback identity, and the one for untrusted records.
pub(crate) fn of_deployer(namespace: &str) -> Identity {
    let acts_as = Impersonation::service_account(namespace, DEPLOYER);
    let foreign = acts_as.clone();
    Identity { acts_as, foreign, administrator: None, by: String::new(), rollback_of: None }.named()
}

impl Identity {
    fn named(self) -> Self {
        Self { by: self.acts_as.user().to_owned(), ..self }
    }

    /// The identity of a user who calls the API.
    pub fn of_caller(acts_as: Impersonation, by: String, namespace: &str) -> Self {
        Self { acts_as, by, ..of_deployer(namespace) }
    }
}

/// The administrator whose rights the current version of a release may use until that version is deployed.
///
/// The grant is part of the request, which only the platform writes. It names one version: later versions do not have it, nor does any
/// reconcile after the deployment.
pub(crate) fn administrator(
    release: &HelmRelease,
    requests: &Feed<HelmRequest>,
    people: &dyn People,
) -> Result<Option<Impersonation>, Failure> {
    let Some(reference) = &release.spec.request_ref else { return Ok(None) };
    match requests.get(&reference.name) {
        Some(request) if wanted::belongs(release, &request) => granted(release, &request, people),
        _ => Ok(None),
    }
}

fn granted(
    release: &HelmRelease,
    request: &HelmRequest,
    people: &dyn People,
) -> Result<Option<Impersonation>, Failure> {
    let Some(grant) = &request.spec.as_administrator else { return Ok(None) };
    let deployed = release.status.as_ref().map_or(0, |status| status.version);
    let version = request.spec.version;
    if grant.version != version || release.spec.version != version || deployed >= version {
        return Ok(None);
    }
    administrator_of(&grant.user, &grant.uid, people).map(Some).map_err(|why| Failure {
        kind: Kind::Forbidden,
        reason: "NoAdministrator",
        message: format!("version {version} cannot use the rights of administrator `{}`: {why}", grant.user),
    })
}

/// A platform administrator, by the id and UID of the account.
pub(crate) fn administrator_of(user: &str, uid: &str, people: &dyn People) -> Result<Impersonation, String> {
    let user = user.parse().map_err(|error: domain::ids::IdError| error.to_string())?;
    people.administrator(&user, uid).map_err(|error| error.to_string())
}

fn of_person(
    release: &HelmRelease,
    reference: &RequestRef,
    request: Option<&HelmRequest>,
    people: &dyn People,
) -> Result<Identity, Failure> {
    let forbidden = |reason, message: String| Failure { kind: Kind::Forbidden, reason, message };
    let request = request.filter(|request| wanted::belongs(release, request)).ok_or_else(|| {
        // The watch may not have delivered a new request yet.
        let message = format!("there is no request `{}` that this release belongs to", reference.name);
        Failure { kind: Kind::Unavailable, reason: "NoRequest", message }
    })?;
    // A client changed the release directly. The request controller restores it before any operation.
    if release.spec != wanted::spec(request) {
        let message = "the release is not what its request asks for, and is about to be put right".to_owned();
        return Err(Failure { kind: Kind::Conflict, reason: "NotAsRequested", message });
    }
    let run_as = &request.spec.run_as;
    if run_as.user.is_empty() {
        // The content comes from a Helm record that is not trusted.
        let rollback_of = request.spec.rollback_of;
        return Ok(Identity { rollback_of, ..of_deployer(&request.spec.namespace) });
    }
    let user = run_as
        .user
        .parse()
        .map_err(|error: domain::ids::IdError| forbidden("NoPerson", error.to_string()))?;
    let workspace: WorkspaceName = request
        .spec
        .workspace
        .parse()
        .map_err(|error: domain::ids::IdError| forbidden("NoPerson", error.to_string()))?;
    let namespace = &request.spec.namespace;
    if people.workspace_of(namespace).is_some_and(|owner| owner != workspace) {
        let message = format!("namespace `{namespace}` does not belong to workspace `{workspace}`");
        return Err(forbidden("NoPerson", message));
    }
    if !is_of_living_workspace(people, &workspace, &request.metadata) {
        let message = format!("the request belongs to a former workspace named `{workspace}`");
        return Err(forbidden("NoPerson", message));
    }
    let acts_as = people.acts_as(&user, &run_as.uid, &workspace, &run_as.scope).map_err(|why| {
        let message = format!(
            "the release cannot act as `{user}`, who changed its chart or values last: {why}; upgrade it as somebody else"
        );
        forbidden("NoPerson", message)
    })?;
    let rollback_of = request.spec.rollback_of;
    Ok(Identity { rollback_of, ..Identity::of_caller(acts_as, user.to_string(), namespace) })
}

#[cfg(test)]
mod tests {
    use domain::ids::UserId;
    use kube_types::HelmRequestSpec;
    use kube_types::request::{AdministratorGrant, RunAs};

    use super::*;
    use crate::people::IdentityError;

    struct One;

    impl People for One {
        fn acts_as(
            &self,
            user: &UserId,
            uid: &str,
            workspace: &WorkspaceName,
            scope: &[String],
        ) -> Result<Impersonation, IdentityError> {
            let known = uid == "uid-1" && workspace.as_str() == "team" && scope.is_empty();
            known
                .then(|| Impersonation::service_account("somebody", user.as_str()))
                .ok_or(IdentityError::NoAccount)
        }

        fn administrator(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError> {
            (uid == "uid-1")
                .then(|| Impersonation::administrator(user))
                .ok_or(IdentityError::NotAdministrator)
        }

        fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
            (namespace == "others").then(|| "other".parse().unwrap())
        }
    }

    fn request(uid: &str) -> HelmRequest {
        let run_as =
            RunAs { user: UserId::from_random([7; 10]).to_string(), uid: uid.to_owned(), scope: Vec::new() };
        let spec = HelmRequestSpec {
            release_name: "web".to_owned(),
            workspace: "team".to_owned(),
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
        // The namespace belongs to another workspace now.
        let mut moved = ours.clone();
        moved.spec.namespace = "others".to_owned();
        assert_eq!(refused(&wanted::release(&moved), Some(&moved)), "NoPerson");
        // The scope of the token that changed the request covers another workspace.
        let mut scoped = ours.clone();
        scoped.spec.run_as.scope = vec!["workspace:other".to_owned()];
        assert_eq!(refused(&wanted::release(&scoped), Some(&scoped)), "NoPerson");
        // The account name was reassigned to another account.
        let closed = request("uid-0");
        assert_eq!(refused(&wanted::release(&closed), Some(&closed)), "NoPerson");
    }

    #[test]
    fn administrator_grant_holds_for_its_version_until_it_is_deployed() {
        let grant = |uid: &str, version| {
            let user = UserId::from_random([7; 10]).to_string();
            Some(AdministratorGrant { user, uid: uid.to_owned(), version })
        };
        // Columns: grant, desired version, deployed version, result.
        let rows = [
            (grant("uid-1", 2), 2, 1, Ok(true)),
            (grant("uid-1", 2), 2, 0, Ok(true)),
            (grant("uid-1", 2), 2, 2, Ok(false)),
            (grant("uid-1", 2), 3, 1, Ok(false)),
            (grant("uid-1", 2), 3, 2, Ok(false)),
            (None, 2, 1, Ok(false)),
            (grant("uid-0", 2), 2, 1, Err("NoAdministrator")),
        ];
        for (grant, version, deployed, expected) in rows {
            let mut request = request("uid-1");
            (request.spec.as_administrator, request.spec.version) = (grant.clone(), version);
            let mut release = wanted::release(&request);
            release.status.get_or_insert_default().version = deployed;
            let is = granted(&release, &request, &One).map(|found| found.is_some());
            assert_eq!(is.map_err(|failure| failure.reason), expected, "{grant:?} {version} {deployed}");
            // The identity for immediate actions never has the grant.
            let reference = release.spec.request_ref.clone().unwrap();
            let identity = of_person(&release, &reference, Some(&request), &One).unwrap();
            assert_eq!(identity.administrator, None);
        }
    }
}
