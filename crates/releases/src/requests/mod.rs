//! The request controller: creates the release of a request and mirrors its status.
//!
//! A reconcile observes (caches), decides (pure), writes (idempotent) and updates the status. The release is authoritative; the status of
//! its request is a copy.
//!
//! Invariant: a release is created, changed or deleted here only if its `requestRef` names this request, including its UID.
//!
//! Modules:
//!
//! * [`wanted`]: the desired release.
//! * [`mirror`]: the status of the request.

pub(crate) mod mirror;
pub(crate) mod wanted;

use std::sync::Arc;
use std::time::Duration;

use chart_store::failure::reason;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use kube_access::queue::Next;
use kube_types::marks::{RELEASE_FINALIZER, REQUEST, REQUEST_FINALIZER};
use kube_types::{HelmRelease, HelmRequest, HelmRequestStatus, SYSTEM_NAMESPACE};
use serde_json::json;

use crate::error::{Doing, PassError};
use crate::lead::Controller;
use mirror::Found;

/// Requeue delay for events that the watch should have delivered by then.
const AGAIN: Duration = Duration::from_secs(10);

/// Requeue delay while the cache lacks an own write.
pub(crate) const UNHEARD: Duration = Duration::from_secs(1);

/// Annotation of a request that is being deleted: also delete the claims of its StatefulSets.
pub(crate) const DELETE_CLAIMS: &str = "longshore.dev/delete-claims";
/// Annotation of a request that is being deleted: force the deletion. Only the platform writes requests.
pub(crate) const FORCE_DELETE: &str = "longshore.dev/force-delete";

/// Annotation of a request that is being deleted with `asAdministrator`: the id and UID of the platform administrator, separated by a
/// slash.
pub(crate) const UNINSTALL_AS_ADMINISTRATOR: &str = "longshore.dev/uninstall-as-administrator";

impl Controller {
    pub(crate) async fn pass_request(&self, name: &str) -> Result<Next, PassError> {
        let Some(request) = self.requests.get(name) else {
            self.soon_of_requests.forget(&name.to_owned());
            self.told_requests.forget(&name.to_owned());
            return Ok(Next::Rest);
        };
        if self.told_requests.is_ahead_of(&request.name_any(), request.metadata.resource_version.as_deref()) {
            return Ok(Next::After(UNHEARD));
        }
        let release = self.releases.get_in(&request.spec.namespace, &request.spec.release_name);
        if request.metadata.deletion_timestamp.is_some() {
            return self.remove_request(&request, release).await;
        }
        let request = self.hold_request(request).await?;
        let dispatched = self.dispatch(&request, release).await?;
        if let Found::Ours(release) = &dispatched
            && release.status.as_ref().is_none_or(|status| status.state.is_empty())
        {
            // The release was just created and has no status yet; its first status triggers the next reconcile.
            return Ok(Next::Rest);
        }
        let status = mirror::status(&request, &dispatched, self.clock.now());
        if request.status.as_ref() != Some(&status)
            && let Some(wait) = self.soon_of_requests.wait(&request.name_any(), &status.state)
        {
            return Ok(Next::After(wait));
        }
        self.tell_request(&request, status).await?;
        Ok(match dispatched {
            Found::Ours(_) | Found::Taken(_) => Next::Rest,
            Found::Refused(_) => Next::After(AGAIN),
        })
    }

    /// Adds the finalizer. No release is created before it, because deletion depends on it.
    async fn hold_request(&self, request: Arc<HelmRequest>) -> Result<Arc<HelmRequest>, PassError> {
        if request.finalizers().iter().any(|finalizer| finalizer == REQUEST_FINALIZER) {
            return Ok(request);
        }
        let finalizers: Vec<&str> =
            request.finalizers().iter().map(String::as_str).chain([REQUEST_FINALIZER]).collect();
        let patch = json!({
            "metadata": { "resourceVersion": request.resource_version(), "finalizers": finalizers },
        });
        let name = request.name_any();
        let held = self.request_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(Arc::new(held.doing(|| format!("hold request `{name}`"))?))
    }

    /// Creates or updates the release to match the request.
    async fn dispatch(
        &self,
        request: &HelmRequest,
        release: Option<Arc<HelmRelease>>,
    ) -> Result<Found, PassError> {
        let wanted = wanted::release(request);
        let api = self.release_api(&request.spec.namespace);
        let Some(release) = release else {
            return match api.create(&PostParams::default(), &wanted).await {
                Ok(made) => Ok(Found::Ours(Arc::new(made))),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let found =
                        api.get_opt(&wanted.name_any()).await.doing(|| "look at a release".to_owned())?;
                    Ok(found.map_or_else(
                        || Found::Refused("the release was there and is gone".to_owned()),
                        |found| whose(request, Arc::new(found)),
                    ))
                }
                // E.g. the namespace is terminating or missing, a quota is exceeded, or the object is invalid.
                Err(error) => match refusal(&error) {
                    Some(why) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            request = request.name_any(),
                            "the release of a request was refused"
                        );
                        Ok(Found::Refused(why))
                    }
                    None => {
                        Err(error).doing(|| format!("make the release of request `{}`", request.name_any()))
                    }
                },
            };
        };
        let Found::Ours(release) = whose(request, release) else {
            return Ok(Found::Taken(wanted.name_any()));
        };
        if release.metadata.deletion_timestamp.is_some() || release.spec == wanted.spec {
            return Ok(Found::Ours(release));
        }
        // Conditional on the observed `resourceVersion`: after a concurrent write the next reconcile decides again.
        let mut changed = HelmRelease::clone(&release);
        changed.spec = wanted.spec;
        let name = release.name_any();
        let changed = api.replace(&name, &PostParams::default(), &changed).await;
        Ok(Found::Ours(Arc::new(changed.doing(|| format!("change release `{name}`"))?)))
    }

    async fn tell_request(&self, request: &HelmRequest, status: HelmRequestStatus) -> Result<(), PassError> {
        if request.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let name = request.name_any();
        let told = HelmRequest { status: Some(status), ..request.clone() };
        let told = self.request_api().replace_status(&name, &PostParams::default(), &told).await;
        let told = told.doing(|| format!("write the status of request `{name}`"))?;
        self.told_requests.note(name, told.metadata.resource_version.as_deref());
        Ok(())
    }

    /// Deletes the release, then the values, then the finalizer of the request.
    async fn remove_request(
        &self,
        request: &HelmRequest,
        release: Option<Arc<HelmRelease>>,
    ) -> Result<Next, PassError> {
        if !request.finalizers().iter().any(|finalizer| finalizer == REQUEST_FINALIZER) {
            return Ok(Next::Rest);
        }
        let api = self.release_api(&request.spec.namespace);
        let name = &request.spec.release_name;
        let release = match release {
            Some(release) => Some(release),
            // The watch may not have delivered the release yet.
            None => api.get_opt(name).await.doing(|| format!("look at release `{name}`"))?.map(Arc::new),
        };
        if let Some(release) = release.filter(|release| wanted::belongs(release, request)) {
            if release.metadata.deletion_timestamp.is_none() {
                let this_one = Preconditions { uid: release.uid(), resource_version: None };
                let params = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
                let deleted = api.delete(name, &params).await.map(drop);
                gone(deleted).doing(|| format!("delete release `{name}`"))?;
            }
            let status = mirror::leaving(request, &release, self.clock.now());
            self.tell_request(request, status).await?;
            return Ok(Next::After(AGAIN));
        }
        self.forget_values(&request.name_any()).await?;
        let left: Vec<&String> =
            request.finalizers().iter().filter(|finalizer| *finalizer != REQUEST_FINALIZER).collect();
        let patch =
            json!({ "metadata": { "resourceVersion": request.resource_version(), "finalizers": left } });
        let name = request.name_any();
        let freed = self.request_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        gone(freed.map(drop)).doing(|| format!("let go of request `{name}`"))?;
        Ok(Next::Rest)
    }

    /// Deletes the saved values of all versions.
    async fn forget_values(&self, request: &str) -> Result<(), PassError> {
        let secrets: Api<Secret> = Api::namespaced(self.clients.own(), SYSTEM_NAMESPACE);
        let of_request = ListParams::default().labels(&format!("{REQUEST}={request}"));
        let doing = || format!("forget the values of request `{request}`");
        for secret in secrets.list_metadata(&of_request).await.doing(doing)?.items {
            let deleted = secrets.delete(&secret.name_any(), &DeleteParams::default()).await.map(drop);
            gone(deleted).doing(doing)?;
        }
        Ok(())
    }

    pub(crate) fn request_api(&self) -> Api<HelmRequest> {
        Api::all(self.clients.own())
    }

    pub(crate) fn release_api(&self, namespace: &str) -> Api<HelmRelease> {
        Api::namespaced(self.clients.own(), namespace)
    }
}

fn whose(request: &HelmRequest, release: Arc<HelmRelease>) -> Found {
    if wanted::belongs(&release, request) { Found::Ours(release) } else { Found::Taken(release.name_any()) }
}

/// Why Kubernetes rejected a release, for the status of its request, which tenants read. The API server's message is included if it
/// concerns the object or its quota. Other messages may name the platform's identity or come from an admission webhook.
fn refusal(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    if !matches!(status.code, 400..=404 | 422) {
        return None;
    }
    let is_of_object = matches!(status.code, 400 | 422) || status.message.contains("exceeded quota");
    let told = is_of_object && !status.message.contains("admission webhook");
    Some(if told { status.message.clone() } else { reason(error).to_owned() })
}

/// Ignores "not found" after a deletion.
pub(crate) fn gone(done: kube::Result<()>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}

/// The time until a deadline, at most one hour because clocks may be adjusted.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().min(Duration::from_hours(1))
}

/// Whether the release has our finalizer. No object is created before it.
pub(crate) fn is_held(release: &HelmRelease) -> bool {
    release.finalizers().iter().any(|finalizer| finalizer == RELEASE_FINALIZER)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn refusal_tells_of_the_object_and_not_of_the_platform() {
        let refused = |code: u16, message: &str| {
            refusal(&kube::Error::Api(Box::new(Status::failure(message, "Refused").with_code(code))))
        };
        let invalid = "HelmRelease.longshore.dev \"web\" is invalid: spec.interval: too short";
        let quota =
            "helmreleases.longshore.dev \"web\" is forbidden: exceeded quota: count, used: 5, limited: 5";
        for (code, message) in [(422, invalid), (400, "the object is not valid"), (403, quota)] {
            assert_eq!(refused(code, message).as_deref(), Some(message));
        }
        let hidden = [
            (403, "User \"system:serviceaccount:longshore-system:longshore\" cannot create resource"),
            (403, "admission webhook \"a.example.com\" denied the request: exceeded quota"),
            (400, "admission webhook \"a.example.com\" denied the request: secret"),
            (404, "namespaces \"other\" not found"),
        ];
        for (code, message) in hidden {
            let told = refused(code, message).unwrap();
            assert!(!told.is_empty() && !told.contains('"') && !message.contains(&told), "{told}");
        }
        assert_eq!(refused(409, "conflict"), None);
        assert_eq!(refused(500, "internal"), None);
    }
}
