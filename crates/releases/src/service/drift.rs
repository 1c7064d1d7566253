//! Drift of a release: reported, not corrected.

use domain::Actor;
use domain::roles::Capability;
use kube_apply::drift::{self, Drift};
use kube_apply::{Ownership, ReservedObjects, Target};

use super::Error;
use super::diff::{DifferenceView, FieldChangeView, RevisionDiff};
use super::get::record_mask_from_objects;
use crate::Releases;
use crate::release::administrator_objects::{self, administered_entries};
use crate::values::SensitiveValues;

impl Releases {
    /// Compares the last deployed objects with the cluster, with the caller's identity.
    pub async fn drift(&self, actor: &Actor, namespace: &str, name: &str) -> Result<RevisionDiff, Error> {
        let (record, release) = self.load_record(actor, namespace, name, None).await?;
        let reader = self.impersonation_in(actor, Capability::ReadReleases, namespace)?;
        let client = self.inner().clients.impersonating(&reader);
        let administered = release.as_deref().map(administered_entries).unwrap_or_default();
        let share = self.inner().helm_factory.pool_share(namespace);
        let target = Target {
            reserved: ReservedObjects::skipped(administered.iter().map(administrator_objects::object_id)),
            compute: share.compute(),
            ..Target::new(client, self.inner().helm_factory.discovery.clone(), namespace)
        };
        let owner =
            Ownership { release: name.to_owned(), namespace: namespace.to_owned(), take_ownership: false };
        let revision = record.version;
        let bytes = record.bytes();
        let objects = self.parse_manifest(namespace, name, revision, record.manifest.clone()).await?;
        let parsed = objects.to_vec();
        let read = move || record_mask_from_objects(&parsed, &record, release.as_deref());
        let mask = share.run_on_reserved(bytes, read).await?;
        let found = drift::find(&target, &objects, &owner, &|_| Vec::new(), mask.texts()).await;
        let found = found.map_err(|failures| {
            let failures: Vec<String> =
                failures.iter().map(|failure| mask.mask_text(&failure.to_string())).collect();
            Error::Invalid(format!("cannot detect drift: {}", failures.join("; ")))
        })?;
        let bytes = found.iter().map(Drift::bytes).fold(0, usize::saturating_add);
        Ok(share.run_on_reserved(bytes, move || masked_drift(found, revision, &mask)).await?)
    }
}

/// The differences, masked.
fn masked_drift(found: Vec<Drift>, revision: i64, mask: &SensitiveValues) -> RevisionDiff {
    let text = mask.mask_text(&drift::describe_all(&found));
    let differences = found.into_iter().map(|found| DifferenceView {
        object: mask.mask_text(&found.id.to_string()),
        what: if found.changes.is_some() { "changed" } else { "removed" },
        source: None,
        // Before: as deployed. After: as in the cluster.
        changes: found
            .changes
            .unwrap_or_default()
            .into_iter()
            .map(|change| FieldChangeView {
                path: mask.mask_text(&change.path),
                before: change.after.map(|value| mask.mask(&value)),
                after: change.before.map(|value| mask.mask(&value)),
            })
            .collect(),
    });
    RevisionDiff { from: revision, to: revision, differences: differences.collect(), text }
}
