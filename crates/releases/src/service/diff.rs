//! Comparison of two revisions of a release. Sensitive values are masked.

use domain::Actor;
use helm_release::Record;
use helm_release::record::Status;
use kube_apply::Object;
use kube_apply::diff::{self, DiffKind, FieldDiff};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Error;
use super::get::{record_mask, record_objects, to_json};
use crate::Releases;
use crate::values::SensitiveValues;

/// The subject of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffSubject {
    Manifest,
    Values,
}

/// Differences between two revisions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RevisionDiff {
    pub from: i64,
    pub to: i64,
    /// Differences by object; at most one entry for values.
    pub differences: Vec<DifferenceView>,
    /// All differences as one unified diff.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Difference")]
pub struct DifferenceView {
    /// Group, kind, namespace and name of the object, or `values`.
    pub object: String,
    /// Kind of change: added, changed or removed.
    pub what: &'static str,
    /// Chart file that contains or contained the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub changes: Vec<FieldChangeView>,
}

/// Change of one field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FieldChange")]
pub struct FieldChangeView {
    /// A JSON pointer.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl Releases {
    /// Compares two revisions. By default `to` is the latest and `from` the one before it.
    pub async fn diff_revisions(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        (from, to): (Option<i64>, Option<i64>),
        subject: DiffSubject,
    ) -> Result<RevisionDiff, Error> {
        let (after, release) = self.load_record(actor, namespace, name, to).await?;
        let from = match from {
            Some(from) => from,
            None => self.previous_revision(namespace, name, after.version).await?,
        };
        let (before, _) = self.load_record(actor, namespace, name, Some(from)).await?;
        self.run_on_pool(namespace, before.bytes().saturating_add(after.bytes()), move || {
            let masks = [record_mask(&before, release.as_deref())?, record_mask(&after, release.as_deref())?];
            let (differences, text) = match subject {
                DiffSubject::Manifest => {
                    diff_manifests(&record_objects(&before)?, &record_objects(&after)?, &masks)
                }
                DiffSubject::Values => diff_values(&before, &after, &masks),
            };
            Ok(RevisionDiff { from: before.version, to: after.version, differences, text })
        })
        .await
    }

    /// The last successful revision before this one, else the last revision before it.
    async fn previous_revision(&self, namespace: &str, name: &str, revision: i64) -> Result<i64, Error> {
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let history = storage.history(name).await?;
        let older = history.iter().map(|stored| &stored.record).filter(|record| record.version < revision);
        let good = |record: &&Record| matches!(record.info.status, Status::Deployed | Status::Superseded);
        let last = older.clone().rfind(good).or(older.clone().next_back());
        last.map(|record| record.version)
            .ok_or_else(|| Error::RevisionNotFound(name.to_owned(), revision.saturating_sub(1)))
    }
}

type DiffOutput = (Vec<DifferenceView>, String);

pub(super) fn diff_manifests(
    before: &[Object],
    after: &[Object],
    masks: &[SensitiveValues; 2],
) -> DiffOutput {
    let differences = diff::diff(before, after, &[]);
    let text = diff::unified_text(&differences);
    let views = differences.into_iter().map(|difference| DifferenceView {
        object: masked_text(masks, &difference.id.to_string()),
        what: diff_kind_name(difference.kind),
        source: difference.source,
        changes: difference.changes.into_iter().map(|change| masked_change(masks, change)).collect(),
    });
    (views.collect(), masked_text(masks, &text))
}

fn diff_values(before: &Record, after: &Record, masks: &[SensitiveValues; 2]) -> DiffOutput {
    let (old, new) = (to_json(&before.config), to_json(&after.config));
    let shown = (masks[0].mask_values(&old), masks[1].mask_values(&new));
    let titles =
        (format!("values of revision {}", before.version), format!("values of revision {}", after.version));
    let (changes, text) = diff::diff_documents((&old, &new), (&shown.0, &shown.1), (&titles.0, &titles.1));
    let changes: Vec<FieldChangeView> =
        changes.into_iter().map(|change| masked_change(masks, change)).collect();
    let differences = DifferenceView { object: "values".to_owned(), what: "changed", source: None, changes };
    let differences = if differences.changes.is_empty() { Vec::new() } else { vec![differences] };
    (differences, masked_text(masks, &text))
}

fn masked_change(masks: &[SensitiveValues; 2], change: FieldDiff) -> FieldChangeView {
    let masked = |value: Option<Value>| value.map(|value| masks[1].mask(&masks[0].mask(&value)));
    FieldChangeView {
        path: masked_text(masks, &change.path),
        before: masked(change.before),
        after: masked(change.after),
    }
}

fn masked_text(masks: &[SensitiveValues; 2], text: &str) -> String {
    masks[1].mask_text(&masks[0].mask_text(text))
}

fn diff_kind_name(what: DiffKind) -> &'static str {
    match what {
        DiffKind::Added => "added",
        DiffKind::Changed => "changed",
        DiffKind::Removed => "removed",
    }
}
