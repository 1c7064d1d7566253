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
    /// Names of the releases
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Deletion of dependent objects
    #[arg(long, value_enum, default_value = "background")]
    pub cascade: Cascade,
    /// Simulate the operation
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub dry_run: Switch,
    /// Ignore releases that do not exist
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub ignore_not_found: Switch,
    /// Keep the revision history for a later rollback
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub keep_history: Switch,
    /// Skip hooks
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_hooks: Switch,
    /// Also delete the PersistentVolumeClaims of its StatefulSets, with all data (platform only)
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub claims: Switch,
    /// Skip hooks and leave objects that cannot be deleted (platform only, for workspace administrators)
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub force: Switch,
    /// Description of the revision
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
