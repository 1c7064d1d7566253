//! `longshore repo list`

use clap::Args;
use serde::Serialize;

use super::super::CommandResult;
use super::super::flags::{Switch, switch};
use super::super::repositories::RepoPathsArgs;
use super::super::table::{self, Form};

#[derive(Clone, Debug, Args)]
pub struct RepoListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
    /// Omit headers
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_headers: Switch,
    #[command(flatten)]
    pub places: RepoPathsArgs,
}

#[derive(Serialize)]
struct RepoRow<'a> {
    name: &'a str,
    url: &'a str,
}

pub fn run(args: &RepoListArgs) -> CommandResult {
    let repositories = args.places.resolve()?.read()?.repositories;
    if repositories.is_empty() && args.output == Form::Table {
        eprintln!("no repositories to show");
        return Ok(Vec::new());
    }
    let rows: Vec<_> =
        repositories.iter().map(|entry| RepoRow { name: &entry.name, url: &entry.url }).collect();
    if args.output != Form::Table {
        return Ok(table::encode_rows(&rows, args.output)?);
    }
    let head = (!args.no_headers.0).then(|| ["NAME".to_owned(), "URL".to_owned()]);
    let cells = rows.iter().map(|row| [row.name.to_owned(), row.url.to_owned()]);
    Ok(table::render_table(&head.into_iter().chain(cells).collect::<Vec<_>>(), 0).into_bytes())
}
