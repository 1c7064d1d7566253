//! Release commands with Helm's and kubectl's conventions, for platforms and, with a kubeconfig, directly for clusters.
//!
//! Directly on a cluster these are Helm's commands on Longshore's engine. They use the permissions of the kubeconfig
//! and store Helm's records, so that the helm command can continue. On a platform they send requests and follow the
//! operation. Results go to standard output, progress to standard error.
//!
//! Modules:
//! - `target`, `connect`: target of a command
//! - `flags`, `deploy`, `action_args`: arguments
//! - `chart`: loading charts
//! - `progress`, `output`, `show`, `resources`: output
//! - one module per command, with its implementation for clusters
//! - `remote`: implementation for platforms

pub mod action_args;
mod chart;
mod connect;
pub mod deploy;
pub mod diff;
mod flags;
pub mod get;
pub mod history;
pub mod install;
pub mod list;
pub mod logs;
mod output;
mod progress;
mod remote;
mod resources;
pub mod rollback;
mod show;
pub mod status;
mod target;
pub mod test;
pub mod uninstall;
pub mod upgrade;

use clap::Subcommand;

use crate::helm::CommandResult;
use crate::platform::CommandEnv;
use target::{CommandTarget, CommandTargetArgs, platform_required};

/// Names of the release commands.
pub const COMMANDS: &[&str] = &[
    "install",
    "upgrade",
    "rollback",
    "uninstall",
    "un",
    "delete",
    "del",
    "list",
    "ls",
    "status",
    "history",
    "hist",
    "get",
    "diff",
    "test",
    "pause",
    "recover",
    "suspend",
    "resume",
    "retry",
    "restart",
    "adopt",
    "logs",
];

/// Commands for releases.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install a chart
    Install(Box<install::InstallArgs>),
    /// Upgrade a release to another chart, chart version or values
    Upgrade(Box<upgrade::UpgradeArgs>),
    /// Roll back a release to an earlier revision
    Rollback(Box<rollback::RollbackArgs>),
    /// Uninstall releases
    #[command(visible_aliases = ["un", "delete", "del"])]
    Uninstall(Box<uninstall::UninstallArgs>),
    /// List releases
    #[command(visible_alias = "ls")]
    List(Box<list::ListArgs>),
    /// Show the status of a release
    Status(Box<status::StatusArgs>),
    /// Show the revision history of a release
    #[command(visible_alias = "hist")]
    History(Box<history::HistoryArgs>),
    /// Show values, manifests, hooks, notes and metadata of a release
    Get(Box<get::GetArgs>),
    /// Show the differences between revisions, to an upgrade, or to live objects
    Diff(Box<diff::DiffArgs>),
    /// Run the test hooks of a release
    Test(Box<test::TestArgs>),
    /// Scale the workloads of a release to zero; volumes and Services are kept
    Pause(Box<action_args::ActionArgs>),
    /// Scale a paused release back up
    Recover(Box<action_args::ActionArgs>),
    /// Suspend reconciliation of a release
    Suspend(Box<action_args::SuspendArgs>),
    /// Resume reconciliation of a suspended release
    Resume(Box<action_args::ActionArgs>),
    /// Retry the failed operation of a release
    Retry(Box<action_args::ActionArgs>),
    /// Restart the workloads of a release
    Restart(Box<action_args::RestartArgs>),
    /// Manage an existing Helm release with the platform
    Adopt(Box<action_args::ActionArgs>),
    /// Print the logs of a release's containers
    Logs(Box<logs::LogsArgs>),
}

impl Command {
    fn target_args(&self) -> &CommandTargetArgs {
        match self {
            Self::Install(args) => &args.place,
            Self::Upgrade(args) => &args.place,
            Self::Rollback(args) => &args.place,
            Self::Uninstall(args) => &args.place,
            Self::List(args) => &args.place,
            Self::Status(args) => &args.place,
            Self::History(args) => &args.place,
            Self::Get(args) => &args.what.revision().place,
            Self::Diff(args) => &args.place,
            Self::Test(args) => &args.place,
            Self::Pause(args)
            | Self::Recover(args)
            | Self::Adopt(args)
            | Self::Resume(args)
            | Self::Retry(args) => &args.place,
            Self::Suspend(args) => &args.place,
            Self::Restart(args) => &args.place,
            Self::Logs(args) => &args.place,
        }
    }
}

/// Runs a command. Futures of commands are large and therefore boxed.
pub async fn run(command: &Command, world: &CommandEnv) -> CommandResult {
    match command.target_args().resolve(world)? {
        CommandTarget::Platform(served) => Box::pin(remote::run(command, &served)).await,
        CommandTarget::Cluster(at) => match command {
            Command::Install(args) => Box::pin(install::run(args, &at)).await,
            Command::Upgrade(args) => Box::pin(upgrade::run(args, &at)).await,
            Command::Rollback(args) => Box::pin(rollback::run(args, &at)).await,
            Command::Uninstall(args) => Box::pin(uninstall::run(args, &at)).await,
            Command::List(args) => Box::pin(list::run(args, &at)).await,
            Command::Status(args) => Box::pin(status::run(args, &at)).await,
            Command::History(args) => Box::pin(history::run(args, &at)).await,
            Command::Get(args) => Box::pin(get::run(args, &at)).await,
            Command::Diff(args) => Box::pin(diff::run(args, &at)).await,
            Command::Test(args) => Box::pin(test::run(args, &at)).await,
            Command::Pause(_) => Err(platform_required("pause")),
            Command::Recover(_) => Err(platform_required("recover")),
            Command::Suspend(_) => Err(platform_required("suspend")),
            Command::Resume(_) => Err(platform_required("resume")),
            Command::Retry(_) => Err(platform_required("retry")),
            Command::Restart(_) => Err(platform_required("restart")),
            Command::Adopt(_) => Err(platform_required("adopt")),
            Command::Logs(args) => Box::pin(logs::run(args, &at)).await,
        },
    }
}
