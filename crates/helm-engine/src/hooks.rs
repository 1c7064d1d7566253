//! Hooks: documents that are not part of a release, but run at events of its life cycle.

use bytes::Bytes;
use helm_chart::values::quoted;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::manifests::Manifest;

/// The event at which a hook runs.
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

/// A hook with its events and policies.
#[derive(Clone, Debug)]
pub struct Hook {
    pub name: Str,
    pub kind: Str,
    /// The source file.
    pub source: Str,
    pub content: Bytes,
    pub events: Vec<Event>,
    pub weight: i64,
    /// In lower case, as in the annotation.
    pub delete_policies: Vec<Str>,
    /// Helm 4 only.
    pub output_log_policies: Vec<Str>,
}

impl Event {
    /// The name in the annotation and in the release record.
    pub fn name(self) -> &'static str {
        EVENTS.iter().find(|(_, event)| *event == self).expect("every event has a row").0
    }
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
    // An alias from Helm 2.
    ("test-success", Event::Test),
];

/// The classification of a document.
pub enum Found {
    Manifest(Manifest),
    Hook(Hook),
    /// A hook with an unknown event. It is left out with this warning.
    Unknown(String),
}

/// Classifies a document by its hook annotations.
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

#[cfg(test)]
mod tests {
    use helm_template::yaml::head;

    use super::*;

    fn found(annotations: &str, profile: Profile) -> String {
        let content = format!("kind: Job\nmetadata:\n  name: h\n  annotations: {{{annotations}}}\n");
        let head = head(content.as_bytes(), profile).unwrap();
        match of(Manifest { source: "c/a.yaml".into(), content: content.into(), head }, profile) {
            Found::Manifest(_) => "manifest".into(),
            Found::Unknown(warning) => warning,
            Found::Hook(hook) => format!(
                "{:?} {} {:?} {:?}",
                hook.events, hook.weight, hook.delete_policies, hook.output_log_policies
            ),
        }
    }

    /// Compared with Helm's own manifest sorter.
    #[test]
    fn annotations_make_hooks() {
        const TABLE: &[(&str, &str)] = &[
            ("a: b", "manifest"),
            ("helm.sh/hook-weight: '3'", "manifest"),
            ("helm.sh/hook: pre-install", "[PreInstall] 0 [] []"),
            ("helm.sh/hook: 'post-install, PRE-UPGRADE '", "[PostInstall, PreUpgrade] 0 [] []"),
            ("helm.sh/hook: test", "[Test] 0 [] []"),
            ("helm.sh/hook: test-success", "[Test] 0 [] []"),
            ("helm.sh/hook: test, helm.sh/hook-weight: '-5'", "[Test] -5 [] []"),
            ("helm.sh/hook: test, helm.sh/hook-weight: '+7'", "[Test] 7 [] []"),
            ("helm.sh/hook: test, helm.sh/hook-weight: ' 7'", "[Test] 0 [] []"),
            ("helm.sh/hook: test, helm.sh/hook-weight: '1.5'", "[Test] 0 [] []"),
            ("helm.sh/hook: test, helm.sh/hook-weight: '1_000'", "[Test] 0 [] []"),
            ("helm.sh/hook: test, helm.sh/hook-weight: '99999999999999999999'", "[Test] 0 [] []"),
            (
                "helm.sh/hook: pre-rollback, helm.sh/hook-delete-policy: 'Before-Hook-Creation, odd'",
                "[PreRollback] 0 [\"before-hook-creation\", \"odd\"] []",
            ),
        ];
        for (annotations, want) in TABLE {
            for profile in [Profile::Helm3, Profile::Helm4] {
                assert_eq!(found(annotations, profile), *want, "{annotations} {profile:?}");
            }
        }
    }

    #[test]
    fn only_helm_4_has_policies_for_logs() {
        let logs = "helm.sh/hook: test, helm.sh/hook-output-log-policy: 'hook-succeeded,HOOK-FAILED'";
        assert_eq!(found(logs, Profile::Helm3), "[Test] 0 [] []");
        assert_eq!(found(logs, Profile::Helm4), "[Test] 0 [] [\"hook-succeeded\", \"hook-failed\"]");
    }

    #[test]
    fn an_unknown_event_is_said_and_left_out() {
        const THREE: &str = "manifest_sorter.go:190: info: skipping unknown hook: ";
        const FOUR: &str = "level=INFO msg=\"skipping unknown hooks\" hookTypes=";
        for (when, three, four) in [
            ("''", "\"\"", "\"\""),
            ("crd-install", "\"crd-install\"", "crd-install"),
            ("'pre-install,'", "\"pre-install,\"", "pre-install,"),
            ("'pre-install,nope'", "\"pre-install,nope\"", "pre-install,nope"),
        ] {
            let annotations = format!("helm.sh/hook: {when}");
            assert_eq!(found(&annotations, Profile::Helm3), format!("{THREE}{three}"));
            assert_eq!(found(&annotations, Profile::Helm4), format!("{FOUR}{four}"));
        }
    }
}
