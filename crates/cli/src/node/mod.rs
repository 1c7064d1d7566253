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
    /// Join a cluster as a machine, through the steps of a kubelet; no container ever runs on it
    Join(Box<JoinArgs>),
    /// Leave the cluster that a machine has joined, and forget its key
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
    /// What the cluster's authority must be: `sha256:` and the hash of its public key
    #[arg(long, value_name = "HASH", alias = "discovery-token-ca-cert-hash")]
    pub ca_cert_hash: CaCertHash,
    /// What the node is called
    #[arg(long, value_parser = join_args::node_name)]
    pub name: String,
    /// The account that the node belongs to: the node is called ID-NAME, as the nodes of accounts must be
    #[arg(long, value_name = "ID")]
    pub tenant: Option<UserId>,
    /// The pool that it is to be in
    #[arg(long, value_parser = join_args::label_value)]
    pub pool: Option<String>,
    /// A further label of the node, as KEY=VALUE; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = join_args::label)]
    pub labels: Vec<(String, String)>,
    /// Where key and certificate are kept; whoever joins again from there goes on where they were
    /// [default: `longshore/nodes/NAME` in the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Stay, say that the node lives, and renew its certificate, until stopped
    #[arg(long)]
    pub stay: bool,
    /// How many seconds its certificates are to be good for, at least 600
    /// [default: 86400, the most that a node of an account gets; for others what the cluster gives]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(600..))]
    pub certificate_seconds: Option<i32>,
    /// How many seconds to wait until somebody has approved the certificate
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
    /// Where key and certificate are kept
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
    #[error("no folder is known to keep the node's key in: give --dir, or set XDG_DATA_HOME or HOME")]
    NoStateDir,
    #[error(
        "there is a node `{0}` already that another machine has registered: choose another name, or have that node deleted first"
    )]
    NameTaken(String),
    #[error("the node `{0}` has been deleted from the cluster: join again to bring it back")]
    NodeDeleted(String),
    #[error("cannot {what}: {trouble}")]
    Cluster { what: &'static str, trouble: ErrorMessage },
    #[error("cannot listen for the signal to stop: {0}")]
    Signal(std::io::Error),
    #[error("cannot write the answer: {0}")]
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
