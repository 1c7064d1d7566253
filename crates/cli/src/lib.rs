//! Command line: argument definitions, and the commands that run no server in this process.
//!
//! Results go to standard output, errors and notes to standard error.

pub mod helm;
pub mod node;
pub mod platform;
pub mod release;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// Multi-tenant platform for Kubernetes: workspaces, Helm releases and nodes.
#[derive(Debug, Parser)]
#[command(name = "longshore", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the platform server, on the embedded cluster or on an existing one
    Serve(ServeArgs),
    /// Print the effective configuration
    Config(ServeArgs),
    /// Print a kubeconfig: the administrator's for the embedded cluster, or your own
    Kubeconfig(KubeconfigArgs),
    /// Print the manifests that a cluster needs before the platform can run on it
    Manifests,
    /// Recovery commands that need direct access to the cluster
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Join this machine to a cluster, or remove it
    #[command(subcommand)]
    Node(node::Command),
    #[command(flatten)]
    Platform(platform::Command),
    #[command(flatten)]
    Release(release::Command),
    #[command(flatten)]
    Helm(helm::Command),
    /// Print the version
    Version,
    /// Print a shell completion script
    Completion {
        /// Shell of the script
        shell: Shell,
    },
}

/// Flags override the environment, the environment overrides the file.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Configuration file in TOML format
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory of the embedded cluster [default: `longshore` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address to serve the platform on; port 0 selects a free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address to serve the embedded Kubernetes API on [default: 127.0.0.1:6443]
    #[arg(long, value_name = "ADDRESS")]
    pub kube_listen: Option<String>,
    /// Kubeconfig of an existing cluster, used instead of the embedded one
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// Set and print a new password for an account, end its sessions and enable it if it is disabled
    ResetPassword(ResetPasswordArgs),
}

/// Requires the data directory of the embedded cluster, or a kubeconfig with cluster administrator permissions.
#[derive(Clone, Debug, Args)]
pub struct ResetPasswordArgs {
    /// E-mail address, phone number, name or id of the account
    #[arg(default_value = "admin")]
    pub account: String,
    /// Data directory of the embedded cluster [default: `longshore` in the user's data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub data: Option<PathBuf>,
    /// Kubeconfig of an existing cluster
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct KubeconfigArgs {
    /// Data directory of the embedded cluster [default: `longshore` in the user's data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub personal: platform::kubeconfig::PersonalArgs,
}

/// `longshore version`
pub fn version() -> String {
    format!("longshore {}\n", env!("CARGO_PKG_VERSION"))
}

/// `longshore completion SHELL`
pub fn completion(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "longshore", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Environment variables of this process that are valid UTF-8.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Writes a command's result to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn cli_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Help texts of all commands except Helm's, whose texts are Helm's.
    #[test]
    fn every_help() {
        fn write(command: &mut clap::Command, path: &str, picture: &mut String) {
            writeln!(picture, "# {path}\n\n{}", command.render_long_help()).unwrap();
            let names: Vec<_> =
                command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
            for name in
                names.iter().filter(|name| !helm::COMMANDS.contains(&name.as_str()) && *name != "help")
            {
                let inner = command.find_subcommand_mut(name).unwrap();
                write(inner, &format!("{path} {name}"), picture);
            }
        }
        let mut command = Cli::command();
        command.build();
        let mut picture = String::new();
        write(&mut command, "longshore", &mut picture);
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn completion_supports_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let script = completion(shell);
            for word in ["longshore", "whoami", "remove-member", "token-stdin"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
