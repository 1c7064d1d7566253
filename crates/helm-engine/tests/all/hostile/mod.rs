//! Hostile charts: the answer to each and its cost.
//!
//! Every case builds its chart in memory. It runs in a child process on the small stack of tests, so that a crash
//! fails only its row and memory is measured separately. [`cases`] lists all; `hostile::costs` prints the cost of
//! each and is run by name, in a release build:
//!
//! ```text
//! cargo test --release -p helm-engine --test all hostile::costs -- --ignored --nocapture
//! ```

mod archives;
mod charts;
mod child;
mod extremes;
mod files;
mod functions;
mod limits;
mod properties;
mod templates;
mod values;

use helm_chart::values::{ValuesSource, user_values};
use helm_chart::{File, Loader, dependencies};
use helm_engine::{Capabilities, Engine, EngineRequest, OutputOptions, ParsedChart};
use helm_template::env::RenderEnv;
use helm_template::exec::RenderLimits;
use helm_template::profile::Profile;

/// A chart and the options to render it.
struct Attack {
    chart: AttackChart,
    /// User values.
    sources: Vec<ValuesSource>,
    profile: Profile,
}

enum AttackChart {
    Archive(Vec<u8>),
    Files(Vec<(String, Vec<u8>)>),
}

/// An attack and the expected answer.
struct HostileCase {
    name: String,
    build_attack: Box<dyn Fn() -> Attack>,
    /// Required parts of the answer. If empty, any answer is accepted.
    expected_parts: Vec<String>,
}

impl HostileCase {
    fn new(name: &str, said: &[&str], make: impl Fn() -> Attack + 'static) -> Self {
        Self {
            name: name.to_owned(),
            build_attack: Box::new(make),
            expected_parts: said.iter().copied().map(str::to_owned).collect(),
        }
    }
}

fn cases() -> Vec<HostileCase> {
    let mut cases = archives::cases();
    cases.extend(charts::cases());
    cases.extend(values::cases());
    cases.extend(templates::cases());
    cases.extend(functions::cases());
    cases.extend(files::cases());
    cases.extend(limits::cases());
    cases
}

const CHART_YAML: &str = "apiVersion: v2\nname: evil\nversion: 1.0.0\n";

/// A chart of these files, with a default `Chart.yaml`.
fn files(files: &[(&str, &str)]) -> Attack {
    let mut all: Vec<_> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    if !files.iter().any(|(name, _)| *name == "Chart.yaml") {
        all.insert(0, ("Chart.yaml".to_owned(), CHART_YAML.into()));
    }
    Attack { chart: AttackChart::Files(all), sources: Vec::new(), profile: Profile::Helm4 }
}

/// Lower limits in a debug build, which is slower.
fn limits() -> RenderLimits {
    if cfg!(debug_assertions) {
        RenderLimits { steps: 1_000_000, memory: 16 << 20, depth: 10_000 }
    } else {
        RenderLimits::default()
    }
}

fn render(attack: Attack) -> Result<Vec<u8>, String> {
    render_within(attack, limits())
}

/// Loads and renders a chart as `template` does.
fn render_within(attack: Attack, limits: RenderLimits) -> Result<Vec<u8>, String> {
    let profile = attack.profile;
    let mut loader = Loader::new(profile);
    let chart = match attack.chart {
        AttackChart::Archive(archive) => loader.load_archive(&archive),
        AttackChart::Files(files) => {
            let files = files.into_iter().map(|(name, data)| File { name: name.into(), data: data.into() });
            loader.load_files(files.collect())
        }
    };
    let chart = chart.map_err(|error| error.to_string())?;
    dependencies::check(&chart, profile).map_err(|error| error.to_string())?;
    let mut open = |name: &str| Err(format!("no file {name}").into());
    let values = user_values(&attack.sources, profile, &mut open).map_err(|error| error.to_string())?;
    let capabilities = Capabilities::default_for(profile);
    let request = EngineRequest { limits, ..EngineRequest::new("x", &values, &capabilities) };
    let release = Engine::new(profile).render(&ParsedChart::new(chart), &request, RenderEnv::NULL);
    let release = release.map_err(|failure| failure.message)?;
    Ok(release.text(OutputOptions { crds: false, hooks: true, tests: true }))
}

/// Memory limit of every case.
const MAX_MEMORY: usize = if cfg!(debug_assertions) { 1 << 30 } else { 400 << 20 };
/// CPU time limit of every case in milliseconds; `costs` prints the figures.
const MAX_CPU_MILLIS: u64 = if cfg!(debug_assertions) { 15_000 } else { 5_000 };

fn check(cases: &[HostileCase]) {
    let mut wrong = String::new();
    for case in cases {
        let cost = child::run(case);
        let missing: Vec<_> =
            case.expected_parts.iter().filter(|said| !cost.answer.contains(said.as_str())).collect();
        let failed = child::FAILED.iter().any(|word| cost.answer.starts_with(word));
        if failed || !missing.is_empty() || cost.memory > MAX_MEMORY || cost.cpu_millis > MAX_CPU_MILLIS {
            let (answer, memory, busy) = (shortened(&cost.answer), cost.memory >> 20, cost.cpu_millis);
            wrong += &format!("{}: {memory} MiB, {busy} ms, without {missing:?}: {answer}\n", case.name);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn shortened(answer: &str) -> String {
    match (answer.char_indices().nth(250), answer.char_indices().nth_back(150)) {
        (Some((end, _)), Some((start, _))) if start > end => {
            format!("{} … {}", &answer[..end], &answer[start..])
        }
        _ => answer.to_owned(),
    }
}

#[test]
fn hostile_archives_are_rejected_within_limits() {
    check(&archives::cases());
}

#[test]
fn hostile_charts_are_rejected_within_limits() {
    check(&charts::cases());
}

#[test]
fn hostile_values_are_rejected_within_limits() {
    check(&values::cases());
}

#[test]
fn hostile_templates_are_rejected_within_limits() {
    check(&templates::cases());
}

#[test]
fn functions_with_large_input_stay_within_limits() {
    check(&functions::cases());
}

#[test]
fn hostile_files_are_rejected_within_limits() {
    check(&files::cases());
}

#[test]
fn charts_at_their_limits_render() {
    check(&limits::cases());
}

#[test]
#[ignore = "prints a table for people; asked for by name"]
fn costs() {
    println!("| case | ms | of the processor | MiB | answer |\n|---|---|---|---|---|");
    for case in cases() {
        let cost = child::run(&case);
        let answer = shortened(cost.answer.lines().last().unwrap_or_default()).replace('|', "\\|");
        let (millis, busy, memory) = (cost.millis, cost.cpu_millis, cost.memory >> 20);
        println!("| {} | {millis} | {busy} | {memory} | {answer} |", case.name);
    }
}
