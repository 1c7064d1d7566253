//! Drift of a release: reported, not corrected.

use domain::Actor;
use domain::roles::Capability;
use kube_apply::drift::{self, Drift};
use kube_apply::{Ownership, Reserved, Target};

use super::Error;
use super::compare::{ChangeView, Comparison, DifferenceView};
use super::look::sensitive_among;
use crate::Releases;
use crate::release::administered::{self, entries_of};
use crate::values::Sensitive;

impl Releases {
    /// Compares the last deployed objects with the cluster, with the caller's identity.
    pub async fn drift(&self, actor: &Actor, namespace: &str, name: &str) -> Result<Comparison, Error> {
        let (record, release) = self.record(actor, namespace, name, None).await?;
        let reader = self.acts_in(actor, Capability::ReadReleases, namespace)?;
        let client = self.parts().clients.acting_as(&reader);
        let administered = release.as_deref().map(entries_of).unwrap_or_default();
        let target = Target {
            reserved: Reserved::left_alone(administered.iter().map(administered::id)),
            ..Target::new(client, self.parts().helms.discovery.clone(), namespace)
        };
        let owner = Ownership { release: name.to_owned(), namespace: namespace.to_owned(), take: false };
        let revision = record.version;
        let bytes = record.bytes();
        let objects = self.parsed(namespace, name, revision, record.manifest.clone()).await?;
        let share = self.parts().helms.share(namespace);
        let parsed = objects.to_vec();
        let read = move || sensitive_among(&parsed, &record, release.as_deref());
        let mask = share.run_on_reserved(bytes, read).await?;
        let found = drift::find(&target, &objects, &owner, &|_| Vec::new(), mask.texts()).await;
        let found = found.map_err(|failures| {
            let failures: Vec<String> =
                failures.iter().map(|failure| mask.mask_text(&failure.to_string())).collect();
            Error::Invalid(format!("cannot look for what others changed: {}", failures.join("; ")))
        })?;
        let bytes = found.iter().map(Drift::bytes).fold(0, usize::saturating_add);
        Ok(share.run_on_reserved(bytes, move || told(found, revision, &mask)).await?)
    }
}

/// The differences, masked.
fn told(found: Vec<Drift>, revision: i64, mask: &Sensitive) -> Comparison {
    let text = mask.mask_text(&drift::text(&found));
    let differences = found.into_iter().map(|found| DifferenceView {
        object: mask.mask_text(&found.id.to_string()),
        what: if found.changes.is_some() { "changed" } else { "removed" },
        source: None,
        // Before: as deployed. After: as in the cluster.
        changes: found
            .changes
            .unwrap_or_default()
            .into_iter()
            .map(|change| ChangeView {
                path: mask.mask_text(&change.path),
                before: change.after.map(|value| mask.mask(&value)),
                after: change.before.map(|value| mask.mask(&value)),
            })
            .collect(),
    });
    Comparison { from: revision, to: revision, differences: differences.collect(), text }
}
