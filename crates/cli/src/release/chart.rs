//! Loading of charts and choice of release names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helm_chart::{Chart, dependencies};
use helm_host::Host;
use helm_release::render::PreparedChart;
use helm_template::profile::Profile;

use crate::helm::remote::RemoteArgs;
use crate::helm::{locate, template};

/// The Helm version whose behaviour is followed.
pub const PROFILE: Profile = Profile::Helm4;

/// Loads a chart and prepares it for rendering, on a blocking thread because it waits for disk and network.
pub async fn load(name: &str, remote: &RemoteArgs) -> Result<Arc<PreparedChart>, String> {
    let (name, remote) = (name.to_owned(), remote.clone());
    let loaded = tokio::task::spawn_blocking(move || load_blocking(&name, &remote)).await;
    loaded.unwrap_or_else(|broken| Err(format!("cannot load the chart: {broken}")))
}

fn load_blocking(name: &str, remote: &RemoteArgs) -> Result<Arc<PreparedChart>, String> {
    Ok(Arc::new(PreparedChart::new(load_installable(&locate(name, remote)?)?)))
}

/// Path of a chart; a remote one is fetched first.
pub fn locate(name: &str, remote: &RemoteArgs) -> Result<PathBuf, String> {
    locate::find_blocking(name, remote, PROFILE)
}

/// Loads a chart and checks that it can be installed.
pub fn load_installable(path: &Path) -> Result<Chart, String> {
    let loaded = helm_host::load(path, PROFILE).map_err(|error| error.to_string())?;
    for line in &loaded.warnings {
        eprintln!("{line}");
    }
    let metadata = &loaded.chart.metadata;
    if !matches!(&*metadata.chart_type, "" | "application") {
        return Err(format!("{} charts are not installable", metadata.chart_type));
    }
    if metadata.deprecated {
        eprintln!("level=WARN msg=\"this chart is deprecated\"");
    }
    dependencies::check(&loaded.chart, PROFILE).map_err(|why| why.to_string())?;
    Ok(loaded.chart)
}

/// Names given for the release and the chart.
pub struct NameArguments<'a> {
    pub arguments: &'a [String],
    pub generate: bool,
    pub template: &'a str,
    /// Unix time in seconds, for generated names.
    pub now: i64,
}

impl NameArguments<'_> {
    /// Names of the release and of the chart.
    pub fn resolve(&self) -> Result<(String, String), String> {
        match self.arguments {
            [] => Err("\"helm install\" requires at least 1 argument\n\nUsage:  helm install [NAME] [CHART] [flags]".into()),
            [_, _] if self.generate => Err("cannot set --generate-name and also specify a name".into()),
            [_, _] if !self.template.is_empty() => Err("cannot set --name-template and also specify a name".into()),
            [name, chart] => Ok((name.clone(), chart.clone())),
            [chart] if !self.template.is_empty() => {
                Ok((template::name_from_template(self.template, &Host::new(), PROFILE)?, chart.clone()))
            }
            [chart] if self.generate => Ok((self.generate_name(chart), chart.clone())),
            [_] => Err("must either provide a name or specify --generate-name".into()),
            [_, _, more @ ..] => {
                Err(format!("expected at most two arguments, unexpected arguments: {}", more.join(", ")))
            }
        }
    }

    fn generate_name(&self, chart: &str) -> String {
        let base = chart.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let base = if matches!(base, "" | ".") { "chart" } else { base };
        let base = base.split('.').next().unwrap_or_default();
        format!("{base}-{}", self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str], generate: bool, template: &str) -> Result<(String, String), String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        NameArguments { arguments: &arguments, generate, template, now: 7 }.resolve()
    }

    #[test]
    fn name_arguments_resolve_as_in_helm() {
        let both = |name: &str, chart: &str| Ok((name.to_owned(), chart.to_owned()));
        assert_eq!(names(&["web", "./c"], false, ""), both("web", "./c"));
        assert_eq!(names(&["./charts/web-1.2.tgz"], true, ""), both("web-1-7", "./charts/web-1.2.tgz"));
        assert_eq!(names(&["."], true, ""), both("chart-7", "."));
        assert_eq!(names(&["./c"], false, "{{ \"a\" }}-b"), both("a-b", "./c"));
        for (arguments, generate, template) in [
            (&["a", "b"][..], true, ""),
            (&["a", "b"], false, "x"),
            (&["a"], false, ""),
            (&[], false, ""),
            (&["a", "b", "c"], false, ""),
        ] {
            assert!(names(arguments, generate, template).is_err());
        }
    }
}
