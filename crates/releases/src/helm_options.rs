//! Helm's install and upgrade of a release spec: shared by the controller, which executes it, and by plans, which run it dry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::release::operation::ReleaseAction;
use futures::FutureExt;
use helm_release::actions::{ActionOptions, DryRun, Install, PostRenderer, Upgrade, ValuesPolicy, WaitMode};
use helm_release::render::PreparedChart;
use helm_release::{Error, Helm, Record};
use helm_template::data::Members;
use kube_apply::NoProgress;
use kube_types::HelmReleaseSpec;
use kube_types::release::ReleaseOptions;

/// The inputs of a deployment besides the spec.
pub(crate) struct DeployInputs {
    pub name: String,
    pub namespace: String,
    pub chart: Arc<PreparedChart>,
    pub values: Arc<Members>,
    /// Labels of the Helm record.
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelmAction {
    Install,
    Upgrade,
}

impl HelmAction {
    /// The Helm action for a decided step. The only place of this choice, for the controller and for plans.
    ///
    /// An interrupted operation is recovered first and then upgraded. A plan reports it as pending.
    pub fn from_release_action(step: ReleaseAction) -> Self {
        match step {
            ReleaseAction::Install | ReleaseAction::Reinstall => Self::Install,
            ReleaseAction::Upgrade | ReleaseAction::Recover | ReleaseAction::FinishUninstall => Self::Upgrade,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
        }
    }
}

/// Maps the options of the spec to the options of a Helm action.
pub(crate) fn action_options<'r>(
    spec: &HelmReleaseSpec,
    timeout: Duration,
    change: &'r dyn PostRenderer,
) -> ActionOptions<'r> {
    let ReleaseOptions {
        wait, wait_for_jobs, atomic, disable_hooks, force, take_ownership, max_history, ..
    } = spec.options;
    let mut run = ActionOptions::new(&NoProgress);
    run.hooks = !disable_hooks;
    run.wait = if wait || wait_for_jobs || atomic { WaitMode::Watcher } else { WaitMode::HookOnly };
    run.wait_for_jobs = wait_for_jobs;
    run.timeout = timeout;
    run.force_replace = force;
    run.take_ownership = take_ownership;
    run.max_history = max_history.and_then(|most| usize::try_from(most).ok()).unwrap_or(10);
    run.post_renderer = Some(change);
    run
}

/// Installs or upgrades. With a dry `run`, returns the record that would be created.
pub(crate) async fn deploy(
    helm: &Helm,
    action: HelmAction,
    inputs: DeployInputs,
    spec: &HelmReleaseSpec,
    run: ActionOptions<'_>,
) -> Result<Record, Error> {
    let DeployInputs { name, namespace, chart, values, labels } = inputs;
    let ReleaseOptions { skip_crds, atomic, cleanup_on_fail, .. } = spec.options;
    // A dry run has nothing to undo.
    let executes = run.dry_run == DryRun::No;
    match action {
        HelmAction::Upgrade => {
            let upgrade = Upgrade {
                name,
                namespace,
                chart,
                values,
                values_policy: ValuesPolicy::Reset,
                labels,
                install: true,
                create_namespace: false,
                skip_crds,
                skip_schema: false,
                subchart_notes: false,
                atomic: atomic && executes,
                cleanup_on_fail: cleanup_on_fail && executes,
                options: run,
            };
            helm.upgrade(&upgrade).boxed().await
        }
        HelmAction::Install => {
            let install = Install {
                name,
                namespace,
                chart,
                values,
                labels,
                create_namespace: false,
                skip_crds,
                skip_schema: false,
                subchart_notes: false,
                replace: true,
                atomic: atomic && executes,
                options: run,
            };
            helm.install(&install).boxed().await
        }
    }
}
