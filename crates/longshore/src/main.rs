//! The `longshore` binary: parses the command line with `cli` and runs the server (`server`) or a client command
//! (`cli`).

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use cli::platform::output::CommandOutput;
use cli::platform::{self, CommandEnv, PlatformError};
use cli::{AdminCommand, Cli, Command, KubeconfigArgs, ResetPasswordArgs, ServeArgs};
use server::endpoints::Endpoints;
use server::password_reset::{ResetAccess, reset_password as reset_password_by};
use server::{Config, Flags};

/// Kubernetes objects are trees of small strings, allocated and freed by every thread. With the system allocator,
/// allocation takes a third of the time of a server-side apply, and memory used by a burst of lists is not returned.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return usage_error(&error),
    };
    match run(command) {
        Ok(code) => code,
        Err(error) => {
            // If stderr cannot be written either, the exit code is the only remaining signal.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve(args) => serve(args)?,
        Command::Config(args) => cli::print(&Config::load(&to_flags(args))?.to_toml())?,
        Command::Kubeconfig(args) if args.personal.user => {
            return run_platform_command(async |world| {
                platform::kubeconfig::run(&args.personal, world).await
            });
        }
        Command::Kubeconfig(args) => kubeconfig(args)?,
        Command::Manifests => cli::print(&server::manifests())?,
        Command::Admin(AdminCommand::ResetPassword(args)) => reset_password(args)?,
        Command::Node(command) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            return Ok(cli::node::finish(runtime.block_on(cli::node::run(&command))));
        }
        Command::Platform(command) => {
            return run_platform_command(async |world| platform::run(&command, world).await);
        }
        Command::Release(command) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let world = CommandEnv::from_process(local_server_url);
            return Ok(cli::helm::finish(runtime.block_on(cli::release::run(&command, &world))));
        }
        Command::Helm(cli::helm::Command::Repo(args)) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let platform = args.platform(&CommandEnv::from_process(local_server_url));
            return Ok(cli::helm::finish(match platform {
                Ok(Some(client)) => runtime.block_on(cli::helm::repo::on_platform::run(&args, &client)),
                Ok(None) => cli::helm::repo::run(&args),
                Err(failure) => Err(failure.into()),
            }));
        }
        Command::Helm(command) => return Ok(cli::helm::finish(cli::helm::run(&command))),
        Command::Version => cli::print(&cli::version())?,
        Command::Completion { shell } => cli::print(&cli::completion(shell))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports an invalid command line. Helm-compatible commands use Helm's messages and exit code.
fn usage_error(error: &clap::Error) -> ExitCode {
    let is_helm = std::env::args().nth(1).is_some_and(|command| {
        [cli::helm::COMMANDS, cli::release::COMMANDS].concat().contains(&command.as_str())
    });
    match cli::helm::usage_errors::helm_message(error) {
        Some(why) if is_helm => cli::helm::finish(Err(why.into())),
        _ => error.exit(),
    }
}

fn to_flags(args: ServeArgs) -> Flags {
    let ServeArgs { config, data, listen, kube_listen, kubeconfig, context } = args;
    Flags { config, data, listen, kube_listen, kubeconfig, context }
}

/// How long the allocator keeps freed memory before it returns it to the system, in milliseconds. By default it keeps it for a second,
/// so that several tenants with costly requests make the process a third larger than the budgets of memory allow.
const PURGE_DELAY: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "10");

/// Starts the program again, in the same process, with options of the allocator, which reads them from the environment before `main`.
/// Returns if they are set, or if the program cannot be started again.
fn restart_with_allocator_options() -> Result<()> {
    use std::os::unix::process::CommandExt;
    let (name, value) = PURGE_DELAY;
    if std::env::var_os(name).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let mut args = std::env::args_os();
    let mut command = std::process::Command::new(program);
    command.arg0(args.next().unwrap_or_default()).args(args).env(name, value);
    Err(command.exec()).context("cannot start the program again with options of its allocator")
}

fn serve(args: ServeArgs) -> Result<()> {
    // Before anything that would have to be done again.
    let restarted = restart_with_allocator_options();
    let config = Config::load(&to_flags(args))?;
    server::logs::install(config.logs);
    if let Err(error) = restarted {
        tracing::warn!(
            error = format!("{error:#}"),
            "cannot configure the allocator: freed memory is returned to the system later"
        );
    }
    server::panics::install();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_signal()?;
        Box::pin(server::run(config, |said| cli::print(&format!("{said}\n")), stop)).await?;
        Ok(())
    })
}

/// Resolves at Ctrl-C or SIGTERM.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Runs a command against a running platform and prints its output.
fn run_platform_command(
    command: impl AsyncFnOnce(&mut CommandEnv) -> Result<CommandOutput, PlatformError>,
) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut world = CommandEnv::from_process(local_server_url);
    Ok(platform::finish(runtime.block_on(command(&mut world))))
}

/// URL of the server that runs on this machine from the default data folder, if its endpoints file exists.
fn local_server_url() -> Result<Option<String>, String> {
    let Some(data) = server::config::default_data_dir(&cli::environment()) else { return Ok(None) };
    let endpoints = Endpoints::read(&data).map_err(|error| error.to_string())?;
    Ok(endpoints.map(|endpoints| endpoints.url))
}

/// The given data folder, or the user's default one.
fn data_folder(named: Option<PathBuf>) -> Result<PathBuf> {
    let own = || server::config::default_data_dir(&cli::environment());
    named.or_else(own).context("no data folder is known: give --data")
}

fn reset_password(args: ResetPasswordArgs) -> Result<()> {
    let ResetPasswordArgs { account, data, kubeconfig, context } = args;
    let right = match kubeconfig {
        Some(file) => ResetAccess::Kubeconfig { file, context },
        None => ResetAccess::Data(data_folder(data)?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let password = runtime.block_on(reset_password_by(right, &account))?;
    Ok(cli::print(&format!("{account} password {password}\n"))?)
}

/// Reads files only; works whether or not the server is running.
fn kubeconfig(args: KubeconfigArgs) -> Result<()> {
    let data = data_folder(args.data)?;
    let url = Endpoints::read(&data)
        .with_context(|| format!("cannot read the endpoints file in `{}`", data.display()))?
        .and_then(|endpoints| endpoints.kube)
        .unwrap_or_else(|| "https://127.0.0.1:6443".to_owned());
    let pki = PathBuf::from(&data).join("pki");
    let text = server::cluster::kubeconfig(&pki, &url)
        .with_context(|| format!("no cluster in `{}`: start `longshore serve` once", data.display()))?;
    Ok(cli::print(&text)?)
}
