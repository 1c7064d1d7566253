//! `longshore uninstall`: uninstalls releases.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use helm_release::actions::{ActionOptions, DryRun, Propagation, Uninstall};

use super::connect::{ClusterTarget, connect};
use super::flags::{AdministratorArg, WaitArgs};
use super::progress::StderrProgress;
use super::target::{CommandTargetArgs, platform_required};
use crate::helm::flags::{Switch, switch};
use crate::helm::{CommandError, CommandResult};

#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
    /// The releases
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// How what belongs to the objects goes
    #[arg(long, value_enum, default_value = "background")]
    pub cascade: Cascade,
    /// Say what would be done
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub dry_run: Switch,
    /// One that is not there is no mistake
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub ignore_not_found: Switch,
    /// Keep the history, to go back to it
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub keep_history: Switch,
    /// Run no hooks
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_hooks: Switch,
    /// Delete the claims that its StatefulSets made, too, and with them the data; on a platform only
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub claims: Switch,
    /// Whatever is in the way: run no hooks, and leave what cannot be removed; for administrators of a platform's workspace only
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub force: Switch,
    /// What the record says of it
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub administrator: AdministratorArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Cascade {
    Background,
    Foreground,
    Orphan,
}

pub async fn run(args: &UninstallArgs, at: &ClusterTarget) -> CommandResult {
    if args.claims.0 {
        return Err(platform_required("uninstall --claims"));
    }
    if args.force.0 {
        return Err(platform_required("uninstall --force"));
    }
    args.administrator.reject_on_cluster("uninstall")?;
    let reached = connect(at).await?;
    let helm = reached.helm().await?;
    let progress = StderrProgress::new();
    let mut said = String::new();
    for name in &args.names {
        let ask = Uninstall {
            name: name.clone(),
            namespace: reached.namespace.clone(),
            keep_history: args.keep_history.0,
            ignore_not_found: args.ignore_not_found.0,
            propagation: match args.cascade {
                Cascade::Background => Propagation::Background,
                Cascade::Foreground => Propagation::Foreground,
                Cascade::Orphan => Propagation::Orphan,
            },
            ignore_pending: true,
            options: ActionOptions {
                hooks: !args.no_hooks.0,
                wait: args.wait.wait.unwrap_or_default(),
                timeout: args.wait.timeout,
                dry_run: if args.dry_run.0 { DryRun::Server } else { DryRun::No },
                description: args.description.clone().filter(|text| !text.is_empty()),
                ..ActionOptions::new(&progress)
            },
        };
        // Releases before the failed one were uninstalled, so their output is kept.
        let gone = match Box::pin(helm.uninstall(&ask)).await {
            Ok(gone) => gone,
            Err(error) => return Err(CommandError::with_output(said, error.to_string())),
        };
        if !gone.kept.is_empty() {
            said.push_str("These resources were kept due to the resource policy:\n");
            for id in &gone.kept {
                let _ = writeln!(said, "[{}] {}", id.kind, id.name);
            }
            said.push('\n');
        }
        let _ = writeln!(said, "release \"{name}\" uninstalled");
    }
    Ok(said.into_bytes())
}
