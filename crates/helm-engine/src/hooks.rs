//! Hooks: documents that are not part of a release but run at its turning points.

use bytes::Bytes;
use helm_chart::values::quoted;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::manifests::Manifest;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    Test,
}

#[derive(Clone, Debug)]
pub struct Hook {
    pub name: Str,
    pub kind: Str,
    /// The file that it came from.
    pub source: Str,
    pub content: Bytes,
    pub events: Vec<Event>,
    pub weight: i64,
    /// As the annotation says them, in lower case.
    pub delete_policies: Vec<Str>,
    /// Helm 4's.
    pub output_log_policies: Vec<Str>,
}

impl Hook {
    pub fn is_test(&self) -> bool {
        self.events.contains(&Event::Test)
    }
}

const HOOK: &str = "helm.sh/hook";
const WEIGHT: &str = "helm.sh/hook-weight";
const DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
const OUTPUT_LOG_POLICY: &str = "helm.sh/hook-output-log-policy";

const EVENTS: &[(&str, Event)] = &[
    ("pre-install", Event::PreInstall),
    ("post-install", Event::PostInstall),
    ("pre-delete", Event::PreDelete),
    ("post-delete", Event::PostDelete),
    ("pre-upgrade", Event::PreUpgrade),
    ("post-upgrade", Event::PostUpgrade),
    ("pre-rollback", Event::PreRollback),
    ("post-rollback", Event::PostRollback),
    ("test", Event::Test),
    // From the days of Helm 2.
    ("test-success", Event::Test),
];

/// What a document turns out to be.
pub enum Found {
    Manifest(Manifest),
    Hook(Hook),
    /// A hook at an event that does not exist: it is left out, and this is said.
    Unknown(String),
}

pub fn of(manifest: Manifest, profile: Profile) -> Found {
    let Some(when) = annotation(&manifest, HOOK) else { return Found::Manifest(manifest) };
    let event = |name: &str| {
        let name = name.trim().to_lowercase();
        EVENTS.iter().find(|(known, _)| *known == name).map(|(_, event)| *event)
    };
    let Some(events) = when.split(',').map(event).collect::<Option<Vec<_>>>() else {
        return Found::Unknown(match profile {
            Profile::Helm3 => format!("manifest_sorter.go:190: info: skipping unknown hook: {}", quote(when)),
            Profile::Helm4 => format!("level=INFO msg=\"skipping unknown hooks\" hookTypes={}", quoted(when)),
        });
    };
    let words = |name| match annotation(&manifest, name) {
        Some(words) => words.split(',').map(|word| word.trim().to_lowercase().into()).collect(),
        None => Vec::new(),
    };
    Found::Hook(Hook {
        name: manifest.head.name.clone(),
        kind: manifest.head.kind.clone(),
        events,
        weight: annotation(&manifest, WEIGHT).and_then(|weight| weight.parse().ok()).unwrap_or(0),
        delete_policies: words(DELETE_POLICY),
        output_log_policies: if profile == Profile::Helm4 { words(OUTPUT_LOG_POLICY) } else { Vec::new() },
        source: manifest.source,
        content: manifest.content,
    })
}

fn annotation<'m>(manifest: &'m Manifest, name: &str) -> Option<&'m str> {
    manifest.head.annotations.get(name).map(|value| &**value)
}
