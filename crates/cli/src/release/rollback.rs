//! `longshore rollback`: returns a release to an earlier revision.

use clap::Args;
use helm_release::actions::Rollback;

use super::connect::{ClusterTarget, connect};
use super::flags::{AdministratorArg, WaitArgs, WriteArgs};
use super::progress::StderrProgress;
use super::target::CommandTargetArgs;
use crate::helm::CommandResult;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
pub struct RollbackArgs {
    /// Name of the release
    pub name: String,
    /// Revision to restore [default: the previous one]
    #[arg(default_value = "0", hide_default_value = true)]
    pub revision: String,
    #[command(flatten)]
    pub write: WriteArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    /// Delete objects that a failed rollback created
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub cleanup_on_fail: Switch,
    /// Number of revisions to keep; 0 for no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub history_max: usize,
    #[command(flatten)]
    pub administrator: AdministratorArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

impl RollbackArgs {
    /// The given revision; 0 is the previous one.
    pub fn revision(&self) -> Result<i64, String> {
        let said = &self.revision;
        said.parse().map_err(|_| {
            format!("could not convert revision to a number: strconv.Atoi: parsing {said:?}: invalid syntax")
        })
    }
}

pub async fn run(args: &RollbackArgs, at: &ClusterTarget) -> CommandResult {
    let revision = args.revision()?;
    args.administrator.reject_on_cluster("rollback")?;
    let reached = connect(at).await?;
    let helm = reached.helm().await?;
    let progress = StderrProgress::new();
    let mut run = args.write.action_options(&args.wait, &progress);
    run.max_history = args.history_max;
    let ask = Rollback {
        name: args.name.clone(),
        namespace: reached.namespace.clone(),
        revision,
        cleanup_on_fail: args.cleanup_on_fail.0,
        options: run,
    };
    Box::pin(helm.rollback(&ask)).await.map_err(|error| error.to_string())?;
    Ok(b"Rollback was a success! Happy Helming!\n".to_vec())
}
