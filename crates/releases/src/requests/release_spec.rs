//! The desired release of a request. Pure: no I/O, no clock.

use kube::ResourceExt;
use kube::core::ObjectMeta;
use kube_types::release::{ReleaseSource, RequestRef};
use kube_types::well_known::{MANAGED_BY, RELEASE_FINALIZER, WORKSPACE};
use kube_types::{FIELD_MANAGER, HelmRelease, HelmReleaseSpec, HelmRequest, HelmRequestSpec};

/// Builds the release, including its finalizer.
pub(crate) fn build_release(request: &HelmRequest) -> HelmRelease {
    let labels = [
        (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned()),
        (WORKSPACE.to_owned(), request.spec.workspace.clone()),
    ];
    HelmRelease {
        metadata: ObjectMeta {
            name: Some(request.spec.release_name.clone()),
            namespace: Some(request.spec.namespace.clone()),
            labels: Some(labels.into()),
            finalizers: Some(vec![RELEASE_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: build_spec(request),
        status: None,
    }
}

/// Builds the spec of the release. The chart is the package resolved when the request was made.
pub(crate) fn build_spec(request: &HelmRequest) -> HelmReleaseSpec {
    let HelmRequestSpec {
        release_name,
        workspace: _,
        cluster: _,
        namespace: _,
        source: _,
        chart,
        values_ref,
        version,
        rollback_of: _,
        options,
        remediation,
        drift_detection,
        patches,
        roles,
        paused,
        run_as,
        as_administrator: _,
        suspend,
        deletion_policy,
        description: _,
    } = request.spec.clone();
    HelmReleaseSpec {
        name: release_name,
        version,
        username: run_as.user,
        chart_name: chart.name,
        chart_version: chart.version,
        chart_app_version: chart.app_version,
        source: Some(ReleaseSource { package: Some(chart.package), ..ReleaseSource::default() }),
        values_ref,
        options,
        remediation,
        drift_detection,
        patches,
        roles,
        paused,
        suspend,
        deletion_policy,
        request_ref: Some(RequestRef { name: request.name_any(), uid: request.uid().unwrap_or_default() }),
        ..HelmReleaseSpec::default()
    }
}

/// Whether the release belongs to this request, by name and UID.
pub(crate) fn is_owned_by(release: &HelmRelease, request: &HelmRequest) -> bool {
    let says = release.spec.request_ref.as_ref();
    says.is_some_and(|says| {
        Some(&says.uid) == request.metadata.uid.as_ref() && says.name == request.name_any()
    }) && release.namespace().as_ref() == Some(&request.spec.namespace)
        && release.name_any() == request.spec.release_name
}
