//! Deprecated and removed API versions of Kubernetes.

use std::fmt::Write;

use helm_template::profile::Profile;

use super::manifests::KubeMinorVersion;
use HelmTables::{Both, Helm3, Helm4};

/// Helm versions that have the row: each has the table of the Kubernetes version it was built with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HelmTables {
    Helm3,
    Helm4,
    Both,
}

/// API version, kinds (`*`: also its list kind), minor release 1.x of the deprecation and of the removal (0: not
/// removed), and the replacement version, with a kind if that differs.
type DeprecationRow = (HelmTables, &'static str, &'static str, u32, u32, &'static str);

pub fn check(
    api_version: &str,
    kind: &str,
    kubernetes: KubeMinorVersion,
    profile: Profile,
) -> Result<(), String> {
    let own = match profile {
        Profile::Helm3 => Helm3,
        Profile::Helm4 => Helm4,
    };
    let mut rows = DEPRECATIONS.iter().filter(|row| matches!(row.0, Both) || row.0 == own);
    let row = rows.find(|row| row.1 == api_version && row.2.split(' ').any(|name| matches_kind(name, kind)));
    let Some(&(_, _, _, deprecated, gone, instead)) = row else { return Ok(()) };
    if kubernetes < (1, deprecated) {
        return Ok(());
    }
    let mut text = format!("{api_version} {kind} is deprecated in v1.{deprecated}+");
    // Writing to a `String` cannot fail.
    if gone > 0 {
        let _ = write!(text, ", unavailable in v1.{gone}+");
    }
    if instead.contains(' ') {
        let _ = write!(text, "; use {instead}");
    } else if !instead.is_empty() {
        let _ = write!(text, "; use {instead} {kind}");
    }
    Err(text)
}

fn matches_kind(name: &str, kind: &str) -> bool {
    match name.strip_suffix('*') {
        Some(name) => kind.strip_suffix("List").unwrap_or(kind) == name,
        None => kind == name,
    }
}

#[rustfmt::skip]
const DEPRECATIONS: &[DeprecationRow] = &[
    (Both, "admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding*", 29, 32, ""),
    (Both, "admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding*", 35, 38, ""),
    (Both, "admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration* ValidatingWebhookConfiguration*", 16, 22, "admissionregistration.k8s.io/v1"),
    (Both, "admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding*", 31, 34, ""),
    (Helm4, "admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding*", 37, 40, "admissionregistration.k8s.io/v1"),
    (Both, "apps/v1beta1", "ControllerRevision* Deployment* DeploymentRollback StatefulSet*", 8, 16, "apps/v1"),
    (Both, "apps/v1beta1", "Scale", 8, 16, "autoscaling/v1"),
    (Both, "apps/v1beta2", "ControllerRevision* DaemonSet* Deployment* ReplicaSet* StatefulSet*", 9, 16, "apps/v1"),
    (Both, "apps/v1beta2", "Scale", 9, 16, "autoscaling/v1"),
    (Both, "authentication.k8s.io/v1alpha1", "SelfSubjectReview", 29, 32, ""),
    (Both, "authentication.k8s.io/v1beta1", "TokenReview", 19, 22, "authentication.k8s.io/v1"),
    (Both, "authentication.k8s.io/v1beta1", "SelfSubjectReview", 30, 33, ""),
    (Both, "authorization.k8s.io/v1beta1", "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview", 19, 22, "authorization.k8s.io/v1"),
    (Helm3, "autoscaling/v2beta1", "HorizontalPodAutoscaler", 22, 25, "autoscaling/v2"),
    (Helm3, "autoscaling/v2beta1", "HorizontalPodAutoscalerList", 22, 25, "autoscaling/v2beta2"),
    (Helm3, "autoscaling/v2beta2", "HorizontalPodAutoscalerList", 22, 25, ""),
    (Helm3, "autoscaling/v2beta2", "HorizontalPodAutoscaler", 23, 26, "autoscaling/v2"),
    (Both, "batch/v1beta1", "CronJob*", 21, 25, "batch/v1"),
    (Both, "certificates.k8s.io/v1alpha1", "ClusterTrustBundle*", 34, 37, ""),
    (Both, "certificates.k8s.io/v1beta1", "CertificateSigningRequest*", 19, 22, "certificates.k8s.io/v1"),
    (Helm4, "certificates.k8s.io/v1beta1", "ClusterTrustBundle* PodCertificateRequest*", 37, 40, "certificates.k8s.io/v1"),
    (Both, "coordination.k8s.io/v1alpha2", "LeaseCandidate*", 35, 38, ""),
    (Both, "coordination.k8s.io/v1beta1", "Lease*", 19, 22, "coordination.k8s.io/v1"),
    (Helm4, "coordination.k8s.io/v1beta1", "LeaseCandidate*", 36, 39, ""),
    (Both, "discovery.k8s.io/v1beta1", "EndpointSlice", 21, 25, "discovery.k8s.io/v1"),
    (Both, "discovery.k8s.io/v1beta1", "EndpointSliceList", 21, 25, "discovery.k8s.io/v1 EndpointSlice"),
    (Both, "events.k8s.io/v1beta1", "Event*", 22, 25, ""),
    (Both, "extensions/v1beta1", "Scale", 2, 16, ""),
    (Both, "extensions/v1beta1", "DeploymentRollback", 8, 16, ""),
    (Both, "extensions/v1beta1", "DaemonSet* Deployment* ReplicaSet*", 8, 16, "apps/v1"),
    (Both, "extensions/v1beta1", "NetworkPolicy*", 9, 16, "networking.k8s.io/v1"),
    (Both, "extensions/v1beta1", "Ingress*", 14, 22, "networking.k8s.io/v1"),
    (Both, "flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema* PriorityLevelConfiguration*", 23, 26, "flowcontrol.apiserver.k8s.io/v1beta3"),
    (Both, "flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema* PriorityLevelConfiguration*", 26, 29, "flowcontrol.apiserver.k8s.io/v1beta3"),
    (Both, "flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema* PriorityLevelConfiguration*", 29, 32, "flowcontrol.apiserver.k8s.io/v1"),
    (Helm4, "lifecycle.k8s.io/v1alpha1", "Eviction* EvictionRequest*", 40, 43, ""),
    (Helm3, "networking.k8s.io/v1alpha1", "IPAddress* ServiceCIDR*", 30, 33, ""),
    (Both, "networking.k8s.io/v1beta1", "Ingress* IngressClassList", 19, 22, "networking.k8s.io/v1"),
    (Both, "networking.k8s.io/v1beta1", "IngressClass", 19, 22, "networking.k8s.io/v1 IngressClassList"),
    (Both, "networking.k8s.io/v1beta1", "IPAddress* ServiceCIDR*", 34, 37, ""),
    (Both, "node.k8s.io/v1beta1", "RuntimeClass*", 22, 25, ""),
    (Both, "policy/v1beta1", "PodDisruptionBudget*", 21, 25, "policy/v1"),
    (Both, "policy/v1beta1", "Eviction", 22, 25, ""),
    (Both, "rbac.authorization.k8s.io/v1beta1", "ClusterRole* ClusterRoleBinding* Role* RoleBinding*", 17, 22, "rbac.authorization.k8s.io/v1"),
    (Helm3, "resource.k8s.io/v1alpha3", "DeviceClass* ResourceClaim* ResourceClaimTemplate* ResourceSlice*", 34, 37, "resource.k8s.io/v1beta1"),
    (Helm4, "resource.k8s.io/v1alpha3", "DeviceTaintRule*", 36, 39, ""),
    (Helm4, "resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest*", 39, 42, ""),
    (Both, "resource.k8s.io/v1beta1", "DeviceClass* ResourceClaim* ResourceClaimTemplate* ResourceSlice*", 35, 38, ""),
    (Helm4, "resource.k8s.io/v1beta2", "DeviceClass* ResourceClaim* ResourceClaimTemplate* ResourceSlice*", 36, 39, ""),
    (Helm4, "resource.k8s.io/v1beta2", "DeviceTaintRule*", 39, 42, ""),
    (Both, "scheduling.k8s.io/v1beta1", "PriorityClass*", 14, 22, "scheduling.k8s.io/v1"),
    (Helm4, "scheduling.k8s.io/v1beta1", "PodGroup* Workload*", 40, 43, ""),
    (Both, "storage.k8s.io/v1alpha1", "VolumeAttachment*", 21, 24, "storage.k8s.io/v1"),
    (Both, "storage.k8s.io/v1alpha1", "CSIStorageCapacity*", 21, 24, "storage.k8s.io/v1beta1"),
    (Helm3, "storage.k8s.io/v1alpha1", "VolumeAttributesClass*", 32, 35, ""),
    (Helm4, "storage.k8s.io/v1alpha1", "VolumeAttributesClass*", 32, 35, "storage.k8s.io/v1"),
    (Both, "storage.k8s.io/v1beta1", "CSINode", 17, 22, "storage.k8s.io/v1"),
    (Both, "storage.k8s.io/v1beta1", "CSINodeList", 17, 22, "storage.k8s.io/v1 CSINode"),
    (Both, "storage.k8s.io/v1beta1", "CSIDriver* StorageClass* VolumeAttachment*", 19, 22, "storage.k8s.io/v1"),
    (Both, "storage.k8s.io/v1beta1", "CSIStorageCapacity*", 24, 27, "storage.k8s.io/v1"),
    (Helm3, "storage.k8s.io/v1beta1", "VolumeAttributesClass*", 34, 37, ""),
    (Helm4, "storage.k8s.io/v1beta1", "VolumeAttributesClass*", 34, 37, "storage.k8s.io/v1"),
    (Helm3, "storagemigration.k8s.io/v1alpha1", "StorageVersionMigration*", 33, 36, ""),
    (Helm4, "storagemigration.k8s.io/v1beta1", "StorageVersionMigration*", 37, 40, "storagemigration.k8s.io/v1"),
    (Both, "v1", "ComponentStatus*", 19, 0, ""),
    (Helm4, "v1", "Endpoints", 33, 0, "discovery.k8s.io/v1 EndpointSlice"),
    (Helm4, "v1", "EndpointsList", 33, 0, "discovery.k8s.io/v1 EndpointSliceList"),
];
