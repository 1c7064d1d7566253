//! Releases, straight on a cluster: Helm's commands over our own engine, without a server.
//!
//! Whoever's kubeconfig it is acts; what is kept is what Helm keeps, so that the helm command goes on with it. Results
//! go to standard output in Helm's words and formats; what is being done, and what is waited for, to standard error.
//!
//! Modules in reading order: which cluster (`connect`), which flags (`flags`), which chart (`chart`); what is shown
//! meanwhile (`progress`) and in the end (`output`, `show`, `resources`); and the commands.

mod chart;
mod connect;
pub mod diff;
mod flags;
pub mod get;
pub mod history;
pub mod install;
pub mod list;
mod output;
mod progress;
mod resources;
pub mod rollback;
mod show;
pub mod status;
pub mod test;
pub mod uninstall;
pub mod upgrade;

use clap::Subcommand;

use crate::helm::Outcome;

/// The names of these commands.
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
];

/// What can be done with releases.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install a chart as a release
    Install(Box<install::InstallArgs>),
    /// Upgrade a release to another chart, version or values
    Upgrade(Box<upgrade::UpgradeArgs>),
    /// Go back to an earlier revision of a release
    Rollback(rollback::RollbackArgs),
    /// Take releases off the cluster
    #[command(visible_aliases = ["un", "delete", "del"])]
    Uninstall(uninstall::UninstallArgs),
    /// List releases
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Show how a release stands
    Status(status::StatusArgs),
    /// Show the revisions of a release
    #[command(visible_alias = "hist")]
    History(history::HistoryArgs),
    /// Show what a release consists of
    Get(get::GetArgs),
    /// Show what is different between two revisions, or would be after an upgrade
    Diff(Box<diff::DiffArgs>),
    /// Run the tests of a release
    Test(test::TestArgs),
}

/// Does what was typed. Each act is a long way down: its state is not for the stack.
pub async fn run(command: &Command) -> Outcome {
    match command {
        Command::Install(args) => Box::pin(install::run(args)).await,
        Command::Upgrade(args) => Box::pin(upgrade::run(args)).await,
        Command::Rollback(args) => Box::pin(rollback::run(args)).await,
        Command::Uninstall(args) => Box::pin(uninstall::run(args)).await,
        Command::List(args) => Box::pin(list::run(args)).await,
        Command::Status(args) => Box::pin(status::run(args)).await,
        Command::History(args) => Box::pin(history::run(args)).await,
        Command::Get(args) => Box::pin(get::run(args)).await,
        Command::Diff(args) => Box::pin(diff::run(args)).await,
        Command::Test(args) => Box::pin(test::run(args)).await,
    }
}
