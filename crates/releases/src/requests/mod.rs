//! The request controller: creates the release of a request and mirrors its status.
//!
//! A reconcile observes (caches), decides (pure), writes (idempotent) and updates the status. The release is authoritative; the status of
//! its request is a copy.
//!
//! Invariant: a release is created, changed or deleted here only if its `requestRef` names this request, including its UID.
//!
//! Modules:
//!
//! * [`release_spec`]: the desired release.
//! * [`request_status`]: the status of the request.

pub(crate) mod release_spec;
pub(crate) mod request_status;

use std::sync::Arc;
use std::time::Duration;

use chart_store::error::tenant_message;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use kube_access::queue::Action;
use kube_types::well_known::{RELEASE_FINALIZER, REQUEST, REQUEST_FINALIZER};
use kube_types::{HelmRelease, HelmRequest, HelmRequestStatus, SYSTEM_NAMESPACE};
use serde_json::json;

use crate::controller::ReleaseController;
use crate::error::{ErrorContext, ReconcileError};
use request_status::DispatchResult;

/// Requeue delay for events that the watch should have delivered by then.
const REQUEUE_AFTER: Duration = Duration::from_secs(10);

/// Requeue delay while the cache lacks an own write.
pub(crate) const STALE_CACHE_REQUEUE: Duration = Duration::from_secs(1);

/// Annotation of a request that is being deleted: also delete the claims of its StatefulSets.
pub(crate) const DELETE_CLAIMS_ANNOTATION: &str = "longshore.dev/delete-claims";
/// Annotation of a request that is being deleted: force the deletion. Only the platform writes requests.
pub(crate) const FORCE_DELETE_ANNOTATION: &str = "longshore.dev/force-delete";

/// Annotation of a request that is being deleted with `asAdministrator`: the id and UID of the platform administrator, separated by a
/// slash.
pub(crate) const UNINSTALL_AS_ADMINISTRATOR_ANNOTATION: &str = "longshore.dev/uninstall-as-administrator";

impl ReleaseController {
    pub(crate) async fn reconcile_request(&self, name: &str) -> Result<Action, ReconcileError> {
        let Some(request) = self.requests.get(name) else {
            self.request_debounce.remove(&name.to_owned());
            self.request_expectations.remove(&name.to_owned());
            return Ok(Action::AwaitChange);
        };
        if self
            .request_expectations
            .is_cache_stale(&request.name_any(), request.metadata.resource_version.as_deref())
        {
            return Ok(Action::RequeueAfter(STALE_CACHE_REQUEUE));
        }
        let release = self.releases.get_namespaced(&request.spec.namespace, &request.spec.release_name);
        if request.metadata.deletion_timestamp.is_some() {
            return self.reconcile_request_deletion(&request, release).await;
        }
        let request = self.ensure_request_finalizer(request).await?;
        let dispatched = self.dispatch(&request, release).await?;
        if let DispatchResult::Owned(release) = &dispatched
            && release.status.as_ref().is_none_or(|status| status.state.is_empty())
        {
            // The release was just created and has no status yet; its first status triggers the next reconcile.
            return Ok(Action::AwaitChange);
        }
        let status = request_status::request_status(&request, &dispatched, self.clock.now());
        if request.status.as_ref() != Some(&status)
            && let Some(wait) = self.request_debounce.remaining_delay(&request.name_any(), &status.state)
        {
            return Ok(Action::RequeueAfter(wait));
        }
        self.update_request_status(&request, status).await?;
        Ok(match dispatched {
            DispatchResult::Owned(_) | DispatchResult::NameInUse(_) => Action::AwaitChange,
            DispatchResult::Rejected(_) => Action::RequeueAfter(REQUEUE_AFTER),
        })
    }

    /// Adds the finalizer. No release is created before it, because deletion depends on it.
    async fn ensure_request_finalizer(
        &self,
        request: Arc<HelmRequest>,
    ) -> Result<Arc<HelmRequest>, ReconcileError> {
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
        Ok(Arc::new(held.context(|| format!("add the finalizer to request `{name}`"))?))
    }

    /// Creates or updates the release to match the request.
    async fn dispatch(
        &self,
        request: &HelmRequest,
        release: Option<Arc<HelmRelease>>,
    ) -> Result<DispatchResult, ReconcileError> {
        let desired = release_spec::build_release(request);
        let api = self.release_api(&request.spec.namespace);
        let Some(release) = release else {
            return match api.create(&PostParams::default(), &desired).await {
                Ok(made) => Ok(DispatchResult::Owned(Arc::new(made))),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let found =
                        api.get_opt(&desired.name_any()).await.context(|| "read a release".to_owned())?;
                    Ok(found.map_or_else(
                        || {
                            DispatchResult::Rejected(
                                "an existing release of this name was deleted during creation".to_owned(),
                            )
                        },
                        |found| check_owner(request, Arc::new(found)),
                    ))
                }
                // E.g. the namespace is terminating or missing, a quota is exceeded, or the object is invalid.
                Err(error) => match rejection_message(&error) {
                    Some(why) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            request = request.name_any(),
                            "cannot create the release of a request: refused"
                        );
                        Ok(DispatchResult::Rejected(why))
                    }
                    None => Err(error)
                        .context(|| format!("create the release of request `{}`", request.name_any())),
                },
            };
        };
        let DispatchResult::Owned(release) = check_owner(request, release) else {
            return Ok(DispatchResult::NameInUse(desired.name_any()));
        };
        if release.metadata.deletion_timestamp.is_some() || release.spec == desired.spec {
            return Ok(DispatchResult::Owned(release));
        }
        // Conditional on the observed `resourceVersion`: after a concurrent write the next reconcile decides again.
        let mut changed = HelmRelease::clone(&release);
        changed.spec = desired.spec;
        let name = release.name_any();
        let changed = api.replace(&name, &PostParams::default(), &changed).await;
        Ok(DispatchResult::Owned(Arc::new(changed.context(|| format!("update release `{name}`"))?)))
    }

    async fn update_request_status(
        &self,
        request: &HelmRequest,
        status: HelmRequestStatus,
    ) -> Result<(), ReconcileError> {
        if request.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let name = request.name_any();
        let request_with_status = HelmRequest { status: Some(status), ..request.clone() };
        let result =
            self.request_api().replace_status(&name, &PostParams::default(), &request_with_status).await;
        let updated = result.context(|| format!("write the status of request `{name}`"))?;
        self.request_expectations.record_write(name, updated.metadata.resource_version.as_deref());
        Ok(())
    }

    /// Deletes the release, then the values, then the finalizer of the request.
    async fn reconcile_request_deletion(
        &self,
        request: &HelmRequest,
        release: Option<Arc<HelmRelease>>,
    ) -> Result<Action, ReconcileError> {
        if !request.finalizers().iter().any(|finalizer| finalizer == REQUEST_FINALIZER) {
            return Ok(Action::AwaitChange);
        }
        let api = self.release_api(&request.spec.namespace);
        let name = &request.spec.release_name;
        let release = match release {
            Some(release) => Some(release),
            // The watch may not have delivered the release yet.
            None => api.get_opt(name).await.context(|| format!("read release `{name}`"))?.map(Arc::new),
        };
        if let Some(release) = release.filter(|release| release_spec::is_owned_by(release, request)) {
            if release.metadata.deletion_timestamp.is_none() {
                let uid_precondition = Preconditions { uid: release.uid(), resource_version: None };
                let params =
                    DeleteParams { preconditions: Some(uid_precondition), ..DeleteParams::default() };
                let deleted = api.delete(name, &params).await.map(drop);
                ignore_not_found(deleted).context(|| format!("delete release `{name}`"))?;
            }
            let status = request_status::deleting_status(request, &release, self.clock.now());
            self.update_request_status(request, status).await?;
            return Ok(Action::RequeueAfter(REQUEUE_AFTER));
        }
        self.delete_values(&request.name_any()).await?;
        let left: Vec<&String> =
            request.finalizers().iter().filter(|finalizer| *finalizer != REQUEST_FINALIZER).collect();
        let patch =
            json!({ "metadata": { "resourceVersion": request.resource_version(), "finalizers": left } });
        let name = request.name_any();
        let freed = self.request_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        ignore_not_found(freed.map(drop)).context(|| format!("remove the finalizer of request `{name}`"))?;
        Ok(Action::AwaitChange)
    }

    /// Deletes the saved values of all versions.
    async fn delete_values(&self, request: &str) -> Result<(), ReconcileError> {
        let secrets: Api<Secret> = Api::namespaced(self.clients.platform(), SYSTEM_NAMESPACE);
        let request_selector = ListParams::default().labels(&format!("{REQUEST}={request}"));
        let doing = || format!("delete the values of request `{request}`");
        for secret in secrets.list_metadata(&request_selector).await.context(doing)?.items {
            let deleted = secrets.delete(&secret.name_any(), &DeleteParams::default()).await.map(drop);
            ignore_not_found(deleted).context(doing)?;
        }
        Ok(())
    }

    pub(crate) fn request_api(&self) -> Api<HelmRequest> {
        Api::all(self.clients.platform())
    }

    pub(crate) fn release_api(&self, namespace: &str) -> Api<HelmRelease> {
        Api::namespaced(self.clients.platform(), namespace)
    }
}

fn check_owner(request: &HelmRequest, release: Arc<HelmRelease>) -> DispatchResult {
    if release_spec::is_owned_by(&release, request) {
        DispatchResult::Owned(release)
    } else {
        DispatchResult::NameInUse(release.name_any())
    }
}

/// Why Kubernetes rejected a release, for the status of its request, which tenants read. The API server's message is included if it
/// concerns the object or its quota. Other messages may name the platform's identity or come from an admission webhook.
fn rejection_message(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    if !matches!(status.code, 400..=404 | 422) {
        return None;
    }
    let is_of_object = matches!(status.code, 400 | 422) || status.message.contains("exceeded quota");
    let is_tenant_visible = is_of_object && !status.message.contains("admission webhook");
    Some(if is_tenant_visible { status.message.clone() } else { tenant_message(error).to_owned() })
}

/// Ignores "not found" after a deletion.
pub(crate) fn ignore_not_found(done: kube::Result<()>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}

/// The time until a deadline, at most one hour because clocks may be adjusted.
pub(crate) fn time_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().min(Duration::from_hours(1))
}

/// Whether the release has our finalizer. No object is created before it.
pub(crate) fn has_release_finalizer(release: &HelmRelease) -> bool {
    release.finalizers().iter().any(|finalizer| finalizer == RELEASE_FINALIZER)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn rejection_message_hides_the_platform_identity() {
        let refused = |code: u16, message: &str| {
            rejection_message(&kube::Error::Api(Box::new(
                Status::failure(message, "Refused").with_code(code),
            )))
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
