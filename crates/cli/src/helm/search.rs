//! `longshore search`: searches the charts of the added repositories.

use clap::{ArgAction, Args, Subcommand};
use helm_chart::index::{ChartVersion, Index};
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use regex::Regex;
use serde::Serialize;

use super::CommandResult;
use super::flags::{HelmArg, Switch, switch};
use super::repositories::RepoPathsArgs;
use super::table::{self, Form};
use crate::platform::output::escape_control;

#[derive(Clone, Debug, Args)]
pub struct SearchArgs {
    #[command(subcommand)]
    pub command: SearchCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum SearchCommand {
    /// Search the charts of your repositories
    Repo(SearchRepoArgs),
}

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct SearchRepoArgs {
    /// Keyword to search for [default: list all charts]
    #[arg(value_name = "KEYWORD", action = ArgAction::Append)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub helm: HelmArg,
    /// Treat the keyword as a regular expression
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub regexp: Switch,
    /// Show all versions
    #[arg(short = 'l', long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub versions: Switch,
    /// Include development versions
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub devel: Switch,
    /// Show only versions in this range
    #[arg(
        long = "version",
        id = "chart-version",
        value_name = "RANGE",
        default_value = "",
        hide_default_value = true
    )]
    pub version: String,
    /// Maximum column width
    #[arg(long, value_name = "WIDTH", default_value = "50")]
    pub max_col_width: usize,
    /// Fail if nothing is found
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub fail_on_no_result: Switch,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
    #[command(flatten)]
    pub places: RepoPathsArgs,
}

#[derive(Serialize)]
struct SearchRow {
    name: String,
    version: String,
    app_version: String,
    description: String,
}

/// A matching chart version. `score` is the index of the part that matches; lower is better.
struct SearchHit {
    score: usize,
    name: String,
    version: Option<Version>,
    entry: ChartVersion,
}

/// Search term.
enum SearchTerm {
    All,
    Text(String),
    Pattern(Regex),
}

pub fn run(args: &SearchArgs) -> CommandResult {
    let SearchCommand::Repo(args) = &args.command;
    let rows = rows(args)?;
    if rows.is_empty() && args.fail_on_no_result.0 {
        return Err("no results found".into());
    }
    match args.output {
        Form::Table if rows.is_empty() => Ok(b"No results found\n".into()),
        Form::Table => {
            let head = ["NAME", "CHART VERSION", "APP VERSION", "DESCRIPTION"].map(str::to_owned);
            // Text from repositories is escaped for the terminal.
            let cells = rows.iter().map(|row| {
                [&row.name, &row.version, &row.app_version, &row.description].map(|text| escape_control(text))
            });
            let cells: Vec<_> = std::iter::once(head).chain(cells).collect();
            Ok(table::render_table(&cells, args.max_col_width).into_bytes())
        }
        form => Ok(table::encode_rows(&rows, form)?),
    }
}

fn rows(args: &SearchRepoArgs) -> Result<Vec<SearchRow>, String> {
    let profile = args.helm.profile;
    let places = args.places.resolve()?;
    let repositories = places.read()?.repositories;
    if repositories.is_empty() {
        return Err("no repositories configured".into());
    }
    let term = search_term(args)?;
    let mut found = Vec::new();
    for entry in &repositories {
        match places.index(&entry.name, profile) {
            Ok(index) => search_index(&entry.name, &index, &term, profile, &mut found),
            Err(why) => eprintln!("WARNING: repo {:?} is corrupt or missing: {why}", entry.name),
        }
    }
    found.sort_by(|a, b| {
        let newest = || match (&a.version, &b.version) {
            (Some(a), Some(b)) => b.compare(a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        a.score.cmp(&b.score).then_with(|| a.name.cmp(&b.name)).then_with(newest)
    });
    let range = version_range(args)?;
    found.retain(|one| one.version.as_ref().is_some_and(|version| range.check(version)));
    if !args.versions.0 {
        let mut seen = std::collections::HashSet::new();
        found.retain(|one| seen.insert(one.name.clone()));
    }
    Ok(found.into_iter().map(row).collect())
}

fn row(found: SearchHit) -> SearchRow {
    let metadata = found.entry.metadata;
    SearchRow {
        name: found.name,
        version: metadata.version.to_string(),
        app_version: metadata.app_version.to_string(),
        description: metadata.description.to_string(),
    }
}

fn search_term(args: &SearchRepoArgs) -> Result<SearchTerm, String> {
    let text = args.words.join(" ");
    if args.words.is_empty() {
        return Ok(SearchTerm::All);
    }
    if !args.regexp.0 {
        return Ok(SearchTerm::Text(text.to_lowercase()));
    }
    Regex::new(&text).map(SearchTerm::Pattern).map_err(|error| format!("error parsing regexp: {error}"))
}

fn version_range(args: &SearchRepoArgs) -> Result<Constraints, String> {
    let range = match (&*args.version, args.devel.0) {
        ("", true) => ">0.0.0-0",
        ("", false) => ">0.0.0",
        (range, _) => range,
    };
    Constraints::parse(range, args.helm.profile)
        .map_err(|why| format!("an invalid version/constraint format: {why}"))
}

fn search_index(repo: &str, index: &Index, words: &SearchTerm, profile: Profile, found: &mut Vec<SearchHit>) {
    for chart in index.names() {
        // Unreadable entries are skipped.
        for entry in index.entries(chart).filter_map(Result::ok) {
            let Some(score) = score(repo, &entry, words) else { continue };
            let version = Version::parse(&entry.metadata.version, profile).ok();
            found.push(SearchHit { score, name: format!("{repo}/{chart}"), version, entry });
        }
    }
}

/// Index of the first part that matches: name, name with repository, description, keywords.
fn score(repo: &str, entry: &ChartVersion, words: &SearchTerm) -> Option<usize> {
    const BETWEEN: char = '\u{b}';
    let metadata = &entry.metadata;
    let keywords: Vec<&str> = metadata.keywords.iter().map(|word| &**word).collect();
    let said = [
        metadata.name.to_string(),
        format!("{repo}/{}", metadata.name),
        metadata.description.to_string(),
        keywords.join(" "),
    ];
    let line = said.join(&BETWEEN.to_string());
    let (line, at) = match words {
        SearchTerm::All => return Some(0),
        SearchTerm::Text(text) => {
            let line = line.to_lowercase();
            let at = line.find(text)?;
            (line, at)
        }
        SearchTerm::Pattern(pattern) => {
            let at = pattern.find(&line)?.start();
            (line, at)
        }
    };
    Some(line[..at].matches(BETWEEN).count())
}
