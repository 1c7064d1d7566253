//! Field ownership of updates and applies: transfers of ownership, conflicts, and pruning.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    Context,
    compare::{Difference, compare},
    element::Element,
    fieldset::{FieldSet, path_text},
    managed::{Entry, Managed, Operation},
    merge::merge,
    node::Node,
    owned::{field_set, reconciled, with_named_fields},
    prune::remove,
};
use crate::{error::ApiError, go};

/// A field that the applier sets to another value than its owner.
#[derive(Clone)]
pub struct Conflict {
    pub owner: Entry,
    pub path: Vec<Element>,
}

/// Why an apply is refused.
pub enum Refusal {
    Conflicts(Vec<Conflict>),
    Failed(String),
}

/// Returns the paths that no manager ever owns.
fn never_owned() -> FieldSet {
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
    let mut set = FieldSet::of(&[&["apiVersion"], &["kind"], &["metadata"]]);
    for name in METADATA {
        set.insert(&[Element::field("metadata"), Element::field(name)]);
    }
    set
}

/// Returns the entries after the requester has changed `live` into `new`.
pub fn update(ctx: &Context<'_>, live: &Value, new: &Value, managed: Managed) -> Result<Managed, String> {
    let me = ctx.entry(Operation::Update);
    let mut managed = reconcile(ctx, live, managed);
    let difference = difference(ctx, ctx.root(), live, new)?;
    let changes = Changes::new(ctx, live, new, difference);
    let taken = changes.taken_here();
    let conflicts = changes.settle(&mut managed, None)?;
    managed.lose(&conflicts);

    let set = taken.difference(&never_owned());
    if !set.is_empty() {
        let before = managed.take(&me).map(|entry| entry.set).unwrap_or_default();
        managed.put(Entry { set: set.union(&before), time: Some(ctx.now), ..me });
    }
    managed.cap();
    Ok(managed)
}

/// Returns the object after the requester has applied `body`, and its entries.
pub fn apply(
    ctx: &Context<'_>,
    live: &Value,
    body: &Value,
    managed: Managed,
    force: bool,
) -> Result<(Value, Managed), Refusal> {
    let fail = |what: &'static str| move |why: String| Refusal::Failed(format!("{what}: {why}"));
    let root = ctx.root();
    let mut me = ctx.entry(Operation::Apply);
    let mut managed = reconcile(ctx, live, managed);
    let merged = merge(root, live.clone(), body).map_err(fail("failed to merge config"))?.unwrap_or_default();

    let last = managed.take(&me);
    me.set = ctx.reset.filter(&field_set(root, body));
    me.time = last.as_ref().and_then(|last| last.time);
    managed.put(me.clone());
    let object = match last {
        Some(last) if last.api_version != me.api_version || last.set != me.set => {
            prune(ctx, merged, &managed, &last)
        }
        _ => merged,
    };

    let differs = object != *live;
    if differs && managed.entries.len() > 1 {
        let difference = difference(ctx, root, live, &object).map_err(fail("failed to compare objects"))?;
        let changes = Changes::new(ctx, live, &object, difference);
        let conflicts = changes.settle(&mut managed, Some(&me)).map_err(fail("failed to compare objects"))?;
        if !force && !conflicts.is_empty() {
            return Err(Refusal::Conflicts(listed(&conflicts)));
        }
        managed.lose(&conflicts);
    }

    // An apply that changes nothing sets no time.
    managed.take(&me);
    me.set = me.set.difference(&never_owned());
    if differs {
        me.time = Some(ctx.now);
    }
    if !me.set.is_empty() {
        managed.put(me);
    }
    Ok((object, managed))
}

fn difference(ctx: &Context<'_>, node: Node<'_>, old: &Value, new: &Value) -> Result<Difference, String> {
    Ok(ctx.reset.filter_difference(&compare(node, old, new)?))
}

/// Adapts entries to schema changes, and drops those of versions that are no longer served.
fn reconcile(ctx: &Context<'_>, live: &Value, managed: Managed) -> Managed {
    let follow = |mut entry: Entry| {
        let root = if entry.api_version == ctx.api_version {
            ctx.root()
        } else {
            Node::root((ctx.convert)(live, &entry.api_version)?.1)
        };
        entry.set = reconciled(&entry.set, root);
        Some(entry)
    };
    Managed { entries: managed.entries.into_iter().filter_map(follow).collect() }
}

/// One change of an object, computed in every version that has entries.
struct Changes<'c, 'a> {
    ctx: &'c Context<'a>,
    old: &'c Value,
    new: &'c Value,
    /// By version; `None` for a version that is not served.
    known: HashMap<String, Option<Change>>,
}

/// The change in one version.
struct Change {
    /// Fields that are added or changed.
    taken: FieldSet,
    removed: FieldSet,
}

impl From<Difference> for Change {
    fn from(difference: Difference) -> Self {
        Self { taken: difference.modified.union(&difference.added), removed: difference.removed }
    }
}

impl<'c, 'a> Changes<'c, 'a> {
    fn new(ctx: &'c Context<'a>, old: &'c Value, new: &'c Value, difference: Difference) -> Self {
        let known = HashMap::from([(ctx.api_version.to_owned(), Some(difference.into()))]);
        Self { ctx, old, new, known }
    }

    /// Returns the fields that the change adds or sets, in the version of the request.
    fn taken_here(&self) -> FieldSet {
        let here = self.known.get(self.ctx.api_version).and_then(Option::as_ref);
        here.map(|change| change.taken.clone()).unwrap_or_default()
    }

    /// Returns the change in a version; `None` if it is not served.
    fn at(&mut self, version: &str) -> Result<Option<&Change>, String> {
        if !self.known.contains_key(version) {
            let convert = |object: &Value| (self.ctx.convert)(object, version);
            let found = match (convert(self.old), convert(self.new)) {
                (Some((old, ty)), Some((new, _))) => {
                    Some(difference(self.ctx, Node::root(ty), &old, &new)?.into())
                }
                _ => None,
            };
            self.known.insert(version.to_owned(), found);
        }
        Ok(self.known.get(version).and_then(Option::as_ref))
    }

    /// Returns the fields that managers other than `me` would lose to the change, and drops removed fields from their entries.
    fn settle(mut self, managed: &mut Managed, me: Option<&Entry>) -> Result<Vec<(Entry, FieldSet)>, String> {
        let mut conflicts = Vec::new();
        let mut kept = Vec::with_capacity(managed.entries.len());
        for mut entry in std::mem::take(&mut managed.entries) {
            if me.is_some_and(|me| me.is(&entry)) {
                kept.push(entry);
                continue;
            }
            let Some(difference) = self.at(&entry.api_version)? else { continue };
            let conflict = entry.set.intersection(&difference.taken);
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
fn prune(ctx: &Context<'_>, merged: Value, managed: &Managed, last: &Entry) -> Value {
    let here = ctx.api_version;
    let (merged, root) = if last.api_version == here {
        (merged, ctx.root())
    } else {
        match (ctx.convert)(&merged, &last.api_version) {
            Some((converted, ty)) => (converted, Node::root(ty)),
            None => return merged,
        }
    };
    let last_set = with_named_fields(&last.set, Some(root));
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
            pruned = put_back(root, &merged, &pruned, &held);
        } else if let (Some((whole, ty)), Some((rest, _))) =
            (at(ctx, &merged, version), at(ctx, &pruned, version))
        {
            let rest = put_back(Node::root(ty), &whole, &rest, &held);
            if let Some((back, _)) = at(ctx, &rest, &last.api_version) {
                pruned = back;
            }
        }
    }

    // Removes only missing fields that the manager had applied.
    let gone = named(root, &merged).difference(&named(root, &pruned)).intersection(&last_set);
    let pruned = remove(root, merged, &gone);
    if last.api_version == here {
        pruned
    } else {
        (ctx.convert)(&pruned, here).map_or(pruned, |(converted, _)| converted)
    }
}

fn at<'a>(
    ctx: &Context<'a>,
    object: &Value,
    version: &str,
) -> Option<(Value, crate::schema::types::TypeRef<'a>)> {
    if object["apiVersion"] == version && version == ctx.api_version {
        return Some((object.clone(), ctx.ty));
    }
    (ctx.convert)(object, version)
}

fn put_back(root: Node<'_>, merged: &Value, pruned: &Value, held: &FieldSet) -> Value {
    let keep = named(root, pruned).union(&with_named_fields(held, Some(root)));
    remove(root, merged.clone(), &named(root, merged).difference(&keep))
}

/// Returns the field set of a value, including declared fields on the paths.
pub fn named(root: Node<'_>, value: &Value) -> FieldSet {
    with_named_fields(&field_set(root, value), Some(root))
}

fn listed(conflicts: &[(Entry, FieldSet)]) -> Vec<Conflict> {
    let mut list = Vec::new();
    for (owner, set) in conflicts {
        set.each_path(&mut |path| list.push(Conflict { owner: owner.clone(), path: path.to_vec() }));
    }
    // Sorting is stable, so that the paths of an owner keep their order.
    list.sort_by_cached_key(|conflict| conflict.owner.identity());
    list
}

/// The 409 error that lists every conflict with its owner.
pub fn conflict(conflicts: &[Conflict]) -> ApiError {
    let message = match conflicts {
        [only] => {
            let path = path_text(&only.path);
            format!("Apply failed with 1 conflict: conflict with {}: {path}", described(&only.owner))
        }
        many => {
            let mut lines = Vec::new();
            let mut owner = None;
            for conflict in many {
                if owner.is_none_or(|owner: &Entry| !owner.is(&conflict.owner)) {
                    lines.push(format!("conflicts with {}:", described(&conflict.owner)));
                    owner = Some(&conflict.owner);
                }
                lines.push(format!("- {}", path_text(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let mut error = ApiError::new(409, "Conflict", message);
    for conflict in conflicts {
        let who = format!("conflict with {}", described(&conflict.owner));
        error = error.with_cause("FieldManagerConflict", &who, &path_text(&conflict.path));
    }
    error
}

/// Describes an owner: `"helm"`, `"scaler" with subresource "scale" using apps/v1`.
fn described(owner: &Entry) -> String {
    let mut text = go::quote(&owner.manager);
    if !owner.subresource.is_empty() {
        text = format!("{text} with subresource {}", go::quote(&owner.subresource));
    }
    if owner.operation == Operation::Update {
        text = format!("{text} using {}", owner.api_version);
    }
    text
}
