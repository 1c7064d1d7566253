//! `longshore kubeconfig --user`: a personal kubeconfig from the platform, valid for at most a day.

use std::path::PathBuf;

use clap::Args;

use super::access::PlatformArgs;
use super::contexts::write_private;
use super::output::{CellFormat, CommandOutput, format_cell};
use super::{CommandEnv, PlatformError};

#[derive(Clone, Debug, Args)]
pub struct PersonalArgs {
    /// Print your own kubeconfig, issued by the platform and valid for a day, instead of the administrator's
    #[arg(long)]
    pub user: bool,
    /// Write the kubeconfig to a file with mode 0600 instead of to standard output
    #[arg(short = 'o', long = "output", value_name = "FILE", requires = "user")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub target: PlatformArgs,
}

pub async fn run(args: &PersonalArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let client = world.client(&args.target)?;
    let answer = client.post("kubeconfig", &serde_json::json!({})).await?;
    let text = answer["kubeconfig"].as_str();
    let text = text.ok_or_else(|| PlatformError::UnexpectedResponse {
        server: client.server().clone(),
        why: "the response has no `kubeconfig`".to_owned(),
    })?;
    let until = format!("valid until {}", format_cell(&answer, "/expires", CellFormat::Text, world.now()));
    match &args.file {
        None => Ok(CommandOutput { stdout: text.to_owned(), notes: vec![until] }),
        Some(file) => {
            write_private(file, text.as_bytes())
                .map_err(|source| PlatformError::Write { file: file.clone(), source })?;
            Ok(CommandOutput::from_line(format!("{} written, {until}", file.display())))
        }
    }
}
