//! Lint rules for `crds/`, since Helm 4.

use helm_template::profile::Profile;
use helm_template::yaml;

use super::Severity::Error;
use super::manifests::{Head, read};
use super::{Entry, Report, Subject};
use crate::chart::{Chart, File};

const FOLDER: &str = "crds/";

pub fn check(subject: &Subject<'_>, profile: Profile, report: &mut Report) {
    match subject.crds {
        Entry::Missing => return,
        Entry::Folder => {}
        _ => {
            report.check(Error, FOLDER, Err("not a directory".into()));
            return;
        }
    }
    match &subject.chart {
        Err(why) => {
            report.check(Error, FOLDER, Err(why.clone()));
        }
        Ok(chart) => {
            chart_and_below(chart, profile, report);
        }
    }
}

/// Returns whether to continue; a file that is not YAML stops the check.
fn chart_and_below(chart: &Chart, profile: Profile, report: &mut Report) -> bool {
    chart.crds().all(|crd| file(crd, profile, report))
        && chart.dependencies.iter().all(|subchart| chart_and_below(subchart, profile, report))
}

fn file(crd: &File, profile: Profile, report: &mut Report) -> bool {
    for document in yaml::documents(&crd.data) {
        match document.and_then(|document| read(&document, profile)) {
            Err(why) => {
                return report.check(Error, &crd.name, Err(format!("unable to parse YAML: {why}")));
            }
            Ok(None) => {}
            Ok(Some(Head { api_version, kind, .. })) => {
                let group = if api_version.starts_with("apiextensions.k8s.io") {
                    Ok(())
                } else {
                    Err("apiVersion is not in 'apiextensions.k8s.io'".into())
                };
                report.check(Error, &crd.name, group);
                let kind = match &*kind {
                    "CustomResourceDefinition" => Ok(()),
                    _ => Err("object kind is not 'CustomResourceDefinition'".into()),
                };
                report.check(Error, &crd.name, kind);
            }
        }
    }
    true
}
