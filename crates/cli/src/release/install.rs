//! `longshore install`: a chart becomes a release.

use std::sync::Arc;

use clap::Args;
use helm_release::Error;
use helm_release::actions::{Install, Wait};

use super::chart::{Names, PROFILE, load};
use super::connect::{ClusterArgs, reach};
use super::flags::{LabelsArg, OutputArg, WaitArgs, WriteArgs};
use super::progress::Progress;
use super::show::{Shown, hide_secrets, release};
use crate::helm::Outcome;
use crate::helm::flags::{Switch, ValuesArgs, switch};
use crate::helm::remote::RemoteArgs;

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct InstallArgs {
    /// The release's name, and the chart: a folder, an archive, REPO/CHART, an address or `oci://HOST/PATH`
    #[arg(value_name = "NAME] [CHART")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub remote: RemoteArgs,
    #[command(flatten)]
    pub values: ValuesArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub labels: LabelsArg,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub fresh: FreshArgs,
    #[command(flatten)]
    pub shown: ShownArgs,
    /// Make up the release's name
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub generate_name: Switch,
    /// A template for the release's name
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub name_template: String,
    /// Take a name whose release was uninstalled with its history kept, or failed
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub replace: Switch,
}

/// What counts when a release is made, by `install` or by `upgrade --install`.
#[derive(Clone, Debug, Default, Args)]
pub struct FreshArgs {
    /// Make the namespace if it is not there
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub create_namespace: Switch,
    /// Install nothing of `crds/`
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_crds: Switch,
    /// Do not hold values against the charts' schemas
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_schema_validation: Switch,
    /// Take objects that are there already and are not marked as this release's
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub take_ownership: Switch,
    /// Undo what fails; waits
    #[arg(long, visible_alias = "atomic", value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub rollback_on_failure: Switch,
    /// Notes of subcharts count, too
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub render_subchart_notes: Switch,
}

/// What is left out of the result.
#[derive(Clone, Debug, Default, Args)]
pub struct ShownArgs {
    /// Print no notes
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub hide_notes: Switch,
    /// Print no Secrets of a dry run
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub hide_secret: Switch,
}

pub async fn run(args: &InstallArgs) -> Outcome {
    // Said before anything else, as Helm does: which of the names is missing.
    let failed = |why: String| format!("INSTALLATION FAILED: {why}");
    if args.shown.hide_secret.0 && !args.write.is_dry() {
        return Err(failed("hiding Kubernetes secrets requires a dry-run mode".to_owned()).into());
    }
    let reached = reach(&args.cluster).await?;
    let names = Names {
        arguments: &args.names,
        generate: args.generate_name.0,
        template: &args.name_template,
        now: reached.clock.now().as_second(),
    };
    let (name, chart) = names.both().map_err(failed)?;
    let chart = load(&chart, &args.remote).await.map_err(failed)?;
    let values = args.values.read(PROFILE).map_err(failed)?;
    let helm = reached.helm().await.map_err(failed)?;
    let progress = Progress::new();
    let mut run = args.write.run(&args.wait, &progress);
    run.take_ownership = args.fresh.take_ownership.0;
    if args.fresh.rollback_on_failure.0 && run.wait == Wait::HookOnly {
        run.wait = Wait::Watcher;
    }
    let ask = Install {
        name,
        namespace: reached.namespace.clone(),
        chart,
        values: Arc::new(values),
        labels: args.labels.map(),
        create_namespace: args.fresh.create_namespace.0,
        skip_crds: args.fresh.skip_crds.0,
        skip_schema: args.fresh.skip_schema_validation.0,
        subchart_notes: args.fresh.render_subchart_notes.0,
        replace: args.replace.0,
        atomic: args.fresh.rollback_on_failure.0,
        run,
    };
    let mut record = Box::pin(helm.install(&ask)).await.map_err(|error| failed(words(&error)))?;
    if args.shown.hide_secret.0 {
        hide_secrets(&mut record);
    }
    release(&record, args.output.output, Shown { hide_notes: args.shown.hide_notes.0, ..Shown::default() })
}

/// Helm has words before these, where it is a matter of installing.
fn words(error: &Error) -> String {
    match error {
        Error::NameInUse => format!("release name check failed: {error}"),
        _ => error.to_string(),
    }
}
