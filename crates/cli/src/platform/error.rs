//! Errors of commands.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use super::address::{Address, AddressError};
use super::contexts::ContextsError;
use super::problem::Problem;

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Contexts(#[from] ContextsError),
    #[error(
        "no platform is known: run `longshore login SERVER`, give --server, or start one here with `longshore serve`"
    )]
    NoServer,
    #[error("cannot read the addresses of the server that runs here: {0}")]
    LocalServer(String),
    #[error("not signed in to {server}: run `longshore login {server}`")]
    NotSignedIn { server: Address },
    #[error("{server} does not know this token (any more): run `longshore login`{}", problem.request())]
    TokenRejected { server: Address, problem: Problem },
    #[error("{0}")]
    Api(Problem),
    #[error("cannot use the certificates in `{}`: {why}", file.display())]
    CaFile { file: PathBuf, why: String },
    #[error("the system trusts no certificates: give --ca ({0})")]
    SystemCertificates(#[source] io::Error),
    #[error("cannot reach {server}: {why}")]
    Unreachable { server: Address, why: String },
    #[error("{server} did not answer within {seconds} s; whether it did what was asked is not known")]
    Timeout { server: Address, seconds: u64 },
    #[error("{server} is no platform of ours, or another version of it: {why}")]
    UnexpectedResponse { server: Address, why: String },
    #[error("cannot read from standard input: {0}")]
    Stdin(#[source] io::Error),
    #[error("cannot ask on the terminal: {0}")]
    Terminal(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error("cannot write `{}`: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Print(String),
}

impl PlatformError {
    /// 2 for invalid arguments, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Address(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}
