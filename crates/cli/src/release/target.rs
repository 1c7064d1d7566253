//! Target of a command: a platform or, with a kubeconfig, a cluster.

use std::path::PathBuf;

use clap::Args;

use super::connect::ClusterTarget;
use super::remote::RemoteReleases;
use crate::helm::CommandError;
use crate::platform::access::PlatformArgs;
use crate::platform::{CommandEnv, PlatformError};

/// Selects a cluster if no argument selects a platform.
const KUBECONFIG_ENV: &str = "LONGSHORE_KUBE_KUBECONFIG";
/// Default namespace.
const NAMESPACE_ENV: &str = "LONGSHORE_NAMESPACE";

/// Platform or cluster, and namespace.
#[derive(Clone, Debug, Default, Args)]
pub struct CommandTargetArgs {
    /// Namespace of the release [default: `LONGSHORE_NAMESPACE`, else your personal namespace or that of the
    /// kubeconfig]
    #[arg(short, long)]
    pub namespace: Option<String>,
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Cluster options",
        conflicts_with_all = ["server", "token", "ca"],
        help = "Act directly on the cluster of this kubeconfig, without a platform [default: LONGSHORE_KUBE_KUBECONFIG]"
    )]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; --context is accepted too
    #[arg(long, value_name = "NAME", help_heading = "Cluster options", conflicts_with_all = ["server", "token", "ca"])]
    pub kube_context: Option<String>,
    // Flattened last, because the help heading of its arguments would apply to the following ones too.
    #[command(flatten)]
    pub target: PlatformArgs,
}

/// Target of a command.
#[expect(clippy::large_enum_variant, reason = "only one value exists per process")]
pub enum CommandTarget {
    Cluster(ClusterTarget),
    Platform(RemoteReleases),
}

impl CommandTargetArgs {
    pub fn resolve(&self, world: &CommandEnv) -> Result<CommandTarget, CommandError> {
        let variable = |name: &str| world.environment.get(name).filter(|value| !value.is_empty()).cloned();
        let namespace = self.namespace.clone().or_else(|| variable(NAMESPACE_ENV));
        let PlatformArgs { server, ca: _, context, token: _ } = &self.target;
        let platform_given = server.is_some() || context.is_some();
        let kubeconfig_from_env = || variable(KUBECONFIG_ENV).map(PathBuf::from).filter(|_| !platform_given);
        if let Some(kubeconfig) = self.kubeconfig.clone().or_else(kubeconfig_from_env) {
            let context = self.kube_context.clone().or_else(|| context.clone());
            return Ok(CommandTarget::Cluster(ClusterTarget { kubeconfig, context, namespace }));
        }
        if self.kube_context.is_some() {
            return Err("--kube-context requires --kubeconfig".into());
        }
        match world.client(&self.target) {
            Ok(client) => {
                Ok(CommandTarget::Platform(RemoteReleases::new(client, namespace, world.clock.clone())))
            }
            Err(failure @ PlatformError::NoServer) => {
                Err(format!("{failure}; or give --kubeconfig FILE to act directly on a cluster").into())
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Error of a command that a cluster alone cannot serve.
pub fn platform_required(command: &str) -> CommandError {
    format!("`longshore {command}` requires a platform: omit --kubeconfig, or give --server").into()
}

/// Error for flags that only work directly on a cluster.
pub fn reject_cluster_only_flags(flags: &[(bool, &str)]) -> Result<(), CommandError> {
    match flags.iter().find(|(said, _)| *said) {
        None => Ok(()),
        Some((_, flag)) => {
            Err(format!("{flag} is not supported on a platform: omit it, or give --kubeconfig").into())
        }
    }
}
