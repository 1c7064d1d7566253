//! Claims, volumes and classes as the volume controllers read them, and the annotations they use.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::control::Context;
use crate::control::view::Meta;
use crate::quantity::Quantity;

pub const CLAIMS: &str = "persistentvolumeclaims";
pub const VOLUMES: &str = "persistentvolumes";
pub const CLASSES: &str = "storageclasses.storage.k8s.io";

/// On a claim: its binding is complete and final.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or a volume: a controller chose the other side, not a user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: its provisioner.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: the provisioner that should create a volume; the second key is the deprecated one.
pub const PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];
/// On a claim: the node of the pod that waits for it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub metadata: Meta,
    pub spec: ClaimSpec,
    pub status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSpec {
    pub access_modes: Vec<String>,
    pub volume_name: String,
    pub storage_class_name: Option<String>,
    pub volume_mode: String,
    pub volume_attributes_class_name: String,
    pub selector: Option<Value>,
    pub resources: ClaimResources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    pub requests: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimStatus {
    pub phase: String,
    pub capacity: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Volume {
    pub metadata: Meta,
    pub spec: VolumeSpec,
    pub status: VolumeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSpec {
    pub capacity: BTreeMap<String, Value>,
    pub access_modes: Vec<String>,
    pub storage_class_name: String,
    pub volume_mode: String,
    pub volume_attributes_class_name: String,
    pub claim_ref: Option<ClaimRef>,
    pub persistent_volume_reclaim_policy: String,
    pub host_path: Option<HostPath>,
    pub nfs: Option<Value>,
    pub csi: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPath {
    pub path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    pub phase: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    pub metadata: Meta,
    pub provisioner: String,
    pub volume_binding_mode: String,
    pub reclaim_policy: String,
    pub allow_volume_expansion: bool,
    pub mount_options: Vec<String>,
}

fn storage(amounts: &BTreeMap<String, Value>) -> Quantity {
    amounts.get("storage").and_then(Quantity::from_value).unwrap_or_default()
}

/// The deprecated annotation for the class, which takes precedence.
fn annotated_class(metadata: &Meta) -> Option<&str> {
    metadata.annotations.get(CLASS_ANNOTATION).map(String::as_str)
}

impl Claim {
    /// Empty for a claim without class, and for one whose class is unset.
    pub fn class(&self) -> &str {
        let said = || self.spec.storage_class_name.as_deref();
        annotated_class(&self.metadata).or_else(said).unwrap_or_default()
    }

    pub fn has_class(&self) -> bool {
        annotated_class(&self.metadata).is_some() || self.spec.storage_class_name.is_some()
    }

    pub fn has_annotation(&self, annotation: &str) -> bool {
        self.metadata.annotations.contains_key(annotation)
    }

    pub fn request(&self) -> Quantity {
        storage(&self.spec.resources.requests)
    }

    pub fn capacity(&self) -> Quantity {
        storage(&self.status.capacity)
    }
}

impl Volume {
    pub fn class(&self) -> &str {
        annotated_class(&self.metadata).unwrap_or(&self.spec.storage_class_name)
    }

    pub fn has_annotation(&self, annotation: &str) -> bool {
        self.metadata.annotations.contains_key(annotation)
    }

    pub fn capacity(&self) -> Quantity {
        storage(&self.spec.capacity)
    }

    /// Whether the volume is reserved for this claim, bound or not.
    pub fn is_for(&self, claim: &Claim) -> bool {
        self.spec.claim_ref.as_ref().is_some_and(|reference| {
            reference.name == claim.metadata.name
                && reference.namespace == claim.metadata.namespace
                && (reference.uid.is_empty() || reference.uid == claim.metadata.uid)
        })
    }
}

impl StorageClass {
    /// Whether claims of this class are bound only when a pod that uses them is scheduled.
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }
}

pub fn class(context: &Context, name: &str) -> Option<Arc<StorageClass>> {
    Some(context.store.get(CLASSES, "", name)?.view::<StorageClass>())
}
