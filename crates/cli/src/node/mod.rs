//! `longshore node`: a machine joins a cluster as a node and leaves it. It performs a kubelet's registration without
//! running containers.
//!
//! Modules:
//! - `join_args`: arguments of joining
//! - `discovery`: verification of the cluster
//! - `state_dir`: state on disk
//! - `certificate`, `renewal`: client certificates
//! - `machine`: Node, status and Lease
//! - `clients`: clients of the Kubernetes API
//! - `join`, `heartbeat`, `reset`: commands

mod certificate;
mod clients;
mod discovery;
mod heartbeat;
mod join;
mod join_args;
mod machine;
mod renewal;
mod reset;
mod state_dir;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use domain::ids::UserId;

use clients::ErrorMessage;
pub use join_args::{CaCertHash, JoinToken, ServerAddress};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register this machine as a node, as a kubelet does; it runs no containers
    Join(Box<JoinArgs>),
    /// Remove this machine's node from its cluster and delete its key and certificate
    Reset(ResetArgs),
}

/// Identity of the node, and how it and the cluster authenticate each other.
#[derive(Clone, Debug, Args)]
pub struct JoinArgs {
    /// Address of the cluster's Kubernetes API
    #[arg(long, value_name = "URL")]
    pub server: ServerAddress,
    /// Bootstrap token: six characters, a dot, sixteen characters
    #[arg(long)]
    pub token: JoinToken,
    /// Expected hash of the cluster CA's public key, as `sha256:HEX`
    #[arg(long, value_name = "HASH", alias = "discovery-token-ca-cert-hash")]
    pub ca_cert_hash: CaCertHash,
    /// Name of the node
    #[arg(long, value_parser = join_args::node_name)]
    pub name: String,
    /// Account that owns the node; the node is named ID-NAME, which is required for nodes of accounts
    #[arg(long, value_name = "ID")]
    pub tenant: Option<UserId>,
    /// Node pool to join
    #[arg(long, value_parser = join_args::label_value)]
    pub pool: Option<String>,
    /// Additional label of the node; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = join_args::label)]
    pub labels: Vec<(String, String)>,
    /// Directory of the key and certificate; joining again with the same directory resumes
    /// [default: `longshore/nodes/NAME` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep running: send heartbeats and renew the certificate until stopped
    #[arg(long)]
    pub stay: bool,
    /// Requested lifetime of certificates in seconds, at least 600
    /// [default: 86400 for nodes of accounts, which is their maximum; otherwise chosen by the cluster]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(600..))]
    pub certificate_seconds: Option<i32>,
    /// Time in seconds to wait for the approval of the certificate
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
}

/// Maximum lifetime of the certificate of an account's node.
const DAY_SECONDS: i32 = 86_400;

impl JoinArgs {
    /// Requested lifetime of certificates. Names of accounts' nodes begin with the account's id.
    fn lifetime_seconds(&self) -> Option<i32> {
        let name = self.node_name();
        let id = name.split_once('-').and_then(|(id, _)| id.parse::<UserId>().ok());
        self.certificate_seconds.or(id.map(|_| DAY_SECONDS))
    }

    /// The name of the Node: with the account's prefix, cut to the 63 characters that Kubernetes allows.
    fn node_name(&self) -> String {
        let Some(id) = &self.tenant else { return self.name.clone() };
        let prefix = format!("{id}-");
        let mut name = format!("{prefix}{}", self.name.strip_prefix(&prefix).unwrap_or(&self.name));
        name.truncate(63);
        name.trim_end_matches(['-', '.']).to_owned()
    }
}

#[derive(Clone, Debug, Args)]
pub struct ResetArgs {
    /// Directory of the key and certificate
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
}

/// Error of joining or leaving.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Folder(#[from] state_dir::StateDirError),
    #[error(transparent)]
    Discovery(#[from] discovery::DiscoveryError),
    #[error(transparent)]
    Certificate(#[from] certificate::CertificateError),
    #[error("no directory for the node's key: give --dir, or set XDG_DATA_HOME or HOME")]
    NoStateDir,
    #[error(
        "node `{0}` is already registered by another machine: choose another name, or have that node deleted first"
    )]
    NameTaken(String),
    #[error("node `{0}` was deleted from the cluster: join again to register it")]
    NodeDeleted(String),
    #[error("cannot {what}: {trouble}")]
    Cluster { what: &'static str, trouble: ErrorMessage },
    #[error("cannot install signal handlers: {0}")]
    Signal(std::io::Error),
    #[error("cannot write to standard output: {0}")]
    Print(std::io::Error),
}

/// Runs a command. Progress is printed immediately.
pub async fn run(command: &Command) -> Result<(), NodeError> {
    let mut say = |line: &str| crate::print(&format!("{line}\n")).map_err(NodeError::Print);
    match command {
        Command::Join(args) => join::run(args, &mut say).await,
        Command::Reset(args) => reset::run(args, &mut say).await,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

/// Prints the error of a failed command and returns the exit code.
pub fn finish(result: Result<(), NodeError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
