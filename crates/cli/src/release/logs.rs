//! `longshore logs`: what the containers of a release print. `crate::release::served` asks for it.

use std::time::Duration;

use clap::Args;

use super::flags::duration;
use super::place::PlaceArgs;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
pub struct LogsArgs {
    /// The release
    pub name: String,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Of this pod only
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,
    /// Of containers of this name only
    #[arg(short, long, value_name = "CONTAINER")]
    pub container: Option<String>,
    /// The last so many lines of each container, at most 5000
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub tail: u32,
    /// Only what is newer than this: 5s, 2m, 3h
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub since: Option<Duration>,
    /// Of the containers before their last restart
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub previous: Switch,
    /// With the time of each line
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub timestamps: Switch,
}
