//! Commands against a running platform: sign-in, accounts, tokens, workspaces.
//!
//! Modules:
//! - `address`, `secret`, `contexts`, `access`: server and credentials
//! - `command_env`, `prompt`, `client`, `events`, `problem`, `error`: environment, requests, errors
//! - `output`: tables and formats
//! - `session`, `context`, `kubeconfig`, `register`, `token`, `user`, `workspace`: commands

pub mod access;
pub mod address;
pub mod client;
pub mod command_env;
pub mod context;
pub mod contexts;
mod error;
pub mod events;
pub mod kubeconfig;
pub mod output;
mod problem;
pub mod prompt;
pub mod register;
pub mod secret;
pub mod session;
pub mod token;
pub mod user;
pub mod workspace;

use std::process::ExitCode;

use clap::Subcommand;

pub use command_env::CommandEnv;
pub use error::PlatformError;
use output::CommandOutput;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sign in to a platform and store a token for this machine
    Login(session::LoginArgs),
    /// Revoke and delete this machine's token
    Logout(session::LogoutArgs),
    /// Show the signed-in user and the platform
    Whoami(session::WhoamiArgs),
    /// Create an account for yourself
    Register(register::RegisterArgs),
    /// Manage contexts, which select a platform
    #[command(subcommand)]
    Context(context::Command),
    /// Manage API tokens
    Token(token::TokenArgs),
    /// Manage accounts
    User(user::UserArgs),
    /// Manage workspaces, their members and namespaces
    #[command(visible_alias = "ws")]
    Workspace(workspace::WorkspaceArgs),
}

pub async fn run(command: &Command, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    match command {
        Command::Login(args) => session::login(args, world).await,
        Command::Logout(args) => session::logout(args, world).await,
        Command::Whoami(args) => session::whoami(args, world).await,
        Command::Register(args) => register::run(args, world).await,
        Command::Context(command) => context::run(command, world),
        Command::Token(args) => token::run(args, world).await,
        Command::User(args) => user::run(args, world).await,
        Command::Workspace(args) => workspace::run(args, world).await,
    }
}

/// Prints the result of a command and returns the exit code.
pub fn finish(result: Result<CommandOutput, PlatformError>) -> ExitCode {
    let failed = match result {
        Ok(CommandOutput { stdout: out, notes }) => {
            let printed = crate::print(&out);
            for note in &notes {
                eprintln!("{note}");
            }
            printed.err().map(|error| PlatformError::Print(error.to_string()))
        }
        Err(failure) => Some(failure),
    };
    match failed {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}
