//! Helm's install and upgrade of a release spec: shared by the controller, which executes it, and by plans, which run it dry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::release::operation::Step;
use futures::FutureExt;
use helm_release::actions::{DryRun, Install, PostRender, Run, Upgrade, Values, Wait};
use helm_release::render::ReadyChart;
use helm_release::{Error, Helm, Record};
use helm_template::data::Members;
use kube_apply::Silent;
use kube_types::HelmReleaseSpec;
use kube_types::release::Options;

/// The inputs of a deployment besides the spec.
pub(crate) struct Inputs {
    pub name: String,
    pub namespace: String,
    pub chart: Arc<ReadyChart>,
    pub values: Arc<Members>,
    /// Labels of the Helm record.
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Install,
    Upgrade,
}

impl Action {
    /// The Helm action for a decided step. The only place of this choice, for the controller and for plans.
    ///
    /// An interrupted operation is recovered first and then upgraded. A plan reports it as pending.
    pub fn of(step: Step) -> Self {
        match step {
            Step::Install | Step::Reinstall => Self::Install,
            Step::Upgrade | Step::Recover | Step::FinishUninstall => Self::Upgrade,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
        }
    }
}

/// Maps the options of the spec to the options of a Helm action.
pub(crate) fn run<'r>(spec: &HelmReleaseSpec, timeout: Duration, change: &'r dyn PostRender) -> Run<'r> {
    let Options { wait, wait_for_jobs, atomic, disable_hooks, force, take_ownership, max_history, .. } =
        spec.options;
    let mut run = Run::new(&Silent);
    run.hooks = !disable_hooks;
    run.wait = if wait || wait_for_jobs || atomic { Wait::Watcher } else { Wait::HookOnly };
    run.wait_for_jobs = wait_for_jobs;
    run.timeout = timeout;
    run.force_replace = force;
    run.take_ownership = take_ownership;
    run.max_history = max_history.and_then(|most| usize::try_from(most).ok()).unwrap_or(10);
    run.post_render = Some(change);
    run
}

/// Installs or upgrades. With a dry `run`, returns the record that would be created.
pub(crate) async fn deploy(
    helm: &Helm,
    action: Action,
    inputs: Inputs,
    spec: &HelmReleaseSpec,
    run: Run<'_>,
) -> Result<Record, Error> {
    let Inputs { name, namespace, chart, values, labels } = inputs;
    let Options { skip_crds, atomic, cleanup_on_fail, .. } = spec.options;
    // A dry run has nothing to undo.
    let executes = run.dry_run == DryRun::No;
    match action {
        Action::Upgrade => {
            let upgrade = Upgrade {
                name,
                namespace,
                chart,
                values,
                old_values: Values::Reset,
                labels,
                install: true,
                create_namespace: false,
                skip_crds,
                skip_schema: false,
                subchart_notes: false,
                atomic: atomic && executes,
                cleanup_on_fail: cleanup_on_fail && executes,
                run,
            };
            helm.upgrade(&upgrade).boxed().await
        }
        Action::Install => {
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
                run,
            };
            helm.install(&install).boxed().await
        }
    }
}
