//! What can be found wrong with a chart without installing it: the rules of `helm lint`.
//!
//! A [`Subject`] is what lint sees of a chart's folder. Each module holds the rules about one part of it: `Chart.yaml`
//! ([`chart_file`]), `values.yaml` ([`values`]), what the templates came to ([`manifests`]), dependencies
//! ([`dependencies`]), `crds/` ([`crds`]). Rendering is not done here; who has rendered calls them in Helm's order.

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

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Against custom, though it is likely to work.
    Warning,
    /// Not likely to work.
    Error,
}

/// What a rule found. The words are Helm's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub severity: Severity,
    pub path: Str,
    pub text: String,
}

impl Display for Message {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// What rules have found so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub messages: Vec<Message>,
}

impl Report {
    /// Notes what is wrong, and says whether nothing is.
    pub fn check(&mut self, severity: Severity, path: &str, found: Result<(), String>) -> bool {
        match found {
            Ok(()) => true,
            Err(text) => {
                self.messages.push(Message { severity, path: path.into(), text });
                false
            }
        }
    }
}

/// Something that may lie in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Missing,
    Folder,
    File(Bytes),
    /// Why it cannot be read, as the system says it.
    Unreadable(String),
}

/// A chart's folder.
pub struct Subject<'s> {
    /// What messages call it.
    pub folder: &'s str,
    pub chart_yaml: Entry,
    pub values_yaml: Entry,
    pub schema: Entry,
    pub templates: Entry,
    pub crds: Entry,
    /// The chart that it holds, or why it cannot be loaded.
    pub chart: Result<Chart, String>,
}

impl Entry {
    /// The content, or what the system says about an attempt to read it.
    fn content(&self, folder: &str, name: &str) -> Result<&Bytes, String> {
        match self {
            Self::File(content) => Ok(content),
            Self::Folder => Err(format!("read {folder}/{name}: is a directory")),
            Self::Missing => Err(format!("open {folder}/{name}: no such file or directory")),
            Self::Unreadable(why) => Err(why.clone()),
        }
    }
}
