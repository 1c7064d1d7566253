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
        "no platform selected: run `longshore login SERVER`, give --server, or start a server with `longshore serve`"
    )]
    NoServer,
    #[error("cannot read the addresses of the server on this machine: {0}")]
    LocalServer(String),
    #[error("not signed in to {server}: run `longshore login {server}`")]
    NotSignedIn { server: Address },
    #[error("{server} does not accept the token: run `longshore login`{}", problem.request())]
    TokenRejected { server: Address, problem: Problem },
    #[error("{0}")]
    Api(Problem),
    #[error("cannot use the certificates in `{}`: {why}", file.display())]
    CaFile { file: PathBuf, why: String },
    #[error("cannot load the system's CA certificates: give --ca ({0})")]
    SystemCertificates(#[source] io::Error),
    #[error("cannot reach {server}: {why}")]
    Unreachable { server: Address, why: String },
    #[error("no response from {server} within {seconds} s; the request may have taken effect")]
    Timeout { server: Address, seconds: u64 },
    #[error(
        "unexpected response from {server}, which may not be a Longshore platform or may have another version: {why}"
    )]
    UnexpectedResponse { server: Address, why: String },
    #[error("cannot read from standard input: {0}")]
    Stdin(#[source] io::Error),
    #[error("cannot read from the terminal: {0}")]
    Terminal(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error("cannot write `{}`: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {0}")]
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
