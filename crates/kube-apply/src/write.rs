//! Writes one object with the chosen strategy.

use kube::Client;
use serde_json::{Value, json};

use crate::apply::{ApplyOptions, ApplyStrategy};
use crate::compute::{Compute, are_large};
use crate::field_managers;
use crate::merge::{merge_patch, three_way};
use crate::object::Object;
use crate::progress::WriteOutcome;
use crate::request::{self, WriteMode};
use crate::target::{ResolvedObject, Target};

/// Maximum retries after concurrent changes.
const MAX_CONFLICT_RETRIES: usize = 5;

/// Planned write of one object.
pub(crate) struct PlannedWrite {
    pub placed: ResolvedObject,
    /// Previous manifest, if any.
    pub previous: Option<Object>,
    /// Previous manifest that is not trusted, if there is no other.
    pub untrusted_base: Option<Object>,
    /// Live object: whole for a client-side merge, else metadata only.
    pub live: Option<Value>,
}

impl AsRef<Object> for PlannedWrite {
    fn as_ref(&self) -> &Object {
        &self.placed.object
    }
}

/// Reads as much of the live object as the strategy needs.
pub(crate) async fn read_current(
    client: &Client,
    placed: &ResolvedObject,
    options: &ApplyOptions,
) -> Result<Option<Value>, kube::Error> {
    if placed.object.name().is_empty() {
        return Ok(None);
    }
    match options.strategy {
        ApplyStrategy::ServerSide { .. } if !options.force_replace => {
            request::get_metadata(client, placed).await
        }
        _ => request::get(client, placed).await,
    }
}

pub(crate) async fn write(
    target: &Target,
    work: &PlannedWrite,
    options: &ApplyOptions,
) -> Result<WriteOutcome, kube::Error> {
    let PlannedWrite { placed, live: found, .. } = work;
    let (client, compute) = (target.client_for(placed), &target.compute);
    let mode = WriteMode { dry_run: options.dry_run, validate: options.validate };
    match (options.strategy, found) {
        // The API server generates the name: each write creates a new object.
        _ if placed.object.name().is_empty() => {
            request::create(client, placed, mode).await.map(|_| WriteOutcome::Created)
        }
        (_, Some(found)) if options.force_replace => replace(client, placed, found, mode).await,
        (ApplyStrategy::ServerSide { force_conflicts }, found) => {
            server_side_apply(client, placed, found.as_ref(), force_conflicts, mode).await
        }
        (ApplyStrategy::ThreeWay, None) => create_or_merge((client, compute), work, options, mode).await,
        (ApplyStrategy::ThreeWay, Some(found)) => {
            let base = merge_base(compute, work, found, options, mode).await?;
            merge((client, compute), placed, base, found, mode).await
        }
    }
}

/// The base of a three-way merge. Without a usable previous manifest the new one is the base, so that fields of others
/// are not removed.
async fn merge_base<'w>(
    compute: &Compute,
    PlannedWrite { placed, previous, untrusted_base, .. }: &'w PlannedWrite,
    found: &Value,
    options: &ApplyOptions,
    mode: WriteMode,
) -> Result<&'w Object, kube::Error> {
    if let Some((base, bases)) = untrusted_base.as_ref().zip(options.untrusted.as_ref()) {
        let mode = WriteMode { dry_run: true, ..mode };
        return match merge((&bases.client, compute), placed, base, found, mode).await {
            Ok(_) => Ok(base),
            Err(error) if request::is_forbidden(&error) => Ok(&placed.object),
            Err(error) => Err(error),
        };
    }
    Ok(previous.as_ref().unwrap_or(&placed.object))
}

/// Creates an object. If it exists by now and this release created it (a request of a stopped client may arrive
/// late), it is merged instead.
async fn create_or_merge(
    (client, compute): (&Client, &Compute),
    PlannedWrite { placed, previous: last, .. }: &PlannedWrite,
    options: &ApplyOptions,
    mode: WriteMode,
) -> Result<WriteOutcome, kube::Error> {
    let refused = match request::create(client, placed, mode).await {
        Err(error @ kube::Error::Api(_)) if request::is_already_exists(&error) => error,
        answer => return answer.map(|_| WriteOutcome::Created),
    };
    let found = request::get(client, placed).await?;
    match found.zip(options.ownership.as_ref()) {
        Some((found, owner)) if owner.validation_error(&found).is_none() => {
            let last = last.as_ref().unwrap_or(&placed.object);
            merge((client, compute), placed, last, &found, mode).await
        }
        _ => Err(refused),
    }
}

async fn server_side_apply(
    client: &Client,
    placed: &ResolvedObject,
    found: Option<&Value>,
    force: bool,
    mode: WriteMode,
) -> Result<WriteOutcome, kube::Error> {
    let Some(found) = found else {
        return request::apply(client, placed, force, mode).await.map(|_| WriteOutcome::Created);
    };
    let from_helm_3 = field_managers::migrate_to_apply(&found["metadata"]["managedFields"]).is_some();
    if from_helm_3 && !mode.dry_run {
        upgrade_managers(client, placed, found, mode).await?;
    }
    // A dry run did not store the migrated managed fields, so Helm 3's entries still conflict.
    let force = force || (from_helm_3 && mode.dry_run);
    let after = request::apply(client, placed, force, mode).await?;
    Ok(outcome(found, &after))
}

async fn upgrade_managers(
    client: &Client,
    placed: &ResolvedObject,
    found: &Value,
    mode: WriteMode,
) -> Result<(), kube::Error> {
    let mut found = found.clone();
    for race in 1.. {
        let Some(notes) = field_managers::migrate_to_apply(&found["metadata"]["managedFields"]) else {
            return Ok(());
        };
        let version = &found["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"managedFields": notes, "resourceVersion": version}});
        match request::merge(client, placed, &patch, mode).await {
            Err(error) if request::is_modified_conflict(&error) && race < MAX_CONFLICT_RETRIES => {}
            answer => return answer.map(|_| ()),
        }
        let Some(again) = request::get_metadata(client, placed).await? else { return Ok(()) };
        found = again;
    }
    unreachable!("a loop without an end")
}

async fn merge(
    (client, compute): (&Client, &Compute),
    placed: &ResolvedObject,
    last: &Object,
    found: &Value,
    mode: WriteMode,
) -> Result<WriteOutcome, kube::Error> {
    let mut live = found.clone();
    for race in 1.. {
        let (last, new) = (last.clone(), placed.object.clone());
        let large = are_large([last.value(), new.value(), &live]);
        let merged = compute.run(large, move || {
            let wanted = three_way(last.value(), new.value(), &live);
            (merge_patch(&live, &wanted), live)
        });
        let (patch, read) = merged.await;
        live = read;
        let Some(mut patch) = patch else { return Ok(WriteOutcome::Unchanged) };
        // The patch contains whole lists, so it must fail on a concurrent change.
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        match request::merge(client, placed, &patch, mode).await {
            Err(error) if request::is_modified_conflict(&error) && race < MAX_CONFLICT_RETRIES => {}
            answer => return answer.map(|after| outcome(&live, &after)),
        }
        match request::get(client, placed).await? {
            Some(again) => live = again,
            None => return request::create(client, placed, mode).await.map(|_| WriteOutcome::Created),
        }
    }
    unreachable!("a loop without an end")
}

async fn replace(
    client: &Client,
    placed: &ResolvedObject,
    found: &Value,
    mode: WriteMode,
) -> Result<WriteOutcome, kube::Error> {
    let mut version = found["metadata"]["resourceVersion"].clone();
    for race in 1.. {
        let mut value = placed.object.value().clone();
        value["metadata"]["resourceVersion"] = version;
        match request::replace(client, placed, &value, mode).await {
            Err(error) if request::is_modified_conflict(&error) && race < MAX_CONFLICT_RETRIES => {}
            answer => return answer.map(|after| outcome(found, &after)),
        }
        match request::get_metadata(client, placed).await? {
            Some(again) => version = again["metadata"]["resourceVersion"].clone(),
            None => return request::create(client, placed, mode).await.map(|_| WriteOutcome::Created),
        }
    }
    unreachable!("a loop without an end")
}

/// A write without changes keeps the `resourceVersion`. If a controller wrote concurrently, a change of the spec or
/// metadata decides.
fn outcome(before: &Value, after: &Value) -> WriteOutcome {
    let (before, after) = (&before["metadata"], &after["metadata"]);
    let same = |field: &str| before[field] == after[field];
    let counted = before["generation"].is_number();
    let wanted =
        counted && same("generation") && same("labels") && own_annotations(before) == own_annotations(after);
    if same("resourceVersion") || wanted { WriteOutcome::Unchanged } else { WriteOutcome::Changed }
}

/// Annotations, except the Deployment controller's.
fn own_annotations(metadata: &Value) -> Vec<(&String, &Value)> {
    let all = metadata["annotations"].as_object().into_iter().flatten();
    all.filter(|(key, _)| !key.starts_with("deployment.kubernetes.io/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_writes_count_as_unchanged() {
        let object = |version: &str, generation: Option<i64>, note: &str, own: &str| {
            let annotations = json!({"deployment.kubernetes.io/revision": note, "own": own});
            json!({"metadata": {"resourceVersion": version, "generation": generation, "annotations": annotations}})
        };
        let before = object("1", Some(1), "1", "a");
        let cases = [
            (before.clone(), WriteOutcome::Unchanged),
            (object("2", Some(1), "2", "a"), WriteOutcome::Unchanged),
            (object("2", Some(2), "2", "a"), WriteOutcome::Changed),
            (object("2", Some(1), "2", "b"), WriteOutcome::Changed),
        ];
        for (after, want) in cases {
            assert_eq!(outcome(&before, &after), want);
        }
        // Without a generation, every new version counts as a change.
        assert_eq!(
            outcome(&object("1", None, "1", "a"), &object("2", None, "1", "a")),
            WriteOutcome::Changed
        );
    }
}
