//! Arguments shared by `install` and `upgrade`, for platforms and clusters.

use clap::Args;

use super::flags::{AdministratorArg, LabelsArg, OutputArg, WaitArgs, WriteArgs};
use crate::helm::flags::{Switch, ValuesArgs, switch};
use crate::helm::remote::RemoteArgs;

/// Chart, values, write options, wait options and output of an installation or upgrade.
#[derive(Clone, Debug, Args)]
pub struct DeployArgs {
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
    pub fresh: NewReleaseArgs,
    #[command(flatten)]
    pub shown: HideArgs,
    #[command(flatten)]
    pub administrator: AdministratorArg,
}

/// Options for new releases, by `install` or by `upgrade --install`.
#[derive(Clone, Debug, Default, Args)]
pub struct NewReleaseArgs {
    /// Create the namespace if it does not exist
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub create_namespace: Switch,
    /// Skip the CRDs of `crds/`
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_crds: Switch,
    /// Skip validation of values against JSON schemas
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_schema_validation: Switch,
    /// Take ownership of existing objects that do not belong to the release
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub take_ownership: Switch,
    /// Roll back a failed upgrade, or uninstall a failed installation; implies --wait
    #[arg(long, visible_alias = "atomic", value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub rollback_on_failure: Switch,
    /// Include the notes of subcharts
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub render_subchart_notes: Switch,
}

/// Parts to leave out of the output.
#[derive(Clone, Debug, Default, Args)]
pub struct HideArgs {
    /// Hide notes
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub hide_notes: Switch,
    /// Hide Secrets in the output of a dry run
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub hide_secret: Switch,
}
