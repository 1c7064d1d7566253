//! `longshore template`: renders a chart without a cluster.

use std::fs;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::{Component, Path, PathBuf};

use clap::{ArgAction, Args};
use helm_chart::{Chart, dependencies};
use helm_engine::{
    Capabilities, Engine, EngineRequest, KubeVersion, OutputOptions, ParsedChart, Release, RenderStage,
    output,
};
use helm_host::Host;
use helm_template::budget::Budget;
use helm_template::exec::{Machine, Templates};
use helm_template::functions;
use helm_template::parse::parse;
use helm_template::profile::Profile;
use helm_template::value::Value;

use super::flags::{HelmArg, Switch, ValuesArgs, go_io_error, switch};
use super::remote::RemoteArgs;
use super::{CommandError, CommandResult, locate};

/// Flags that Helm's `template` has and that make sense without a cluster.
#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct TemplateArgs {
    /// Release name, and the chart: directory, archive, REPO/CHART, URL or OCI reference
    #[arg(value_name = "NAME] [CHART")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub helm: HelmArg,
    #[command(flatten)]
    pub remote: RemoteArgs,
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Namespace of the release
    #[arg(short, long, env = "HELM_NAMESPACE", default_value = "default", hide_env = true)]
    pub namespace: String,
    /// Kubernetes version for `.Capabilities.KubeVersion`
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,
    /// Additional API versions for `.Capabilities.APIVersions`
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',', action = ArgAction::Append)]
    pub api_versions: Vec<String>,
    /// Include the CRDs of `crds/`
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub include_crds: Switch,
    /// Exclude the CRDs of `crds/`, which is the default
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_crds: Switch,
    /// Exclude hooks
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_hooks: Switch,
    /// Exclude tests
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_tests: Switch,
    /// Print only the manifests of these templates
    #[arg(short, long, value_name = "FILE", action = ArgAction::Append)]
    pub show_only: Vec<String>,
    /// Set `.Release.IsUpgrade` instead of `.Release.IsInstall`
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub is_upgrade: Switch,
    /// Write manifests to files in this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<String>,
    /// Add the release name to the path of --output-dir
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub release_name: Switch,
    /// Template for the release name
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub name_template: String,
    /// Generate the release name
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub generate_name: Switch,
    /// Print manifests even if they are not valid YAML
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub debug: Switch,
    /// Skip validation of values against JSON schemas
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_schema_validation: Switch,
}

pub fn run(args: &TemplateArgs) -> CommandResult {
    let profile = args.helm.profile;
    if args.names.is_empty() {
        return Err(
            "\"helm template\" requires at least 1 argument\n\nUsage:  helm template [NAME] [CHART] [flags]"
                .into(),
        );
    }
    let mut capabilities = Capabilities::default_for(profile);
    if let Some(version) = args.kube_version.as_deref().filter(|version| !version.is_empty()) {
        capabilities.kube_version = KubeVersion::parse(version, profile)
            .map_err(|why| format!("invalid kube version '{version}': {why}"))?;
    }
    capabilities.api_versions.extend(args.api_versions.iter().map(|version| version.as_str().into()));

    let host = Host::new();
    let (name, chart) = name_and_chart(args, &host)?;
    let path = locate::find_blocking(&chart, &args.remote, profile)?;
    let values = args.values.read(profile)?;
    let chart = load(&path, profile)?;
    let request = EngineRequest {
        namespace: &args.namespace,
        is_upgrade: args.is_upgrade.0,
        check_schema: !args.skip_schema_validation.0,
        ..EngineRequest::new(&name, &values, &capabilities)
    };
    // Not dropped, because the process exits soon and freeing the parsed chart takes time.
    let prepared = ManuallyDrop::new(ParsedChart::new(chart));
    let engine = Engine::new(profile);
    let rendered = helm_host::run_alongside(
        prepared.is_large(),
        || engine.parse_ahead(&prepared),
        || engine.render(&prepared, &request, host.render_env()),
    );
    let warnings = rendered.as_ref().map_or_else(|failure| &failure.warnings, |release| &release.warnings);
    for line in warnings {
        eprintln!("{line}");
    }
    match rendered {
        Ok(release) => render_output(args, &name, &release),
        Err(failure) => match failure.stage {
            RenderStage::Values => Err(failure.message.into()),
            RenderStage::Manifests(files) if args.debug.0 => {
                Err(CommandError::with_output(output::invalid_manifests_text(&files), failure.message))
            }
            RenderStage::Templates if args.debug.0 => Err(CommandError::with_output(*b"\n", failure.message)),
            _ => Err(format!("{}\n\nUse --debug flag to render out invalid YAML", failure.message).into()),
        },
    }
}

/// Names of the release and of the chart. Without a name the release is called `release-name`; names are not generated
/// here.
fn name_and_chart(args: &TemplateArgs, host: &Host) -> Result<(String, String), String> {
    match args.names.as_slice() {
        [] => Err("a chart is missing".into()),
        [chart] if args.name_template.is_empty() => Ok(("release-name".into(), chart.clone())),
        [chart] => Ok((name_from_template(&args.name_template, host, args.helm.profile)?, chart.clone())),
        [_, _] if args.generate_name.0 => Err("cannot set --generate-name and also specify a name".into()),
        [_, _] if !args.name_template.is_empty() => {
            Err("cannot set --name-template and also specify a name".into())
        }
        [name, chart] => Ok((name.clone(), chart.clone())),
        [_, _, more @ ..] => {
            Err(format!("expected at most two arguments, unexpected arguments: {}", more.join(", ")))
        }
    }
}

/// Generates a name from a template.
pub(crate) fn name_from_template(text: &str, host: &Host, profile: Profile) -> Result<String, String> {
    const NAME: &str = "name-template";
    let functions = functions::table(profile);
    let parsed = parse(NAME, text, &functions).map_err(|why| why.to_string())?;
    let templates = Templates::default().with(parsed.into_iter().map(std::sync::Arc::new));
    let budget = Budget::default();
    let mut machine = Machine::new(templates, &functions, host.render_env(), &budget);
    let name = machine.run(NAME, Value::Nil).map_err(|error| {
        // The template of a name is not part of a chart, so markers around messages of `fail` are only removed.
        error.to_string().replace("HELM_ERR_START", "").replace("HELM_ERR_END", "")
    })?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Loads a chart that can be installed.
fn load(path: &Path, profile: Profile) -> Result<Chart, String> {
    let loaded = helm_host::load(path, profile).map_err(|error| error.to_string())?;
    for line in &loaded.warnings {
        eprintln!("{line}");
    }
    let metadata = &loaded.chart.metadata;
    if !matches!(&*metadata.chart_type, "" | "application") {
        return Err(format!("{} charts are not installable", metadata.chart_type));
    }
    if metadata.deprecated {
        eprintln!(
            "{}",
            match profile {
                Profile::Helm3 => "WARNING: This chart is deprecated",
                Profile::Helm4 => "level=WARN msg=\"this chart is deprecated\"",
            }
        );
    }
    dependencies::check(&loaded.chart, profile).map_err(|why| why.to_string())?;
    Ok(loaded.chart)
}

fn render_output(args: &TemplateArgs, name: &str, release: &Release) -> CommandResult {
    let shown =
        OutputOptions { crds: args.include_crds.0, hooks: !args.no_hooks.0, tests: !args.skip_tests.0 };
    let text = match &args.output_dir {
        None => release.text(shown),
        Some(folder) => write_files(args, folder, name, release, shown)?,
    };
    if args.show_only.is_empty() {
        return Ok(text);
    }
    Ok(output::filter_by_source(text, &args.show_only, args.helm.profile)?)
}

/// Writes each file of the release below the folder, and prints its path.
fn write_files(
    args: &TemplateArgs,
    folder: &str,
    name: &str,
    release: &Release,
    shown: OutputOptions,
) -> Result<Vec<u8>, String> {
    let below = if args.release_name.0 { format!("{folder}/{name}") } else { folder.to_owned() };
    let mut said = Vec::new();
    let mut written: Vec<PathBuf> = Vec::new();
    let crds = release.crds.iter().filter(|_| shown.crds).map(|crd| (folder, &*crd.source, &crd.content));
    let parts = release.manifest_documents(OutputOptions { crds: false, ..shown });
    let parts = parts.map(|(source, content)| (below.as_str(), source, content));
    let hooks = release.hook_documents(shown).map(|(source, content)| (below.as_str(), source, content));
    for (number, (folder, source, content)) in crds.chain(parts).chain(hooks).enumerate() {
        let is_hook = number >= release.manifests.len() + if shown.crds { release.crds.len() } else { 0 };
        let file = PathBuf::from(format!("{folder}/{source}"));
        if Path::new(source).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(format!("{source} lies outside of {folder}"));
        }
        let mut text = Vec::new();
        output::write_document(&mut text, (source, content));
        let append = written.contains(&file) || (is_hook && file.exists());
        write_file(&file, &text, append)
            .map_err(|error| format!("open {}: {}", file.display(), go_io_error(&error)))?;
        said.extend_from_slice(format!("wrote {}\n", file.display()).as_bytes());
        written.push(file);
    }
    // Helm prints the remaining manifests, of which there are none.
    said.push(b'\n');
    Ok(said)
}

fn write_file(file: &Path, text: &[u8], append: bool) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file =
        if append { fs::File::options().append(true).open(file)? } else { fs::File::create(file)? };
    file.write_all(text)
}
