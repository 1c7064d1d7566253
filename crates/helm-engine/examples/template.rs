//! Renders a chart and prints what `helm template` prints: `template RELEASE CHART [-f FILE]... [--helm 3|4]`.
//!
//! A small stand-in for the command line, which knows all of Helm's flags.

use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::ExitCode;

use helm_chart::values::{ValuesSource, user_values};
use helm_engine::{Capabilities, Engine, EngineRequest, OutputOptions, ParsedChart, RenderStage};
use helm_template::profile::Profile;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(text) => match std::io::stdout().lock().write_all(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(why) => {
            eprintln!("Error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Vec<u8>, String> {
    let mut names = Vec::new();
    let mut sources = Vec::new();
    let mut profile = Profile::Helm4;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-f" => {
                let file = arguments.next().ok_or("-f needs a file")?;
                let text = std::fs::read(&file).map_err(|error| format!("cannot read {file}: {error}"))?;
                sources.push(ValuesSource::File { name: file.into(), text: text.into() });
            }
            "--helm" if arguments.next().as_deref() == Some("3") => profile = Profile::Helm3,
            "--helm" | "template" => {}
            _ => names.push(argument),
        }
    }
    let [name, path] = names.as_slice() else { return Err("give a release and a chart".into()) };
    let loaded = helm_host::load(Path::new(path), profile).map_err(|error| error.to_string())?;
    let mut open = |name: &str| Err(format!("no file {name}").into());
    let values = user_values(&sources, profile, &mut open).map_err(|error| error.to_string())?;
    let engine = Engine::new(profile);
    let capabilities = Capabilities::default_for(profile);
    let request = EngineRequest::new(name, &values, &capabilities);
    let host = helm_host::Host::new();
    // The process ends soon: taking all that was parsed apart would be work for nothing.
    let prepared = ManuallyDrop::new(ParsedChart::new(loaded.chart));
    let rendered = helm_host::run_alongside(
        prepared.is_large(),
        || engine.parse_ahead(&prepared),
        || engine.render(&prepared, &request, host.render_env()),
    );
    let release = rendered.map_err(|failure| match failure.stage {
        RenderStage::Values => failure.message,
        _ => format!("{}\n\nUse --debug flag to render out invalid YAML", failure.message),
    })?;
    Ok(release.text(OutputOptions { crds: false, hooks: true, tests: true }))
}
