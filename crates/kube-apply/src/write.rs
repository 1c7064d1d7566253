//! Writes one object with the chosen strategy.

use kube::Client;
use serde_json::{Value, json};

use crate::apply::{Options, Way};
use crate::call::{self, Mode};
use crate::compute::{self, are_large};
use crate::managers;
use crate::merge::{difference, three_way};
use crate::object::Object;
use crate::target::Placed;
use crate::tell::Outcome;

/// Maximum retries after concurrent changes.
const RACES: usize = 5;

/// Planned write of one object.
pub(crate) struct Work {
    pub placed: Placed,
    /// Previous manifest, if any.
    pub last: Option<Object>,
    /// Live object: whole for a client-side merge, else metadata only.
    pub found: Option<Value>,
}

impl AsRef<Object> for Work {
    fn as_ref(&self) -> &Object {
        &self.placed.object
    }
}

/// Reads as much of the live object as the strategy needs.
pub(crate) async fn look(
    client: &Client,
    placed: &Placed,
    options: &Options,
) -> Result<Option<Value>, kube::Error> {
    if placed.object.name().is_empty() {
        return Ok(None);
    }
    match options.way {
        Way::ServerSide { .. } if !options.force_replace => call::get_metadata(client, placed).await,
        _ => call::get(client, placed).await,
    }
}

pub(crate) async fn write(client: &Client, work: &Work, options: &Options) -> Result<Outcome, kube::Error> {
    let Work { placed, last, found } = work;
    let mode = Mode { dry_run: options.dry_run, validate: options.validate };
    match (options.way, found) {
        // The API server generates the name: each write creates a new object.
        _ if placed.object.name().is_empty() => {
            call::create(client, placed, mode).await.map(|_| Outcome::Created)
        }
        (_, Some(found)) if options.force_replace => replace(client, placed, found, mode).await,
        (Way::ServerSide { force_conflicts }, found) => {
            server_side(client, placed, found.as_ref(), force_conflicts, mode).await
        }
        (Way::ThreeWay, None) => create_or_merge(client, work, options, mode).await,
        // Without a previous manifest the new one is the base, so that fields of others are not removed.
        (Way::ThreeWay, Some(found)) => {
            let last = last.as_ref().unwrap_or(&placed.object);
            merge(client, placed, last, found, mode).await
        }
    }
}

/// Creates an object. If it exists by now and this release created it (a request of a stopped client may arrive
/// late), it is merged instead.
async fn create_or_merge(
    client: &Client,
    Work { placed, last, .. }: &Work,
    options: &Options,
    mode: Mode,
) -> Result<Outcome, kube::Error> {
    let refused = match call::create(client, placed, mode).await {
        Err(error @ kube::Error::Api(_)) if call::is_already_exists(&error) => error,
        answer => return answer.map(|_| Outcome::Created),
    };
    let found = call::get(client, placed).await?;
    match found.zip(options.ownership.as_ref()) {
        Some((found, owner)) if owner.complaint(&found).is_none() => {
            let last = last.as_ref().unwrap_or(&placed.object);
            merge(client, placed, last, &found, mode).await
        }
        _ => Err(refused),
    }
}

async fn server_side(
    client: &Client,
    placed: &Placed,
    found: Option<&Value>,
    force: bool,
    mode: Mode,
) -> Result<Outcome, kube::Error> {
    let Some(found) = found else {
        return call::apply(client, placed, force, mode).await.map(|_| Outcome::Created);
    };
    let from_helm_3 = managers::upgraded(&found["metadata"]["managedFields"]).is_some();
    if from_helm_3 && !mode.dry_run {
        upgrade_managers(client, placed, found, mode).await?;
    }
    // A dry run did not store the migrated managed fields, so Helm 3's entries still conflict.
    let force = force || (from_helm_3 && mode.dry_run);
    let after = call::apply(client, placed, force, mode).await?;
    Ok(outcome(found, &after))
}

async fn upgrade_managers(
    client: &Client,
    placed: &Placed,
    found: &Value,
    mode: Mode,
) -> Result<(), kube::Error> {
    let mut found = found.clone();
    for race in 1.. {
        let Some(notes) = managers::upgraded(&found["metadata"]["managedFields"]) else { return Ok(()) };
        let version = &found["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"managedFields": notes, "resourceVersion": version}});
        match call::merge(client, placed, &patch, mode).await {
            Err(error) if call::is_stale(&error) && race < RACES => {}
            answer => return answer.map(|_| ()),
        }
        let Some(again) = call::get_metadata(client, placed).await? else { return Ok(()) };
        found = again;
    }
    unreachable!("a loop without an end")
}

async fn merge(
    client: &Client,
    placed: &Placed,
    last: &Object,
    found: &Value,
    mode: Mode,
) -> Result<Outcome, kube::Error> {
    let mut live = found.clone();
    for race in 1.. {
        let (last, new) = (last.clone(), placed.object.clone());
        let large = are_large([last.value(), new.value(), &live]);
        let merged = compute::run(large, move || {
            let wanted = three_way(last.value(), new.value(), &live);
            (difference(&live, &wanted), live)
        });
        let (patch, read) = merged.await;
        live = read;
        let Some(mut patch) = patch else { return Ok(Outcome::Unchanged) };
        // The patch contains whole lists, so it must fail on a concurrent change.
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        match call::merge(client, placed, &patch, mode).await {
            Err(error) if call::is_stale(&error) && race < RACES => {}
            answer => return answer.map(|after| outcome(&live, &after)),
        }
        match call::get(client, placed).await? {
            Some(again) => live = again,
            None => return call::create(client, placed, mode).await.map(|_| Outcome::Created),
        }
    }
    unreachable!("a loop without an end")
}

async fn replace(
    client: &Client,
    placed: &Placed,
    found: &Value,
    mode: Mode,
) -> Result<Outcome, kube::Error> {
    let mut version = found["metadata"]["resourceVersion"].clone();
    for race in 1.. {
        let mut value = placed.object.value().clone();
        value["metadata"]["resourceVersion"] = version;
        match call::replace(client, placed, &value, mode).await {
            Err(error) if call::is_stale(&error) && race < RACES => {}
            answer => return answer.map(|after| outcome(found, &after)),
        }
        match call::get_metadata(client, placed).await? {
            Some(again) => version = again["metadata"]["resourceVersion"].clone(),
            None => return call::create(client, placed, mode).await.map(|_| Outcome::Created),
        }
    }
    unreachable!("a loop without an end")
}

/// A write without changes keeps the `resourceVersion`. If a controller wrote concurrently, a change of the spec or
/// metadata decides.
fn outcome(before: &Value, after: &Value) -> Outcome {
    let (before, after) = (&before["metadata"], &after["metadata"]);
    let same = |field: &str| before[field] == after[field];
    let counted = before["generation"].is_number();
    let wanted = counted && same("generation") && same("labels") && notes(before) == notes(after);
    if same("resourceVersion") || wanted { Outcome::Unchanged } else { Outcome::Changed }
}

/// Annotations, except those of the Deployment controller.
fn notes(metadata: &Value) -> Vec<(&String, &Value)> {
    let all = metadata["annotations"].as_object().into_iter().flatten();
    all.filter(|(key, _)| !key.starts_with("deployment.kubernetes.io/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_controller_writes_meanwhile_is_no_change() {
        let object = |version: &str, generation: Option<i64>, note: &str, own: &str| {
            let annotations = json!({"deployment.kubernetes.io/revision": note, "own": own});
            json!({"metadata": {"resourceVersion": version, "generation": generation, "annotations": annotations}})
        };
        let before = object("1", Some(1), "1", "a");
        let cases = [
            (before.clone(), Outcome::Unchanged),
            (object("2", Some(1), "2", "a"), Outcome::Unchanged),
            (object("2", Some(2), "2", "a"), Outcome::Changed),
            (object("2", Some(1), "2", "b"), Outcome::Changed),
        ];
        for (after, want) in cases {
            assert_eq!(outcome(&before, &after), want);
        }
        // Without a generation, every new version counts as a change.
        assert_eq!(outcome(&object("1", None, "1", "a"), &object("2", None, "1", "a")), Outcome::Changed);
    }
}
