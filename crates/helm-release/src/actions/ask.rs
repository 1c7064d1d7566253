//! What can be asked for.
//!
//! [`Run`] is what all acts share; the rest is each act's own. Names follow Helm 4's flags.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use helm_template::data::Members;
use kube_apply::{Id, Object, Target, Tell};

use crate::error::Error;
use crate::record::Record;
use crate::render::ReadyChart;

/// Where objects that are about to be written come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Rendered in this operation.
    Rendered,
    /// Taken from a stored record.
    Stored,
}

/// Changes objects after they were rendered and before they are written: manifests and hooks alike.
pub trait PostRender: Send + Sync {
    /// What is to be written instead, or why nothing can be.
    fn change(&self, objects: Vec<Object>, content: Content) -> BoxFuture<'_, Result<Vec<Object>, Error>>;
}

/// Says whether there is room for what is about to be written, when all of it is known and nothing is written yet.
pub trait Room: Send + Sync {
    /// What is short, for people; nothing, if it fits or cannot be told. `before` is what there may be of the release.
    fn short<'a>(
        &'a self,
        target: &'a Target,
        before: &'a [Object],
        after: &'a [Object],
    ) -> BoxFuture<'a, Option<String>>;
}

/// What is waited for before an act is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Only hooks.
    #[default]
    HookOnly,
    /// Everything, as Helm 4 judges.
    Watcher,
    /// Everything, as Helm 3 judges.
    Legacy,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Applying {
    /// As the newest deployed record was; of a new release, server-side.
    #[default]
    Auto,
    ServerSide,
    /// Helm 3's merge of three, with a record of Helm 4.
    ThreeWay,
    /// The same, with a record of Helm 3, which does not say how.
    Helm3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    #[default]
    No,
    /// The cluster is not asked; `lookup` finds nothing.
    Client,
    /// The cluster is asked, and nothing is written.
    Server,
}

/// What becomes of the values of the release as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// They hold if none are given.
    #[default]
    Keep,
    /// They hold, and the old chart's defaults with them; what is given stands over both.
    Reuse,
    /// They are forgotten.
    Reset,
    /// They hold over the new chart's defaults; what is given stands over both.
    ResetThenReuse,
}

/// What all acts share.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of Helm's")]
pub struct Run<'r> {
    pub hooks: bool,
    pub wait: Wait,
    /// Waits for Jobs, too.
    pub wait_for_jobs: bool,
    /// For each thing that is waited for.
    pub timeout: Duration,
    pub dry_run: DryRun,
    pub applying: Applying,
    /// Delete and create what cannot be changed.
    pub force_replace: bool,
    /// Take fields that somebody else manages.
    pub force_conflicts: bool,
    /// Take objects that are not marked as this release's.
    pub take_ownership: bool,
    /// What the record says instead of Helm's words.
    pub description: Option<String>,
    /// So many revisions are kept; 0 is all of them.
    pub max_history: usize,
    /// Text that must not be said: it is masked in errors and descriptions, as data of rendered Secrets always is.
    pub sensitive: Vec<String>,
    pub post_render: Option<&'r dyn PostRender>,
    /// Asked by installations and upgrades. Nobody asks before going back to what was there.
    pub room: Option<&'r dyn Room>,
    pub tell: &'r dyn Tell,
}

impl<'r> Run<'r> {
    /// As Helm 4 does it when no flag is given.
    pub fn new(tell: &'r dyn Tell) -> Self {
        Self {
            hooks: true,
            wait: Wait::HookOnly,
            wait_for_jobs: false,
            timeout: Duration::from_mins(5),
            dry_run: DryRun::No,
            applying: Applying::Auto,
            force_replace: false,
            force_conflicts: false,
            take_ownership: false,
            description: None,
            max_history: 10,
            sensitive: Vec::new(),
            post_render: None,
            room: None,
            tell,
        }
    }
}

/// Makes a release.
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of Helm's")]
pub struct Install<'r> {
    pub name: String,
    pub namespace: String,
    pub chart: Arc<ReadyChart>,
    pub values: Arc<Members>,
    /// On the record, beside Helm's own.
    pub labels: BTreeMap<String, String>,
    pub create_namespace: bool,
    pub skip_crds: bool,
    pub skip_schema: bool,
    pub subchart_notes: bool,
    /// The name may be that of a release which failed or whose history was kept.
    pub replace: bool,
    /// What fails is uninstalled again.
    pub atomic: bool,
    pub run: Run<'r>,
}

/// Makes a release anew.
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of Helm's")]
pub struct Upgrade<'r> {
    pub name: String,
    pub namespace: String,
    pub chart: Arc<ReadyChart>,
    pub values: Arc<Members>,
    pub old_values: Values,
    /// Over those of the last record; the value `null` removes one.
    pub labels: BTreeMap<String, String>,
    /// Where there is none, it is installed.
    pub install: bool,
    /// With `install` only.
    pub create_namespace: bool,
    /// With `install` only: an upgrade never touches `crds/`.
    pub skip_crds: bool,
    pub skip_schema: bool,
    pub subchart_notes: bool,
    /// What fails is rolled back to the last that succeeded.
    pub atomic: bool,
    /// What was created by an upgrade that fails is deleted.
    pub cleanup_on_fail: bool,
    pub run: Run<'r>,
}

/// Goes back to what a release was; also one that was uninstalled, if its history was kept.
pub struct Rollback<'r> {
    pub name: String,
    pub namespace: String,
    /// 0 is the one before the last.
    pub revision: i64,
    pub cleanup_on_fail: bool,
    pub run: Run<'r>,
}

/// How dependents of what is deleted go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// Takes a release away.
pub struct Uninstall<'r> {
    pub name: String,
    pub namespace: String,
    pub keep_history: bool,
    pub ignore_not_found: bool,
    pub propagation: Propagation,
    /// Also while somebody who holds no Lease makes a revision or takes it away, as Helm does it.
    pub interrupts: bool,
    pub run: Run<'r>,
}

/// What was taken away.
#[derive(Debug)]
pub struct Uninstalled {
    /// The last record, as it was left; none where there was no release.
    pub record: Option<Record>,
    /// What stays because it says so (`helm.sh/resource-policy: keep`).
    pub kept: Vec<Id>,
    /// What stays because it is not this release's.
    pub unowned: Vec<Id>,
}

/// Runs a release's tests.
pub struct Test<'r> {
    pub name: String,
    pub namespace: String,
    /// Only these, if any.
    pub only: Vec<String>,
    pub except: Vec<String>,
    pub run: Run<'r>,
}

/// What was left behind by somebody who died, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing was.
    Nothing,
    /// This revision was pending, and has failed now.
    Interrupted(i64),
    /// It was being uninstalled, and is now. Its history is kept.
    Uninstalled(i64),
    /// More than one revision was deployed, and only this one still is.
    Superseded(i64),
}
