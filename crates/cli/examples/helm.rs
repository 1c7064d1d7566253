//! Helm's commands without the server, for fast builds.
//!
//! `cargo run -p cli --example helm -- lint CHART`

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Helm {
    #[command(subcommand)]
    command: cli::helm::Command,
}

fn main() -> ExitCode {
    match Helm::try_parse() {
        Ok(Helm { command }) => cli::helm::finish(cli::helm::run(&command)),
        Err(error) => match cli::helm::usage_errors::helm_message(&error) {
            Some(why) => cli::helm::finish(Err(why.into())),
            None => error.exit(),
        },
    }
}
