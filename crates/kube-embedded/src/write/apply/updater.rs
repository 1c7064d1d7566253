//! Field ownership of updates and applies: transfers of ownership, conflicts, and pruning.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    ApplyContext,
    compare::{Difference, compare},
    element::PathElement,
    field_ownership::{field_set, reconcile_with_schema, with_declared_fields},
    fieldset::{FieldSet, format_path},
    managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerOperation},
    merge::merge,
    node::TypeNode,
    prune::remove,
};
use crate::{error::ApiError, go};

/// A field that the applier sets to another value than its owner.
#[derive(Clone)]
pub struct Conflict {
    pub owner: ManagedFieldsEntry,
    pub path: Vec<PathElement>,
}

/// Why an apply is refused.
pub enum ApplyError {
    Conflicts(Vec<Conflict>),
    Failed(String),
}

/// Returns the paths that no manager ever owns.
fn unowned_fields() -> FieldSet {
    const METADATA: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut set = FieldSet::from_paths(&[&["apiVersion"], &["kind"], &["metadata"]]);
    for name in METADATA {
        set.insert(&[PathElement::field("metadata"), PathElement::field(name)]);
    }
    set
}

/// Returns the entries after the requester has changed `live` into `new`.
pub fn update(
    ctx: &ApplyContext<'_>,
    live: &Value,
    new: &Value,
    managed: ManagedFields,
) -> Result<ManagedFields, String> {
    let me = ctx.entry(ManagerOperation::Update);
    let mut managed = adapt_entries(ctx, live, managed);
    let difference = difference(ctx, ctx.root(), live, new)?;
    let changes = VersionedChanges::new(ctx, live, new, difference);
    let taken = changes.set_fields_in_request_version();
    let conflicts = changes.transfer_ownership(&mut managed, None)?;
    managed.remove_fields(&conflicts);

    let set = taken.difference(&unowned_fields());
    if !set.is_empty() {
        let before = managed.remove_matching(&me).map(|entry| entry.set).unwrap_or_default();
        managed.upsert(ManagedFieldsEntry { set: set.union(&before), time: Some(ctx.now), ..me });
    }
    managed.merge_old_updates();
    Ok(managed)
}

/// Returns the object after the requester has applied `body`, and its entries.
pub fn apply(
    ctx: &ApplyContext<'_>,
    live: &Value,
    body: &Value,
    managed: ManagedFields,
    force: bool,
) -> Result<(Value, ManagedFields), ApplyError> {
    let fail = |what: &'static str| move |why: String| ApplyError::Failed(format!("{what}: {why}"));
    let root = ctx.root();
    let mut me = ctx.entry(ManagerOperation::Apply);
    let mut managed = adapt_entries(ctx, live, managed);
    let merged = merge(root, live.clone(), body).map_err(fail("failed to merge config"))?.unwrap_or_default();

    let last = managed.remove_matching(&me);
    me.set = ctx.reset_filter.filter(&field_set(root, body));
    me.time = last.as_ref().and_then(|last| last.time);
    managed.upsert(me.clone());
    let object = match last {
        Some(last) if last.api_version != me.api_version || last.set != me.set => {
            prune(ctx, merged, &managed, &last)
        }
        _ => merged,
    };

    let differs = object != *live;
    if differs && managed.entries.len() > 1 {
        let difference = difference(ctx, root, live, &object).map_err(fail("failed to compare objects"))?;
        let changes = VersionedChanges::new(ctx, live, &object, difference);
        let conflicts =
            changes.transfer_ownership(&mut managed, Some(&me)).map_err(fail("failed to compare objects"))?;
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(list_conflicts(&conflicts)));
        }
        managed.remove_fields(&conflicts);
    }

    // An apply that changes nothing sets no time.
    managed.remove_matching(&me);
    me.set = me.set.difference(&unowned_fields());
    if differs {
        me.time = Some(ctx.now);
    }
    if !me.set.is_empty() {
        managed.upsert(me);
    }
    Ok((object, managed))
}

fn difference(
    ctx: &ApplyContext<'_>,
    node: TypeNode<'_>,
    old: &Value,
    new: &Value,
) -> Result<Difference, String> {
    Ok(ctx.reset_filter.filter_difference(&compare(node, old, new)?))
}

/// Adapts entries to schema changes, and drops entries of versions that are no longer served.
fn adapt_entries(ctx: &ApplyContext<'_>, live: &Value, managed: ManagedFields) -> ManagedFields {
    let follow = |mut entry: ManagedFieldsEntry| {
        let root = if entry.api_version == ctx.api_version {
            ctx.root()
        } else {
            TypeNode::root((ctx.convert)(live, &entry.api_version)?.1)
        };
        entry.set = reconcile_with_schema(&entry.set, root);
        Some(entry)
    };
    ManagedFields { entries: managed.entries.into_iter().filter_map(follow).collect() }
}

/// One change of an object, computed in every version that has entries.
struct VersionedChanges<'c, 'a> {
    ctx: &'c ApplyContext<'a>,
    old: &'c Value,
    new: &'c Value,
    /// By version; `None` for a version that is not served.
    by_version: HashMap<String, Option<VersionChange>>,
}

/// The change in one version.
struct VersionChange {
    /// Fields that are added or changed.
    set_fields: FieldSet,
    removed: FieldSet,
}

impl From<Difference> for VersionChange {
    fn from(difference: Difference) -> Self {
        Self { set_fields: difference.modified.union(&difference.added), removed: difference.removed }
    }
}

impl<'c, 'a> VersionedChanges<'c, 'a> {
    fn new(ctx: &'c ApplyContext<'a>, old: &'c Value, new: &'c Value, difference: Difference) -> Self {
        let known = HashMap::from([(ctx.api_version.to_owned(), Some(difference.into()))]);
        Self { ctx, old, new, by_version: known }
    }

    /// Returns the fields that the change adds or sets, in the version of the request.
    fn set_fields_in_request_version(&self) -> FieldSet {
        let here = self.by_version.get(self.ctx.api_version).and_then(Option::as_ref);
        here.map(|change| change.set_fields.clone()).unwrap_or_default()
    }

    /// Returns the change in a version; `None` if it is not served.
    fn in_version(&mut self, version: &str) -> Result<Option<&VersionChange>, String> {
        if !self.by_version.contains_key(version) {
            let convert = |object: &Value| (self.ctx.convert)(object, version);
            let found = match (convert(self.old), convert(self.new)) {
                (Some((old, ty)), Some((new, _))) => {
                    Some(difference(self.ctx, TypeNode::root(ty), &old, &new)?.into())
                }
                _ => None,
            };
            self.by_version.insert(version.to_owned(), found);
        }
        Ok(self.by_version.get(version).and_then(Option::as_ref))
    }

    /// Returns the fields that managers other than `me` would lose to the change, and drops removed fields from their entries.
    fn transfer_ownership(
        mut self,
        managed: &mut ManagedFields,
        me: Option<&ManagedFieldsEntry>,
    ) -> Result<Vec<(ManagedFieldsEntry, FieldSet)>, String> {
        let mut conflicts = Vec::new();
        let mut kept = Vec::with_capacity(managed.entries.len());
        for mut entry in std::mem::take(&mut managed.entries) {
            if me.is_some_and(|me| me.has_same_identity(&entry)) {
                kept.push(entry);
                continue;
            }
            let Some(difference) = self.in_version(&entry.api_version)? else { continue };
            let conflict = entry.set.intersection(&difference.set_fields);
            if !difference.removed.is_empty() {
                entry.set = entry.set.difference(&difference.removed);
            }
            if !conflict.is_empty() {
                conflicts.push((entry.clone(), conflict));
            }
            kept.push(entry);
        }
        managed.entries = kept;
        managed.entries.retain(|entry| !entry.set.is_empty());
        Ok(conflicts)
    }
}

/// Removes fields that the manager applied last time and not this time, unless another manager owns them.
fn prune(ctx: &ApplyContext<'_>, merged: Value, managed: &ManagedFields, last: &ManagedFieldsEntry) -> Value {
    let here = ctx.api_version;
    let (merged, root) = if last.api_version == here {
        (merged, ctx.root())
    } else {
        match (ctx.convert)(&merged, &last.api_version) {
            Some((converted, ty)) => (converted, TypeNode::root(ty)),
            None => return merged,
        }
    };
    let last_set = with_declared_fields(&last.set, Some(root));
    let mut pruned = remove(root, merged.clone(), &last_set);

    // Restores fields that a manager still owns: first in the version of the last apply, then in the others.
    let mut held_in: HashMap<&str, FieldSet> = HashMap::new();
    for entry in &managed.entries {
        let held = held_in.entry(&entry.api_version).or_default();
        *held = held.union(&entry.set);
    }
    let mut seen = HashSet::from([last.api_version.as_str()]);
    let mut versions: Vec<&str> = vec![&last.api_version];
    versions
        .extend(managed.entries.iter().map(|entry| entry.api_version.as_str()).filter(|v| seen.insert(v)));
    for version in versions {
        let held = held_in.remove(version).unwrap_or_default();
        if version == last.api_version {
            pruned = add_back_owned(root, &merged, &pruned, &held);
        } else if let (Some((whole, ty)), Some((rest, _))) =
            (at(ctx, &merged, version), at(ctx, &pruned, version))
        {
            let rest = add_back_owned(TypeNode::root(ty), &whole, &rest, &held);
            if let Some((back, _)) = at(ctx, &rest, &last.api_version) {
                pruned = back;
            }
        }
    }

    // Removes only missing fields that the manager had applied.
    let gone = declared_field_set(root, &merged)
        .difference(&declared_field_set(root, &pruned))
        .intersection(&last_set);
    let pruned = remove(root, merged, &gone);
    if last.api_version == here {
        pruned
    } else {
        (ctx.convert)(&pruned, here).map_or(pruned, |(converted, _)| converted)
    }
}

fn at<'a>(
    ctx: &ApplyContext<'a>,
    object: &Value,
    version: &str,
) -> Option<(Value, crate::schema::types::TypeRef<'a>)> {
    if object["apiVersion"] == version && version == ctx.api_version {
        return Some((object.clone(), ctx.ty));
    }
    (ctx.convert)(object, version)
}

fn add_back_owned(root: TypeNode<'_>, merged: &Value, pruned: &Value, held: &FieldSet) -> Value {
    let keep = declared_field_set(root, pruned).union(&with_declared_fields(held, Some(root)));
    remove(root, merged.clone(), &declared_field_set(root, merged).difference(&keep))
}

/// Returns the field set of a value, including declared fields on the paths.
pub fn declared_field_set(root: TypeNode<'_>, value: &Value) -> FieldSet {
    with_declared_fields(&field_set(root, value), Some(root))
}

fn list_conflicts(conflicts: &[(ManagedFieldsEntry, FieldSet)]) -> Vec<Conflict> {
    let mut list = Vec::new();
    for (owner, set) in conflicts {
        set.for_each_path(&mut |path| list.push(Conflict { owner: owner.clone(), path: path.to_vec() }));
    }
    // Sorting is stable, so that the paths of an owner keep their order.
    list.sort_by_cached_key(|conflict| conflict.owner.sort_key());
    list
}

/// The 409 error that lists every conflict with its owner.
pub fn conflict_error(conflicts: &[Conflict]) -> ApiError {
    let message = match conflicts {
        [only] => {
            let path = format_path(&only.path);
            format!("Apply failed with 1 conflict: conflict with {}: {path}", describe_owner(&only.owner))
        }
        many => {
            let mut lines = Vec::new();
            let mut owner = None;
            for conflict in many {
                if owner.is_none_or(|owner: &ManagedFieldsEntry| !owner.has_same_identity(&conflict.owner)) {
                    lines.push(format!("conflicts with {}:", describe_owner(&conflict.owner)));
                    owner = Some(&conflict.owner);
                }
                lines.push(format!("- {}", format_path(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let mut error = ApiError::new(409, "Conflict", message);
    for conflict in conflicts {
        let who = format!("conflict with {}", describe_owner(&conflict.owner));
        error = error.with_cause("FieldManagerConflict", &who, &format_path(&conflict.path));
    }
    error
}

/// Describes an owner: `"helm"`, `"scaler" with subresource "scale" using apps/v1`.
fn describe_owner(owner: &ManagedFieldsEntry) -> String {
    let mut text = go::quote(&owner.manager);
    if !owner.subresource.is_empty() {
        text = format!("{text} with subresource {}", go::quote(&owner.subresource));
    }
    if owner.operation == ManagerOperation::Update {
        text = format!("{text} using {}", owner.api_version);
    }
    text
}
