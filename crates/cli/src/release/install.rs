//! `longshore install`: installs a chart.

use std::sync::Arc;

use clap::Args;
use helm_release::Error;
use helm_release::actions::{Install, WaitMode};

use super::chart::{NameArguments, PROFILE, load};
use super::connect::{ClusterTarget, connect};
use super::deploy::DeployArgs;
use super::progress::StderrProgress;
use super::show::{ShowOptions, hide_secrets, release};
use super::target::CommandTargetArgs;
use crate::helm::CommandResult;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct InstallArgs {
    /// Release name, and the chart: directory, archive, REPO/CHART, URL or `oci://HOST/PATH`
    #[arg(value_name = "NAME] [CHART")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub deploy: DeployArgs,
    /// Generate the release name
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub generate_name: Switch,
    /// Template for the release name
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub name_template: String,
    /// Reuse the name of a failed release, or of one that was uninstalled with --keep-history
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub replace: Switch,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

pub async fn run(args: &InstallArgs, at: &ClusterTarget) -> CommandResult {
    let deploy = &args.deploy;
    // Checked first, as in Helm.
    let failed = |why: String| format!("INSTALLATION FAILED: {why}");
    if deploy.shown.hide_secret.0 && !deploy.write.is_dry() {
        return Err(failed("hiding Kubernetes secrets requires a dry-run mode".to_owned()).into());
    }
    deploy.administrator.reject_on_cluster("install")?;
    let reached = connect(at).await?;
    let names = NameArguments {
        arguments: &args.names,
        generate: args.generate_name.0,
        template: &args.name_template,
        now: reached.clock.now().as_second(),
    };
    let (name, chart) = names.resolve().map_err(failed)?;
    let chart = load(&chart, &deploy.remote).await.map_err(failed)?;
    let values = deploy.values.read(PROFILE).map_err(failed)?;
    let helm = reached.helm().await.map_err(failed)?;
    let progress = StderrProgress::new();
    let mut run = deploy.write.action_options(&deploy.wait, &progress);
    run.take_ownership = deploy.fresh.take_ownership.0;
    if deploy.fresh.rollback_on_failure.0 && run.wait == WaitMode::HookOnly {
        run.wait = WaitMode::Watcher;
    }
    let ask = Install {
        name,
        namespace: reached.namespace.clone(),
        chart,
        values: Arc::new(values),
        labels: deploy.labels.to_map(),
        create_namespace: deploy.fresh.create_namespace.0,
        skip_crds: deploy.fresh.skip_crds.0,
        skip_schema: deploy.fresh.skip_schema_validation.0,
        subchart_notes: deploy.fresh.render_subchart_notes.0,
        replace: args.replace.0,
        atomic: deploy.fresh.rollback_on_failure.0,
        options: run,
    };
    let mut record = Box::pin(helm.install(&ask)).await.map_err(|error| failed(failure_message(&error)))?;
    if deploy.shown.hide_secret.0 {
        hide_secrets(&mut record);
    }
    release(
        &record,
        deploy.output.output,
        ShowOptions { hide_notes: deploy.shown.hide_notes.0, ..ShowOptions::default() },
    )
}

/// Helm's prefix for errors of an installation.
fn failure_message(error: &Error) -> String {
    match error {
        Error::NameInUse => format!("release name check failed: {error}"),
        _ => error.to_string(),
    }
}
