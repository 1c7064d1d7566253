//! Comparison of two revisions of a release. Sensitive values are masked.

use domain::Actor;
use helm_release::Record;
use helm_release::record::Status;
use kube_apply::Object;
use kube_apply::diff::{self, Change, What};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Error;
use super::look::{objects, plain, sensitive};
use crate::Releases;
use crate::values::Sensitive;

/// The subject of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Manifest,
    Values,
}

/// What is different between two revisions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    pub from: i64,
    pub to: i64,
    /// Object by object; of values there is one entry at most.
    pub differences: Vec<DifferenceView>,
    /// All of it as one unified difference.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Difference")]
pub struct DifferenceView {
    /// Group, kind, namespace and name; or `values`.
    pub object: String,
    /// added, changed or removed.
    pub what: &'static str,
    /// The file of the chart that it is in, or was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub changes: Vec<ChangeView>,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FieldChange")]
pub struct ChangeView {
    /// A JSON pointer.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl Releases {
    /// Compares two revisions. By default `to` is the latest and `from` the one before it.
    pub async fn compare(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        (from, to): (Option<i64>, Option<i64>),
        of: Of,
    ) -> Result<Comparison, Error> {
        let (after, release) = self.record(actor, namespace, name, to).await?;
        let from = match from {
            Some(from) => from,
            None => self.before(namespace, name, after.version).await?,
        };
        let (before, _) = self.record(actor, namespace, name, Some(from)).await?;
        self.examine(namespace, before.bytes().saturating_add(after.bytes()), move || {
            let masks = [sensitive(&before, release.as_deref())?, sensitive(&after, release.as_deref())?];
            let (differences, text) = match of {
                Of::Manifest => manifests(&objects(&before)?, &objects(&after)?, &masks),
                Of::Values => values(&before, &after, &masks),
            };
            Ok(Comparison { from: before.version, to: after.version, differences, text })
        })
        .await
    }

    /// The last successful revision before this one, else the last revision before it.
    async fn before(&self, namespace: &str, name: &str, revision: i64) -> Result<i64, Error> {
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let history = storage.history(name).await?;
        let older = history.iter().map(|stored| &stored.record).filter(|record| record.version < revision);
        let good = |record: &&Record| matches!(record.info.status, Status::Deployed | Status::Superseded);
        let last = older.clone().rfind(good).or(older.clone().next_back());
        last.map(|record| record.version)
            .ok_or_else(|| Error::NoRevision(name.to_owned(), revision.saturating_sub(1)))
    }
}

type Found = (Vec<DifferenceView>, String);

pub(super) fn manifests(before: &[Object], after: &[Object], masks: &[Sensitive; 2]) -> Found {
    let differences = diff::diff(before, after, &[]);
    let text = diff::text(&differences);
    let views = differences.into_iter().map(|difference| DifferenceView {
        object: masked_text(masks, &difference.id.to_string()),
        what: word(difference.what),
        source: difference.source,
        changes: difference.changes.into_iter().map(|change| view(masks, change)).collect(),
    });
    (views.collect(), masked_text(masks, &text))
}

fn values(before: &Record, after: &Record, masks: &[Sensitive; 2]) -> Found {
    let (old, new) = (plain(&before.config), plain(&after.config));
    let shown = (masks[0].mask_values(&old), masks[1].mask_values(&new));
    let titles =
        (format!("values of revision {}", before.version), format!("values of revision {}", after.version));
    let (changes, text) = diff::documents((&old, &new), (&shown.0, &shown.1), (&titles.0, &titles.1));
    let changes: Vec<ChangeView> = changes.into_iter().map(|change| view(masks, change)).collect();
    let differences = DifferenceView { object: "values".to_owned(), what: "changed", source: None, changes };
    let differences = if differences.changes.is_empty() { Vec::new() } else { vec![differences] };
    (differences, masked_text(masks, &text))
}

fn view(masks: &[Sensitive; 2], change: Change) -> ChangeView {
    let masked = |value: Option<Value>| value.map(|value| masks[1].mask(&masks[0].mask(&value)));
    ChangeView {
        path: masked_text(masks, &change.path),
        before: masked(change.before),
        after: masked(change.after),
    }
}

fn masked_text(masks: &[Sensitive; 2], text: &str) -> String {
    masks[1].mask_text(&masks[0].mask_text(text))
}

fn word(what: What) -> &'static str {
    match what {
        What::Added => "added",
        What::Changed => "changed",
        What::Removed => "removed",
    }
}
