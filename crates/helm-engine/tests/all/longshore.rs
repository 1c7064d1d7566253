//! `helm template` by our engine, with the flags used in these tests.

use std::path::Path;

use helm_chart::dependencies;
use helm_chart::set::SetFlag;
use helm_chart::values::{ValuesSource, user_values};
use helm_engine::{
    Capabilities, Engine, EngineRequest, KubeVersion, OutputOptions, ParsedChart, RenderStage,
};
use helm_host::Host;
use helm_template::exec::RenderLimits;
use helm_template::profile::Profile;

use crate::helm_program::ProgramOutput;

/// Output of the command in this folder.
pub fn template(folder: &Path, arguments: &[String], profile: Profile) -> ProgramOutput {
    template_within(folder, arguments, profile, RenderLimits::default())
}

/// Output of the command with limits.
pub fn template_within(
    folder: &Path,
    arguments: &[String],
    profile: Profile,
    limits: RenderLimits,
) -> ProgramOutput {
    let mut stderr = String::new();
    match run(folder, arguments, profile, limits, &mut stderr) {
        Ok(stdout) => ProgramOutput { stdout, stderr },
        Err(why) => ProgramOutput { stdout: Vec::new(), stderr: format!("{stderr}Error: {why}\n") },
    }
}

fn run(
    folder: &Path,
    arguments: &[String],
    profile: Profile,
    limits: RenderLimits,
    stderr: &mut String,
) -> Result<Vec<u8>, String> {
    let mut names = Vec::new();
    let mut sources = Vec::new();
    let mut capabilities = Capabilities::default_for(profile);
    let mut check_schema = true;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(String::as_str).ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "-f" => {
                let name = value()?;
                let text = std::fs::read(folder.join(name)).map_err(|error| error.to_string())?;
                sources.push(ValuesSource::File { name: name.into(), text: text.into() });
            }
            "--set" => sources.push(ValuesSource::Set(SetFlag::Typed, value()?.into())),
            "--set-string" => sources.push(ValuesSource::Set(SetFlag::Text, value()?.into())),
            "--set-json" => sources.push(ValuesSource::Set(SetFlag::Json, value()?.into())),
            "--kube-version" => {
                let version = value()?;
                capabilities.kube_version = KubeVersion::parse(version, profile)
                    .map_err(|why| format!("invalid kube version '{version}': {why}"))?;
            }
            "--skip-schema-validation" => check_schema = false,
            name => names.push(name),
        }
    }
    let [name, chart] = names.as_slice() else { return Err("a release and a chart".into()) };
    let mut say = |line: &str| {
        stderr.push_str(line);
        stderr.push('\n');
    };
    let mut open = |name: &str| Err(format!("open {name}: no such file or directory").into());
    let values = user_values(&sources, profile, &mut open).map_err(|why| why.to_string())?;
    let loaded = helm_host::load(&folder.join(chart), profile).map_err(|why| why.to_string())?;
    loaded.warnings.iter().for_each(|line| say(line));
    let kind = &loaded.chart.metadata.chart_type;
    if !matches!(&**kind, "" | "application") {
        return Err(format!("{kind} charts are not installable"));
    }
    dependencies::check(&loaded.chart, profile).map_err(|why| why.to_string())?;
    let request = EngineRequest { check_schema, limits, ..EngineRequest::new(name, &values, &capabilities) };
    let host = Host::new();
    let rendered = Engine::new(profile).render(&ParsedChart::new(loaded.chart), &request, host.render_env());
    let warnings = rendered.as_ref().map_or_else(|failure| &failure.warnings, |release| &release.warnings);
    for line in warnings {
        say(line);
    }
    rendered.map(|release| release.text(OutputOptions { crds: false, hooks: true, tests: true })).map_err(
        |failure| match failure.stage {
            RenderStage::Values => failure.message,
            RenderStage::Templates | RenderStage::Manifests(_) => {
                format!("{}\n\nUse --debug flag to render out invalid YAML", failure.message)
            }
        },
    )
}
