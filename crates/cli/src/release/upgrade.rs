//! `longshore upgrade`: changes the chart, version or values of a release.

use std::sync::Arc;

use clap::Args;
use helm_release::Status;
use helm_release::actions::{Upgrade, ValuesPolicy, WaitMode};

use super::chart::{PROFILE, load};
use super::connect::{ClusterTarget, connect};
use super::deploy::DeployArgs;
use super::flags::Format;
use super::progress::StderrProgress;
use super::show::{ShowOptions, hide_secrets, release};
use super::target::CommandTargetArgs;
use crate::helm::CommandResult;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct UpgradeArgs {
    /// Name of the release
    pub name: String,
    /// Chart: directory, archive, REPO/CHART, URL or `oci://HOST/PATH`
    pub chart: String,
    #[command(flatten)]
    pub deploy: DeployArgs,
    #[command(flatten)]
    pub old_values: PreviousValuesArgs,
    /// Install the chart if the release does not exist
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub install: Switch,
    /// Delete objects that a failed upgrade created
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub cleanup_on_fail: Switch,
    /// Number of revisions to keep; 0 for no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub history_max: usize,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

/// Policy for the previous values of the release.
#[derive(Clone, Debug, Default, Args)]
pub struct PreviousValuesArgs {
    /// Discard the release's values and use the chart's defaults
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub reset_values: Switch,
    /// Reuse the release's values and its chart's defaults
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub reuse_values: Switch,
    /// Reuse the release's values over the new chart's defaults
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub reset_then_reuse_values: Switch,
}

impl PreviousValuesArgs {
    /// The policy of the flags, in Helm's precedence.
    pub fn values_policy(&self) -> ValuesPolicy {
        match self {
            Self { reset_values: Switch(true), .. } => ValuesPolicy::Reset,
            Self { reuse_values: Switch(true), .. } => ValuesPolicy::Reuse,
            Self { reset_then_reuse_values: Switch(true), .. } => ValuesPolicy::ResetThenReuse,
            _ => ValuesPolicy::Keep,
        }
    }
}

pub async fn run(args: &UpgradeArgs, at: &ClusterTarget) -> CommandResult {
    let deploy = &args.deploy;
    args.deploy.administrator.reject_on_cluster("upgrade")?;
    let reached = connect(at).await?;
    let name = &args.name;
    let entries = if args.install.0 {
        reached.storage().entries(name).await.map_err(|error| error.to_string())?
    } else {
        Vec::new()
    };
    let is_new =
        args.install.0 && entries.last().is_none_or(|entry| entry.meta.status == Status::Uninstalled);
    // Helm adds this prefix to failed upgrades only.
    let failed = |why: String| if is_new { why } else { format!("UPGRADE FAILED: {why}") };
    let mut said = String::new();
    let is_table = deploy.output.output == Format::Table;
    if is_new && is_table {
        said = format!("Release {name:?} does not exist. Installing it now.\n");
    }
    if deploy.shown.hide_secret.0 && !deploy.write.is_dry() {
        return Err(failed("hiding Kubernetes secrets requires a dry-run mode".to_owned()).into());
    }
    let chart = load(&args.chart, &deploy.remote).await?;
    let values = deploy.values.read(PROFILE)?;
    let helm = reached.helm().await.map_err(failed)?;
    let progress = StderrProgress::new();
    let mut run = deploy.write.action_options(&deploy.wait, &progress);
    run.take_ownership = deploy.fresh.take_ownership.0;
    run.max_history = args.history_max;
    if deploy.fresh.rollback_on_failure.0 && run.wait == WaitMode::HookOnly {
        run.wait = WaitMode::Watcher;
    }
    let ask = Upgrade {
        name: name.clone(),
        namespace: reached.namespace.clone(),
        chart,
        values: Arc::new(values),
        values_policy: args.old_values.values_policy(),
        labels: deploy.labels.to_map(),
        install: args.install.0,
        create_namespace: deploy.fresh.create_namespace.0,
        skip_crds: deploy.fresh.skip_crds.0,
        skip_schema: deploy.fresh.skip_schema_validation.0,
        subchart_notes: deploy.fresh.render_subchart_notes.0,
        atomic: deploy.fresh.rollback_on_failure.0,
        cleanup_on_fail: args.cleanup_on_fail.0,
        options: run,
    };
    let mut record = Box::pin(helm.upgrade(&ask)).await.map_err(|error| failed(error.to_string()))?;
    if deploy.shown.hide_secret.0 {
        hide_secrets(&mut record);
    }
    if !is_new && is_table {
        said = format!("Release {name:?} has been upgraded. Happy Helming!\n");
    }
    let shown = ShowOptions { hide_notes: deploy.shown.hide_notes.0, ..ShowOptions::default() };
    let printed = release(&record, deploy.output.output, shown)?;
    Ok([said.into_bytes(), printed].concat())
}
