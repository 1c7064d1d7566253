//! Applies a set of objects to a cluster and removes previous objects that are no longer desired.
//!
//! First every object is resolved to its API resource and read; nothing is written if one has an unknown kind or
//! another owner. Objects are then written wave by wave ([`crate::order`]); a wave with a failure is the last. CRDs
//! are waited for before objects of their kinds. Finally obsolete objects are removed.
//!
//! Level-triggered: an apply that stopped anywhere can be repeated and reaches the same state.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use kube::Client;
use tokio::time::{Instant, sleep};

use crate::compute::are_large;
use crate::error::{ApplyError, ObjectError, ObjectErrorKind};
use crate::object::{Object, ObjectId};
use crate::order;
use crate::ownership::Ownership;
use crate::progress::{ProgressEvent, ProgressSink, WriteOutcome};
use crate::readiness::{self, WaitStrategy};
use crate::remove::{self, RemoveOptions};
use crate::request;
use crate::target::{ResolvedObject, Target, crd_kinds, is_crd};
use crate::write::{self, PlannedWrite};

/// Default timeout for CRDs to be established.
const CRD_ESTABLISHED_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout for discovery to list the kinds of new CRDs.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const DISCOVERY_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Apply strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyStrategy {
    /// Server-side apply, as Helm 4.
    ServerSide {
        /// Take over fields of other field managers.
        force_conflicts: bool,
    },
    /// Three-way merge of the last manifest, the new manifest and the live object, as Helm 3.
    ThreeWay,
}

#[derive(Clone, Debug)]
pub struct ApplyOptions {
    pub strategy: ApplyStrategy,
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
    /// Objects of previous manifests that are not trusted.
    pub untrusted: Option<UntrustedBases>,
}

/// Previous objects of untrusted manifests. They are the bases of three-way merges, except for reserved objects, which
/// another client writes. They do not prove ownership of a live object and are not removed.
#[derive(Clone)]
pub struct UntrustedBases {
    pub objects: Vec<Object>,
    /// The base of a merge decides which fields are removed, so a base is used only if this client, too, may write the
    /// merged object.
    pub client: Client,
}

/// Ids only: objects may contain secrets.
impl fmt::Debug for UntrustedBases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.objects.iter().map(Object::id)).finish()
    }
}

impl ApplyOptions {
    pub fn new(way: ApplyStrategy) -> Self {
        Self {
            strategy: way,
            ownership: None,
            force_replace: false,
            dry_run: false,
            validate: true,
            deadline: None,
            untrusted: None,
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
pub struct ApplyResult {
    pub created: Vec<Object>,
    pub changed: Vec<Object>,
    pub unchanged: Vec<Object>,
    /// Previous objects that are no longer desired and were removed.
    pub removed: Vec<Object>,
    /// Previous objects that are no longer desired but kept, by their annotation or because they have another owner.
    pub kept: Vec<Object>,
}

/// Writes the desired objects (`after`) and removes the objects of `before` that are no longer desired.
pub async fn apply(
    target: &Target,
    before: &[Object],
    after: &[Object],
    options: &ApplyOptions,
    progress: &dyn ProgressSink,
) -> Result<ApplyResult, ApplyError> {
    plan(target, before, after, options).await?.execute(target, progress).await
}

/// Plan of an apply, for callers that do other work between reading and writing.
pub struct ApplyPlan {
    writes: Vec<PlannedWrite>,
    previous: HashMap<ObjectId, ResolvedObject>,
    options: ApplyOptions,
}

/// Resolves and reads all objects. Writes nothing.
pub async fn plan(
    target: &Target,
    before: &[Object],
    after: &[Object],
    options: &ApplyOptions,
) -> Result<ApplyPlan, ApplyError> {
    let wanted = target.resolve(after).await.map_err(ApplyError::without_writes)?;
    let large = are_large(after.iter().map(Object::value));
    let ownership = options.ownership.clone();
    let wanted =
        target.compute.run(large, move || deduplicate(with_ownership(wanted, ownership.as_ref()))).await;
    let former: HashMap<ObjectId, ResolvedObject> =
        target.resolve_previous(before).into_iter().map(|placed| (placed.id(), placed)).collect();
    let works = plan_writes(target, wanted, &former, options).await.map_err(ApplyError::without_writes)?;
    Ok(ApplyPlan { writes: works, previous: former, options: options.clone() })
}

impl ApplyPlan {
    /// Executes the plan: writes desired objects and removes obsolete ones.
    pub async fn execute(
        self,
        target: &Target,
        progress: &dyn ProgressSink,
    ) -> Result<ApplyResult, ApplyError> {
        let Self { writes: works, previous: former, options } = self;
        let ids: HashSet<ObjectId> = works.iter().map(|work| work.placed.id()).collect();
        let mut applied = ApplyResult::default();
        for wave in order::install_waves(works) {
            if let Err(failures) = write_wave(target, wave, &options, progress, &mut applied).await {
                return Err(ApplyError { failures, applied });
            }
        }
        let gone = former.into_values().filter(|placed| !ids.contains(&placed.id())).collect();
        let removal = RemoveOptions {
            ownership: options.ownership,
            dry_run: options.dry_run,
            ..RemoveOptions::default()
        };
        match remove::remove_resolved(target, gone, &removal, progress).await {
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

pub(crate) fn with_ownership(
    placed: Vec<ResolvedObject>,
    ownership: Option<&Ownership>,
) -> Vec<ResolvedObject> {
    let Some(ownership) = ownership else { return placed };
    let mark = |placed: ResolvedObject| {
        let mut value = placed.object.value().clone();
        ownership.set_metadata(&mut value);
        let object = placed.object.with_value(value).expect("marks make no difference to what it is");
        ResolvedObject { object, ..placed }
    };
    placed.into_iter().map(mark).collect()
}

/// Drops earlier duplicates: of objects that occur twice in a manifest, the last one is written.
fn deduplicate(placed: Vec<ResolvedObject>) -> Vec<ResolvedObject> {
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
async fn plan_writes(
    target: &Target,
    wanted: Vec<ResolvedObject>,
    former: &HashMap<ObjectId, ResolvedObject>,
    options: &ApplyOptions,
) -> Result<Vec<PlannedWrite>, Vec<ObjectError>> {
    let untrusted = options.untrusted.as_ref().map(|bases| bases.objects.as_slice()).unwrap_or_default();
    let untrusted = target.resolve_previous(untrusted);
    let untrusted: HashMap<ObjectId, ResolvedObject> =
        untrusted.into_iter().map(|placed| (placed.id(), placed)).collect();
    let untrusted = &untrusted;
    let looks = wanted.into_iter().map(|placed| async {
        let id = placed.id();
        let owned = former.get(&id);
        let untrusted = untrusted.get(&id).filter(|_| owned.is_none() && !target.is_reserved(&placed));
        let untrusted_base = untrusted.map(|placed| placed.object.clone());
        let previous = owned.map(|placed| placed.object.clone());
        let found = match write::read_current(target.client_for(&placed), &placed, options).await {
            Ok(found) => found,
            Err(error) => return Err(ObjectError::from_api_error(&placed.object, id, &error)),
        };
        // An object of the previous manifest is owned by the release; others are checked.
        let ownership_to_check =
            options.ownership.as_ref().filter(|owner| owned.is_none() && !owner.take_ownership);
        match ownership_to_check.zip(found.as_ref()).and_then(|(owner, found)| owner.validation_error(found))
        {
            Some(complaint) => {
                Err(ObjectError::new(&placed.object, id, ObjectErrorKind::OwnedByOther(complaint)))
            }
            None => Ok(PlannedWrite { placed, previous, untrusted_base, live: found }),
        }
    });
    collect_results(request::run_all(looks.map(FutureExt::boxed).collect()).await)
}

fn collect_results<T>(answers: Vec<Result<T, ObjectError>>) -> Result<Vec<T>, Vec<ObjectError>> {
    let mut failures = Vec::new();
    let good = answers.into_iter().filter_map(|answer| answer.map_err(|failure| failures.push(failure)).ok());
    let good: Vec<T> = good.collect();
    if failures.is_empty() { Ok(good) } else { Err(failures) }
}

/// Writes the objects of one wave concurrently. A failure does not stop the others.
async fn write_wave(
    target: &Target,
    wave: Vec<PlannedWrite>,
    options: &ApplyOptions,
    progress: &dyn ProgressSink,
    applied: &mut ApplyResult,
) -> Result<(), Vec<ObjectError>> {
    let writes = wave.into_iter().map(|work| async move {
        let (object, id) = (work.placed.object.clone(), work.placed.id());
        progress.report(ProgressEvent::Applying { id: id.clone() });
        match write::write(target, &work, options).await {
            Ok(outcome) => {
                progress.report(ProgressEvent::Applied { id, outcome });
                Ok((object, outcome))
            }
            Err(error) => {
                let failure = ObjectError::from_api_error(&object, id.clone(), &error);
                progress.report(ProgressEvent::Failed { id, reason: failure.error.to_string() });
                Err(failure)
            }
        }
    });
    let answers = request::run_all(writes.map(FutureExt::boxed).collect()).await;
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
        if is_crd(&object) && outcome != WriteOutcome::Unchanged {
            definitions.push(object.clone());
        }
        match outcome {
            WriteOutcome::Created => applied.created.push(object),
            WriteOutcome::Changed => applied.changed.push(object),
            WriteOutcome::Unchanged => applied.unchanged.push(object),
        }
    }
    if failures.is_empty() && !options.dry_run {
        failures = wait_until_established(target, &definitions, options.deadline, progress).await;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Waits until the kinds of these CRDs are served and refreshes discovery.
async fn wait_until_established(
    target: &Target,
    definitions: &[Object],
    deadline: Option<Instant>,
    progress: &dyn ProgressSink,
) -> Vec<ObjectError> {
    let Some(first) = definitions.first() else { return Vec::new() };
    let deadline = deadline.unwrap_or_else(|| Instant::now() + CRD_ESTABLISHED_TIMEOUT);
    if let Err(not_ready) =
        readiness::wait_until_ready(target, definitions, WaitStrategy::Watcher, deadline, progress).await
    {
        let failure = |(id, why): (ObjectId, String)| {
            let source = definitions.iter().find(|object| object.name() == id.name);
            ObjectError {
                source: source.and_then(|object| object.source.clone()),
                id,
                error: ObjectErrorKind::NotEstablished(why),
            }
        };
        return not_ready.objects.into_iter().map(failure).collect();
    }
    match wait_until_discovered(target, definitions, deadline.min(Instant::now() + DISCOVERY_TIMEOUT)).await {
        Ok(()) => Vec::new(),
        Err(error) => vec![ObjectError::from_api_error(first, first.id(), &error)],
    }
}

/// Refreshes discovery until it lists the kinds. The API server lists new kinds shortly after it serves them. On
/// timeout a later lookup refreshes again.
async fn wait_until_discovered(
    target: &Target,
    definitions: &[Object],
    deadline: Instant,
) -> Result<(), kube::Error> {
    let made = crd_kinds(definitions);
    let is_known =
        |(api_version, kind): &(String, String)| target.discovery.get_cached(api_version, kind).is_some();
    loop {
        target.discovery.refresh(&target.client).await?;
        if made.keys().all(is_known) || Instant::now() >= deadline {
            return Ok(());
        }
        sleep(DISCOVERY_POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests;
