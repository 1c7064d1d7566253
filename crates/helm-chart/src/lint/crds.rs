//! Lint rules for `crds/`, since Helm 4.

use helm_template::profile::Profile;
use helm_template::yaml;

use super::Severity::Error;
use super::manifests::{LintedManifest, read_document};
use super::{DirContent, LintReport, LintSubject};
use crate::chart::{Chart, File};

const CRDS_DIR: &str = "crds/";

pub fn check(subject: &LintSubject<'_>, profile: Profile, report: &mut LintReport) {
    match subject.crds {
        DirContent::Missing => return,
        DirContent::Directory => {}
        _ => {
            report.record(Error, CRDS_DIR, Err("not a directory".into()));
            return;
        }
    }
    match &subject.chart {
        Err(why) => {
            report.record(Error, CRDS_DIR, Err(why.clone()));
        }
        Ok(chart) => {
            check_chart_tree(chart, profile, report);
        }
    }
}

/// Returns whether to continue; a file that is not YAML stops the check.
fn check_chart_tree(chart: &Chart, profile: Profile, report: &mut LintReport) -> bool {
    chart.crds().all(|crd| check_crd_file(crd, profile, report))
        && chart.dependencies.iter().all(|subchart| check_chart_tree(subchart, profile, report))
}

fn check_crd_file(crd: &File, profile: Profile, report: &mut LintReport) -> bool {
    for document in yaml::documents(&crd.data) {
        match document.and_then(|document| read_document(&document, profile)) {
            Err(why) => {
                return report.record(Error, &crd.name, Err(format!("unable to parse YAML: {why}")));
            }
            Ok(None) => {}
            Ok(Some(LintedManifest { api_version, kind, .. })) => {
                let group = if api_version.starts_with("apiextensions.k8s.io") {
                    Ok(())
                } else {
                    Err("apiVersion is not in 'apiextensions.k8s.io'".into())
                };
                report.record(Error, &crd.name, group);
                let kind = match &*kind {
                    "CustomResourceDefinition" => Ok(()),
                    _ => Err("object kind is not 'CustomResourceDefinition'".into()),
                };
                report.record(Error, &crd.name, kind);
            }
        }
    }
    true
}
