//! Arguments of commands that only a platform supports: pause, recover, suspend, resume, retry, restart, adopt.
//! `crate::release::remote` runs them.

use clap::Args;

use super::flags::OutputArg;
use super::target::CommandTargetArgs;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
pub struct ActionArgs {
    /// Name of the release
    pub name: String,
    /// Wait until all objects of the release are ready
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub wait: Switch,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

#[derive(Clone, Debug, Args)]
pub struct SuspendArgs {
    /// Name of the release
    pub name: String,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

#[derive(Clone, Debug, Args)]
pub struct RestartArgs {
    /// Name of the release
    pub name: String,
    /// Restart pods one after another by the workloads' update strategy [default: all pods at once]
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub rolling: Switch,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}
