//! Options of every action.
//!
//! [`ActionOptions`] holds the options that all actions share; the other types are specific to one action. Names follow Helm
//! 4's flags.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use helm_template::data::Members;
use kube_apply::{Object, ObjectId, ProgressSink, Target};

use crate::error::Error;
use crate::record::Record;
use crate::render::PreparedChart;

/// Source of objects that are about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// Rendered in this operation.
    Rendered,
    /// Read from a stored record.
    Stored,
}

/// Post-renderer: changes objects (manifests and hooks) after rendering and before they are written.
pub trait PostRenderer: Send + Sync {
    /// Returns the objects to write, or an error that stops the action.
    fn run(&self, objects: Vec<Object>, content: ContentSource) -> BoxFuture<'_, Result<Vec<Object>, Error>>;
}

/// Capacity check, called with all objects of an action before anything is written.
pub trait CapacityCheck: Send + Sync {
    /// Describes the shortage for users. `None` if the objects fit, or if that cannot be determined. `before` are the
    /// objects that the release may already have in the cluster.
    fn shortage<'a>(
        &'a self,
        target: &'a Target,
        before: &'a [Object],
        after: &'a [Object],
    ) -> BoxFuture<'a, Option<String>>;
}

/// Objects an action waits for before it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// Hooks only.
    #[default]
    HookOnly,
    /// All objects, by Helm 4's readiness rules.
    Watcher,
    /// All objects, by Helm 3's readiness rules.
    Legacy,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyMode {
    /// As recorded by the newest deployed revision; server-side for a new release.
    #[default]
    Auto,
    ServerSide,
    /// Helm 3's three-way merge, recorded as Helm 4 does.
    ThreeWay,
    /// Helm 3's three-way merge, recorded as Helm 3 does: without an apply method.
    Helm3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    #[default]
    No,
    /// No calls to the cluster; `lookup` finds nothing.
    Client,
    /// Reads from the cluster and writes nothing.
    Server,
}

/// Policy for the values of the current revision on upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValuesPolicy {
    /// Keep the current values if no new ones are given (Helm's default).
    #[default]
    Keep,
    /// Keep the current values over the old chart's defaults, and merge the given values on top (`--reuse-values`).
    Reuse,
    /// Drop the current values (`--reset-values`).
    Reset,
    /// Keep the current values over the new chart's defaults, and merge the given values on top
    /// (`--reset-then-reuse-values`).
    ResetThenReuse,
}

/// Options shared by all actions.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of Helm's")]
pub struct ActionOptions<'r> {
    pub hooks: bool,
    pub wait: WaitMode,
    /// Also waits for Jobs to complete.
    pub wait_for_jobs: bool,
    /// Timeout of each wait.
    pub timeout: Duration,
    pub dry_run: DryRun,
    pub apply_mode: ApplyMode,
    /// Delete and recreate objects that cannot be updated.
    pub force_replace: bool,
    /// Take over fields that another field manager owns.
    pub force_conflicts: bool,
    /// Adopt objects without this release's ownership metadata.
    pub take_ownership: bool,
    /// Description of the record, in place of Helm's text.
    pub description: Option<String>,
    /// Number of revisions to keep; 0 keeps all.
    pub max_history: usize,
    /// Sensitive text. It is masked in errors and descriptions, as data of rendered Secrets always is.
    pub sensitive: Vec<String>,
    pub post_renderer: Option<&'r dyn PostRenderer>,
    /// Called by installations and upgrades. A rollback is not checked.
    pub capacity_check: Option<&'r dyn CapacityCheck>,
    pub progress: &'r dyn ProgressSink,
}

impl<'r> ActionOptions<'r> {
    /// Helm 4's defaults.
    pub fn new(tell: &'r dyn ProgressSink) -> Self {
        Self {
            hooks: true,
            wait: WaitMode::HookOnly,
            wait_for_jobs: false,
            timeout: Duration::from_mins(5),
            dry_run: DryRun::No,
            apply_mode: ApplyMode::Auto,
            force_replace: false,
            force_conflicts: false,
            take_ownership: false,
            description: None,
            max_history: 10,
            sensitive: Vec::new(),
            post_renderer: None,
            capacity_check: None,
            progress: tell,
        }
    }
}

/// Installs a release.
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of Helm's")]
pub struct Install<'r> {
    pub name: String,
    pub namespace: String,
    pub chart: Arc<PreparedChart>,
    pub values: Arc<Members>,
    /// Labels on the record, in addition to Helm's own.
    pub labels: BTreeMap<String, String>,
    pub create_namespace: bool,
    pub skip_crds: bool,
    pub skip_schema: bool,
    pub subchart_notes: bool,
    /// Allows reuse of the name of a failed release, or of an uninstalled one whose history was kept.
    pub replace: bool,
    /// Uninstall the release if the installation fails.
    pub atomic: bool,
    pub options: ActionOptions<'r>,
}

/// Upgrades a release.
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of Helm's")]
pub struct Upgrade<'r> {
    pub name: String,
    pub namespace: String,
    pub chart: Arc<PreparedChart>,
    pub values: Arc<Members>,
    pub values_policy: ValuesPolicy,
    /// Merged over the labels of the last record; the value `null` removes a label.
    pub labels: BTreeMap<String, String>,
    /// Install the release if it does not exist.
    pub install: bool,
    /// Only with `install`.
    pub create_namespace: bool,
    /// Only with `install`: an upgrade never writes `crds/`.
    pub skip_crds: bool,
    pub skip_schema: bool,
    pub subchart_notes: bool,
    /// Roll back to the last successful revision if the upgrade fails.
    pub atomic: bool,
    /// Delete the objects that a failed upgrade created.
    pub cleanup_on_fail: bool,
    pub options: ActionOptions<'r>,
}

/// Rolls a release back to an earlier revision. Also restores an uninstalled release whose history was kept.
pub struct Rollback<'r> {
    pub name: String,
    pub namespace: String,
    /// Target revision; 0 is the one before the last.
    pub revision: i64,
    pub cleanup_on_fail: bool,
    pub options: ActionOptions<'r>,
}

/// Deletion propagation policy for dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// Uninstalls a release.
pub struct Uninstall<'r> {
    pub name: String,
    pub namespace: String,
    pub keep_history: bool,
    pub ignore_not_found: bool,
    pub propagation: Propagation,
    /// Proceeds although a client that uses no Lease may still be installing, upgrading or deleting the release, as
    /// Helm does.
    pub ignore_pending: bool,
    pub options: ActionOptions<'r>,
}

/// Result of an uninstallation.
#[derive(Debug)]
pub struct UninstallResult {
    /// The last record in its final state; `None` if there was no release.
    pub record: Option<Record>,
    /// Objects kept because of `helm.sh/resource-policy: keep`.
    pub kept: Vec<ObjectId>,
    /// Objects kept because the release does not own them.
    pub unowned: Vec<ObjectId>,
}

/// Runs the tests of a release.
pub struct Test<'r> {
    pub name: String,
    pub namespace: String,
    /// Names of the tests to run; empty runs all.
    pub only: Vec<String>,
    pub except: Vec<String>,
    pub options: ActionOptions<'r>,
}

/// Result of recovering an interrupted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// There was nothing to recover.
    Nothing,
    /// This pending revision was marked as failed.
    Interrupted(i64),
    /// The interrupted uninstallation of this revision was finished. The history is kept.
    Uninstalled(i64),
    /// More than one revision was `deployed`; only this one still is.
    Superseded(i64),
}
