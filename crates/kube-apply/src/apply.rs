//! Applies a set of objects to a cluster and removes previous objects that are no longer desired.
//!
//! First every object is resolved to its API resource and read; nothing is written if one has an unknown kind or
//! another owner. Objects are then written wave by wave ([`crate::order`]); a wave with a failure is the last. CRDs
//! are waited for before objects of their kinds. Finally obsolete objects are removed.
//!
//! Level-triggered: an apply that stopped anywhere can be repeated and reaches the same state.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use crate::call;
use crate::compute::{self, are_large};
use crate::error::{ApplyError, Failure, Why};
use crate::object::{Id, Object};
use crate::order;
use crate::owner::Ownership;
use crate::ready::{self, Strategy};
use crate::remove::{self, Removal};
use crate::target::{Placed, Target, is_definition, made_kinds};
use crate::tell::{Outcome, Step, Tell};
use crate::write::{self, Work};

/// Default timeout for CRDs to be established.
const ESTABLISHED_WITHIN: Duration = Duration::from_mins(1);
/// Timeout for discovery to list the kinds of new CRDs.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
const BETWEEN_READINGS: Duration = Duration::from_millis(100);

/// Apply strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Server-side apply, as Helm 4.
    ServerSide {
        /// Take over fields of other field managers.
        force_conflicts: bool,
    },
    /// Three-way merge of the last manifest, the new manifest and the live object, as Helm 3.
    ThreeWay,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub way: Way,
    /// Release that owns the objects. Hooks have no owner.
    pub ownership: Option<Ownership>,
    /// Replace live objects instead of merging into them.
    pub force_replace: bool,
    /// Server-side dry run.
    pub dry_run: bool,
    /// Reject fields that the kind does not have (strict field validation).
    pub validate: bool,
    /// Deadline for CRDs to be established; one minute from now if `None`.
    pub deadline: Option<Instant>,
    /// Previous objects of an untrusted manifest. They are the base of a three-way merge, except for reserved
    /// objects, which another client writes. They do not prove ownership of a live object and are not removed.
    pub merge_only: Vec<Object>,
}

impl Options {
    pub fn new(way: Way) -> Self {
        Self {
            way,
            ownership: None,
            force_replace: false,
            dry_run: false,
            validate: true,
            deadline: None,
            merge_only: Vec::new(),
        }
    }

    /// Sets the release that owns the objects.
    #[must_use]
    pub fn owned_by(mut self, ownership: Ownership) -> Self {
        self.ownership = Some(ownership);
        self
    }
}

/// Result of an apply. Objects have the namespace they were written to.
#[derive(Debug, Default)]
pub struct Applied {
    pub created: Vec<Object>,
    pub changed: Vec<Object>,
    pub unchanged: Vec<Object>,
    /// Previous objects that are no longer desired and were removed.
    pub removed: Vec<Object>,
    /// Previous objects that are no longer desired but kept, by their annotation or because they have another owner.
    pub kept: Vec<Object>,
}

/// Writes the desired objects (`after`) and removes those of `before` that are no longer desired.
pub async fn apply(
    target: &Target,
    before: &[Object],
    after: &[Object],
    options: &Options,
    tell: &dyn Tell,
) -> Result<Applied, ApplyError> {
    look(target, before, after, options).await?.write(target, tell).await
}

/// Plan of an apply, for callers that do other work between reading and writing.
pub struct Looked {
    works: Vec<Work>,
    former: HashMap<Id, Placed>,
    options: Options,
}

/// Resolves and reads all objects. Writes nothing.
pub async fn look(
    target: &Target,
    before: &[Object],
    after: &[Object],
    options: &Options,
) -> Result<Looked, ApplyError> {
    let wanted = target.place(after).await.map_err(ApplyError::before_any_write)?;
    let large = are_large(after.iter().map(Object::value));
    let ownership = options.ownership.clone();
    let wanted = compute::run(large, move || last_of_each(marked(wanted, ownership.as_ref()))).await;
    let former: HashMap<Id, Placed> =
        target.place_former(before).into_iter().map(|placed| (placed.id(), placed)).collect();
    let works = look_at_all(target, wanted, &former, options).await.map_err(ApplyError::before_any_write)?;
    Ok(Looked { works, former, options: options.clone() })
}

impl Looked {
    /// Executes the plan: writes desired objects and removes obsolete ones.
    pub async fn write(self, target: &Target, tell: &dyn Tell) -> Result<Applied, ApplyError> {
        let Self { works, former, options } = self;
        let ids: HashSet<Id> = works.iter().map(|work| work.placed.id()).collect();
        let mut applied = Applied::default();
        for wave in order::install(works) {
            if let Err(failures) = write_wave(target, wave, &options, tell, &mut applied).await {
                return Err(ApplyError { failures, applied });
            }
        }
        let gone = former.into_values().filter(|placed| !ids.contains(&placed.id())).collect();
        let removal =
            Removal { ownership: options.ownership, dry_run: options.dry_run, ..Removal::default() };
        match remove::take_away(target, gone, &removal, tell).await {
            Ok(removed) => {
                applied.removed = removed.removed;
                applied.kept = removed.kept;
                Ok(applied)
            }
            Err(error) => {
                applied.removed = error.removed.removed;
                applied.kept = error.removed.kept;
                Err(ApplyError { failures: error.failures, applied })
            }
        }
    }
}

pub(crate) fn marked(placed: Vec<Placed>, ownership: Option<&Ownership>) -> Vec<Placed> {
    let Some(ownership) = ownership else { return placed };
    let mark = |placed: Placed| {
        let mut value = placed.object.value().clone();
        ownership.mark(&mut value);
        let object = placed.object.with_value(value).expect("marks make no difference to what it is");
        Placed { object, ..placed }
    };
    placed.into_iter().map(mark).collect()
}

/// Drops earlier duplicates: of objects that occur twice in a manifest, the last one is written.
fn last_of_each(placed: Vec<Placed>) -> Vec<Placed> {
    let mut last = HashMap::new();
    for (at, placed) in placed.iter().enumerate().filter(|(_, placed)| !placed.object.name().is_empty()) {
        last.insert(placed.id(), at);
    }
    let all = placed.into_iter().enumerate();
    all.filter(|(at, placed)| last.get(&placed.id()).is_none_or(|last| last == at))
        .map(|(_, placed)| placed)
        .collect()
}

/// Reads the live state of all desired objects. Objects of other owners are failures.
async fn look_at_all(
    target: &Target,
    wanted: Vec<Placed>,
    former: &HashMap<Id, Placed>,
    options: &Options,
) -> Result<Vec<Work>, Vec<Failure>> {
    let unproven = target.place_former(&options.merge_only);
    let unproven: HashMap<Id, Placed> = unproven.into_iter().map(|placed| (placed.id(), placed)).collect();
    let unproven = &unproven;
    let looks = wanted.into_iter().map(|placed| async {
        let id = placed.id();
        let owned = former.get(&id);
        // The base decides which fields of the live object are deleted.
        let unproven = || unproven.get(&id).filter(|_| !target.is_reserved(&placed));
        let last = owned.or_else(unproven).map(|placed| placed.object.clone());
        let found = match write::look(target.client_for(&placed), &placed, options).await {
            Ok(found) => found,
            Err(error) => return Err(Failure::of_cluster(&placed.object, id, &error)),
        };
        // An object of the previous manifest is owned by the release; others are checked.
        let strange = options.ownership.as_ref().filter(|owner| owned.is_none() && !owner.take);
        match strange.zip(found.as_ref()).and_then(|(owner, found)| owner.complaint(found)) {
            Some(complaint) => Err(Failure::new(&placed.object, id, Why::Taken(complaint))),
            None => Ok(Work { placed, last, found }),
        }
    });
    all_or_failures(call::all(looks.map(FutureExt::boxed).collect()).await)
}

fn all_or_failures<T>(answers: Vec<Result<T, Failure>>) -> Result<Vec<T>, Vec<Failure>> {
    let mut failures = Vec::new();
    let good = answers.into_iter().filter_map(|answer| answer.map_err(|failure| failures.push(failure)).ok());
    let good: Vec<T> = good.collect();
    if failures.is_empty() { Ok(good) } else { Err(failures) }
}

/// Writes the objects of one wave concurrently. A failure does not stop the others.
async fn write_wave(
    target: &Target,
    wave: Vec<Work>,
    options: &Options,
    tell: &dyn Tell,
    applied: &mut Applied,
) -> Result<(), Vec<Failure>> {
    let writes = wave.into_iter().map(|work| async move {
        let (object, id) = (work.placed.object.clone(), work.placed.id());
        tell.tell(Step::Applying { id: id.clone() });
        match write::write(target.client_for(&work.placed), &work, options).await {
            Ok(outcome) => {
                tell.tell(Step::Applied { id, outcome });
                Ok((object, outcome))
            }
            Err(error) => {
                let failure = Failure::of_cluster(&object, id.clone(), &error);
                tell.tell(Step::Failed { id, reason: failure.why.to_string() });
                Err(failure)
            }
        }
    });
    let answers = call::all(writes.map(FutureExt::boxed).collect()).await;
    let mut failures = Vec::new();
    let mut definitions = Vec::new();
    for answer in answers {
        let (object, outcome) = match answer {
            Ok(done) => done,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        if is_definition(&object) && outcome != Outcome::Unchanged {
            definitions.push(object.clone());
        }
        match outcome {
            Outcome::Created => applied.created.push(object),
            Outcome::Changed => applied.changed.push(object),
            Outcome::Unchanged => applied.unchanged.push(object),
        }
    }
    if failures.is_empty() && !options.dry_run {
        failures = established(target, &definitions, options.deadline, tell).await;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Waits until the kinds of these CRDs are served and refreshes discovery.
async fn established(
    target: &Target,
    definitions: &[Object],
    deadline: Option<Instant>,
    tell: &dyn Tell,
) -> Vec<Failure> {
    let Some(first) = definitions.first() else { return Vec::new() };
    let deadline = deadline.unwrap_or_else(|| Instant::now() + ESTABLISHED_WITHIN);
    if let Err(not_ready) = ready::wait(target, definitions, Strategy::Watcher, deadline, tell).await {
        let failure = |(id, why): (Id, String)| {
            let source = definitions.iter().find(|object| object.name() == id.name);
            Failure {
                source: source.and_then(|object| object.source.clone()),
                id,
                why: Why::NotEstablished(why),
            }
        };
        return not_ready.objects.into_iter().map(failure).collect();
    }
    match known(target, definitions, deadline.min(Instant::now() + KNOWN_WITHIN)).await {
        Ok(()) => Vec::new(),
        Err(error) => vec![Failure::of_cluster(first, first.id(), &error)],
    }
}

/// Refreshes discovery until it lists the kinds. The API server lists new kinds shortly after it serves them. On
/// timeout a later lookup refreshes again.
async fn known(target: &Target, definitions: &[Object], deadline: Instant) -> Result<(), kube::Error> {
    let made = made_kinds(definitions);
    let is_known =
        |(api_version, kind): &(String, String)| target.discovery.known(api_version, kind).is_some();
    loop {
        target.discovery.read_again(&target.client).await?;
        if made.keys().all(is_known) || Instant::now() >= deadline {
            return Ok(());
        }
        sleep(BETWEEN_READINGS).await;
    }
}

#[cfg(test)]
mod tests;
