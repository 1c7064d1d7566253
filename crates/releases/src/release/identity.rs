//! Identities of a release: the impersonation for each kind of work.
//!
//! Invariants: the only input that a tenant can write is the name of a `ServiceAccount` in the release's own namespace. A user's identity
//! has exactly one group, that of the release's workspace, by the user's current role there and limited by the scope of the token.

use domain::ErrorKind;
use domain::actor::Impersonation;
use domain::ids::WorkspaceName;
use kube::ResourceExt;
use kube_access::WatchCache;
use kube_types::release::{DEPLOYER, RequestRef};
use kube_types::{HelmRelease, HelmRequest};

use crate::requests::release_spec;
use crate::status_update::StatusFailure;
use crate::tenant_directory::{TenantDirectory, is_of_current_workspace};

/// The impersonations of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseIdentity {
    pub impersonation: Impersonation,
    /// Executes content of Helm records that are not trusted.
    pub untrusted: Impersonation,
    /// Writes objects that `impersonation` may not, in the one operation that a platform administrator requested.
    pub administrator: Option<Impersonation>,
    /// The display name in statuses and history.
    pub by: String,
    /// The version that a rollback request restores.
    pub rollback_of: Option<i64>,
}

/// Determines the current identity of a release.
pub(crate) fn resolve_identity(
    release: &HelmRelease,
    requests: &WatchCache<HelmRequest>,
    people: &dyn TenantDirectory,
) -> Result<ReleaseIdentity, StatusFailure> {
    match &release.spec.request_ref {
        None => Ok(service_account_identity(release)),
        Some(reference) => {
            user_identity(release, reference, requests.get(&reference.name).as_deref(), people)
        }
    }
}

/// The `ServiceAccount` that a release names, or the deployer, which every workspace namespace has.
fn service_account_identity(release: &HelmRelease) -> ReleaseIdentity {
    let namespace = release.namespace().unwrap_or_default();
    let name = release.spec.service_account_name.as_deref().unwrap_or(DEPLOYER);
    let acts_as = Impersonation::service_account(&namespace, name);
    ReleaseIdentity { impersonation: acts_as, ..deployer_identity(&namespace) }.with_display_name()
}

/// The deployer of a namespace: the fallback identity, and the one for untrusted records.
pub(crate) fn deployer_identity(namespace: &str) -> ReleaseIdentity {
    let acts_as = Impersonation::service_account(namespace, DEPLOYER);
    let foreign = acts_as.clone();
    ReleaseIdentity {
        impersonation: acts_as,
        untrusted: foreign,
        administrator: None,
        by: String::new(),
        rollback_of: None,
    }
    .with_display_name()
}

impl ReleaseIdentity {
    fn with_display_name(self) -> Self {
        Self { by: self.impersonation.user().to_owned(), ..self }
    }

    /// The identity of a user who calls the API.
    pub fn for_caller(acts_as: Impersonation, by: String, namespace: &str) -> Self {
        Self { impersonation: acts_as, by, ..deployer_identity(namespace) }
    }
}

/// The administrator whose rights the current version of a release may use until that version is deployed.
///
/// The grant is part of the request, which only the platform writes. It names one version: later versions do not have it, nor does any
/// reconcile after the deployment.
pub(crate) fn granted_administrator(
    release: &HelmRelease,
    requests: &WatchCache<HelmRequest>,
    people: &dyn TenantDirectory,
) -> Result<Option<Impersonation>, StatusFailure> {
    let Some(reference) = &release.spec.request_ref else { return Ok(None) };
    match requests.get(&reference.name) {
        Some(request) if release_spec::is_owned_by(release, &request) => {
            check_grant(release, &request, people)
        }
        _ => Ok(None),
    }
}

fn check_grant(
    release: &HelmRelease,
    request: &HelmRequest,
    people: &dyn TenantDirectory,
) -> Result<Option<Impersonation>, StatusFailure> {
    let Some(grant) = &request.spec.as_administrator else { return Ok(None) };
    let deployed = release.status.as_ref().map_or(0, |status| status.version);
    let version = request.spec.version;
    if grant.version != version || release.spec.version != version || deployed >= version {
        return Ok(None);
    }
    administrator_impersonation(&grant.user, &grant.uid, people).map(Some).map_err(|why| StatusFailure {
        kind: ErrorKind::Forbidden,
        reason: "NoAdministrator",
        message: format!(
            "version {version} cannot use the permissions of administrator `{}`: {why}",
            grant.user
        ),
    })
}

/// A platform administrator, by the id and UID of the account.
pub(crate) fn administrator_impersonation(
    user: &str,
    uid: &str,
    people: &dyn TenantDirectory,
) -> Result<Impersonation, String> {
    let user = user.parse().map_err(|error: domain::ids::IdError| error.to_string())?;
    people.administrator_impersonation(&user, uid).map_err(|error| error.to_string())
}

fn user_identity(
    release: &HelmRelease,
    reference: &RequestRef,
    request: Option<&HelmRequest>,
    people: &dyn TenantDirectory,
) -> Result<ReleaseIdentity, StatusFailure> {
    let forbidden = |reason, message: String| StatusFailure { kind: ErrorKind::Forbidden, reason, message };
    let request = request.filter(|request| release_spec::is_owned_by(release, request)).ok_or_else(|| {
        // The watch may not have delivered a new request yet.
        let message = format!("HelmRequest `{}` of this release not found", reference.name);
        StatusFailure { kind: ErrorKind::Unavailable, reason: "NoRequest", message }
    })?;
    // A client changed the release directly. The request controller restores it before any operation.
    if release.spec != release_spec::build_spec(request) {
        let message = "the release differs from its HelmRequest and is being corrected".to_owned();
        return Err(StatusFailure { kind: ErrorKind::Conflict, reason: "NotAsRequested", message });
    }
    let run_as = &request.spec.run_as;
    if run_as.user.is_empty() {
        // The content comes from a Helm record that is not trusted.
        let rollback_of = request.spec.rollback_of;
        return Ok(ReleaseIdentity { rollback_of, ..deployer_identity(&request.spec.namespace) });
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
    if !is_of_current_workspace(people, &workspace, &request.metadata) {
        let message = format!("the request belongs to a former workspace named `{workspace}`");
        return Err(forbidden("NoPerson", message));
    }
    let acts_as = people.impersonation_of(&user, &run_as.uid, &workspace, &run_as.scope).map_err(|why| {
        let message = format!(
            "the release cannot act as `{user}`, who last changed its chart or values: {why}; upgrade it as another user"
        );
        forbidden("NoPerson", message)
    })?;
    let rollback_of = request.spec.rollback_of;
    Ok(ReleaseIdentity { rollback_of, ..ReleaseIdentity::for_caller(acts_as, user.to_string(), namespace) })
}

#[cfg(test)]
mod tests {
    use domain::ids::UserId;
    use kube_types::HelmRequestSpec;
    use kube_types::request::{AdministratorGrant, RunAs};

    use super::*;
    use crate::tenant_directory::IdentityError;

    struct SingleAccount;

    impl TenantDirectory for SingleAccount {
        fn impersonation_of(
            &self,
            user: &UserId,
            uid: &str,
            workspace: &WorkspaceName,
            scope: &[String],
        ) -> Result<Impersonation, IdentityError> {
            let known = uid == "uid-1" && workspace.as_str() == "team" && scope.is_empty();
            known
                .then(|| Impersonation::service_account("somebody", user.as_str()))
                .ok_or(IdentityError::AccountNotActive)
        }

        fn administrator_impersonation(
            &self,
            user: &UserId,
            uid: &str,
        ) -> Result<Impersonation, IdentityError> {
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

    fn refusal_reason(release: &HelmRelease, request: Option<&HelmRequest>) -> &'static str {
        let reference = release.spec.request_ref.clone().unwrap();
        user_identity(release, &reference, request, &SingleAccount)
            .map_or_else(|failure| failure.reason, |_| "nobody")
    }

    #[test]
    fn user_identity_requires_the_matching_request() {
        let ours = request("uid-1");
        let release = release_spec::build_release(&ours);
        assert_eq!(refusal_reason(&release, Some(&ours)), "nobody");
        assert_eq!(refusal_reason(&release, None), "NoRequest");
        let mut other = release.clone();
        other.spec.values_object = Some(serde_json::Map::new());
        assert_eq!(refusal_reason(&other, Some(&ours)), "NotAsRequested");
        let mut elsewhere = release.clone();
        elsewhere.metadata.namespace = Some("mine".to_owned());
        assert_eq!(refusal_reason(&elsewhere, Some(&ours)), "NoRequest");
        let mut former = release.clone();
        former.spec.request_ref.as_mut().unwrap().uid = "request-0".to_owned();
        assert_eq!(refusal_reason(&former, Some(&ours)), "NoRequest");
        // The namespace belongs to another workspace now.
        let mut moved = ours.clone();
        moved.spec.namespace = "others".to_owned();
        assert_eq!(refusal_reason(&release_spec::build_release(&moved), Some(&moved)), "NoPerson");
        // The scope of the token that changed the request covers another workspace.
        let mut scoped = ours.clone();
        scoped.spec.run_as.scope = vec!["workspace:other".to_owned()];
        assert_eq!(refusal_reason(&release_spec::build_release(&scoped), Some(&scoped)), "NoPerson");
        // The account name was reassigned to another account.
        let closed = request("uid-0");
        assert_eq!(refusal_reason(&release_spec::build_release(&closed), Some(&closed)), "NoPerson");
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
            let mut release = release_spec::build_release(&request);
            release.status.get_or_insert_default().version = deployed;
            let is = check_grant(&release, &request, &SingleAccount).map(|found| found.is_some());
            assert_eq!(is.map_err(|failure| failure.reason), expected, "{grant:?} {version} {deployed}");
            // The identity for immediate actions never has the grant.
            let reference = release.spec.request_ref.clone().unwrap();
            let identity = user_identity(&release, &reference, Some(&request), &SingleAccount).unwrap();
            assert_eq!(identity.administrator, None);
        }
    }
}
