//! Rules of `helm lint`: problems of a chart found without installing it.
//!
//! A [`LintSubject`] is the part of a chart's folder that lint reads. Each module checks one part. Rendering is not done
//! here; the caller renders and calls the rules in Helm's order.
//!
//! Modules:
//!
//! - [`chart_file`], `Chart.yaml`
//! - [`values`], `values.yaml`
//! - [`manifests`]: rendered templates
//! - [`dependencies`], dependencies
//! - [`crds`], `crds/`

pub mod chart_file;
pub mod crds;
pub mod dependencies;
mod deprecations;
pub mod manifests;
mod names;
pub mod values;
mod web;

use std::fmt::{Display, Formatter};

use bytes::Bytes;
use helm_template::value::Str;

use crate::chart::Chart;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Informational.
    Info,
    /// Against conventions, but likely to work.
    Warning,
    /// Unlikely to work.
    Error,
}

/// Finding of a rule, with Helm's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintMessage {
    pub severity: Severity,
    pub path: Str,
    pub text: String,
}

impl Display for LintMessage {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// Findings so far.
#[derive(Clone, Debug, Default)]
pub struct LintReport {
    pub messages: Vec<LintMessage>,
}

impl LintReport {
    /// Records a finding. Returns whether there was none.
    pub fn record(&mut self, severity: Severity, path: &str, found: Result<(), String>) -> bool {
        match found {
            Ok(()) => true,
            Err(text) => {
                self.messages.push(LintMessage { severity, path: path.into(), text });
                false
            }
        }
    }
}

/// A possible entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirContent {
    Missing,
    Directory,
    File(Bytes),
    /// It cannot be read; the operating system's message.
    Unreadable(String),
}

/// A chart's folder.
pub struct LintSubject<'s> {
    /// Folder name in messages.
    pub dir_name: &'s str,
    pub chart_yaml: DirContent,
    pub values_yaml: DirContent,
    pub schema: DirContent,
    pub templates: DirContent,
    pub crds: DirContent,
    /// The loaded chart, or the load error.
    pub chart: Result<Chart, String>,
}

impl DirContent {
    /// The content, or the operating system's error for reading it.
    fn content(&self, folder: &str, name: &str) -> Result<&Bytes, String> {
        match self {
            Self::File(content) => Ok(content),
            Self::Directory => Err(format!("read {folder}/{name}: is a directory")),
            Self::Missing => Err(format!("open {folder}/{name}: no such file or directory")),
            Self::Unreadable(why) => Err(why.clone()),
        }
    }
}
