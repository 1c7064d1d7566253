//! Hooks: documents that are not part of a release, but run at events of its life cycle.

use bytes::Bytes;
use helm_chart::values::slog_quote;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::manifests::Manifest;

/// The event at which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
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
    pub events: Vec<HookEvent>,
    pub weight: i64,
    /// In lower case, as in the annotation.
    pub delete_policies: Vec<Str>,
    /// Helm 4 only.
    pub output_log_policies: Vec<Str>,
}

impl HookEvent {
    /// The name in the annotation and in the release record.
    pub fn name(self) -> &'static str {
        EVENTS.iter().find(|(_, event)| *event == self).expect("every event has a row").0
    }
}

impl Hook {
    pub fn is_test(&self) -> bool {
        self.events.contains(&HookEvent::Test)
    }
}

const HOOK_ANNOTATION: &str = "helm.sh/hook";
const WEIGHT_ANNOTATION: &str = "helm.sh/hook-weight";
const DELETE_POLICY_ANNOTATION: &str = "helm.sh/hook-delete-policy";
const OUTPUT_LOG_POLICY_ANNOTATION: &str = "helm.sh/hook-output-log-policy";

const EVENTS: &[(&str, HookEvent)] = &[
    ("pre-install", HookEvent::PreInstall),
    ("post-install", HookEvent::PostInstall),
    ("pre-delete", HookEvent::PreDelete),
    ("post-delete", HookEvent::PostDelete),
    ("pre-upgrade", HookEvent::PreUpgrade),
    ("post-upgrade", HookEvent::PostUpgrade),
    ("pre-rollback", HookEvent::PreRollback),
    ("post-rollback", HookEvent::PostRollback),
    ("test", HookEvent::Test),
    // An alias from Helm 2.
    ("test-success", HookEvent::Test),
];

/// The classification of a document.
pub enum ClassifiedDocument {
    Manifest(Manifest),
    Hook(Hook),
    /// A hook with an unknown event. It is left out with this warning.
    UnknownHook(String),
}

/// Classifies a document by its hook annotations.
pub fn classify(manifest: Manifest, profile: Profile) -> ClassifiedDocument {
    let Some(when) = annotation(&manifest, HOOK_ANNOTATION) else {
        return ClassifiedDocument::Manifest(manifest);
    };
    let event = |name: &str| {
        let name = name.trim().to_lowercase();
        EVENTS.iter().find(|(known, _)| *known == name).map(|(_, event)| *event)
    };
    let Some(events) = when.split(',').map(event).collect::<Option<Vec<_>>>() else {
        return ClassifiedDocument::UnknownHook(match profile {
            Profile::Helm3 => format!("manifest_sorter.go:190: info: skipping unknown hook: {}", quote(when)),
            Profile::Helm4 => {
                format!("level=INFO msg=\"skipping unknown hooks\" hookTypes={}", slog_quote(when))
            }
        });
    };
    let words = |name| match annotation(&manifest, name) {
        Some(words) => words.split(',').map(|word| word.trim().to_lowercase().into()).collect(),
        None => Vec::new(),
    };
    ClassifiedDocument::Hook(Hook {
        name: manifest.header.name.clone(),
        kind: manifest.header.kind.clone(),
        events,
        weight: annotation(&manifest, WEIGHT_ANNOTATION).and_then(|weight| weight.parse().ok()).unwrap_or(0),
        delete_policies: words(DELETE_POLICY_ANNOTATION),
        output_log_policies: if profile == Profile::Helm4 {
            words(OUTPUT_LOG_POLICY_ANNOTATION)
        } else {
            Vec::new()
        },
        source: manifest.source,
        content: manifest.content,
    })
}

fn annotation<'m>(manifest: &'m Manifest, name: &str) -> Option<&'m str> {
    manifest.header.annotations.get(name).map(|value| &**value)
}

#[cfg(test)]
mod tests {
    use helm_template::yaml::read_header;

    use super::*;

    fn classify_to_text(annotations: &str, profile: Profile) -> String {
        let content = format!("kind: Job\nmetadata:\n  name: h\n  annotations: {{{annotations}}}\n");
        let head = read_header(content.as_bytes(), profile).unwrap();
        match classify(Manifest { source: "c/a.yaml".into(), content: content.into(), header: head }, profile)
        {
            ClassifiedDocument::Manifest(_) => "manifest".into(),
            ClassifiedDocument::UnknownHook(warning) => warning,
            ClassifiedDocument::Hook(hook) => format!(
                "{:?} {} {:?} {:?}",
                hook.events, hook.weight, hook.delete_policies, hook.output_log_policies
            ),
        }
    }

    /// Compared with Helm's own manifest sorter.
    #[test]
    fn classify_reads_hook_annotations() {
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
                assert_eq!(classify_to_text(annotations, profile), *want, "{annotations} {profile:?}");
            }
        }
    }

    #[test]
    fn output_log_policies_are_read_only_for_helm4() {
        let logs = "helm.sh/hook: test, helm.sh/hook-output-log-policy: 'hook-succeeded,HOOK-FAILED'";
        assert_eq!(classify_to_text(logs, Profile::Helm3), "[Test] 0 [] []");
        assert_eq!(
            classify_to_text(logs, Profile::Helm4),
            "[Test] 0 [] [\"hook-succeeded\", \"hook-failed\"]"
        );
    }

    #[test]
    fn unknown_event_is_skipped_with_warning() {
        const THREE: &str = "manifest_sorter.go:190: info: skipping unknown hook: ";
        const FOUR: &str = "level=INFO msg=\"skipping unknown hooks\" hookTypes=";
        for (when, three, four) in [
            ("''", "\"\"", "\"\""),
            ("crd-install", "\"crd-install\"", "crd-install"),
            ("'pre-install,'", "\"pre-install,\"", "pre-install,"),
            ("'pre-install,nope'", "\"pre-install,nope\"", "pre-install,nope"),
        ] {
            let annotations = format!("helm.sh/hook: {when}");
            assert_eq!(classify_to_text(&annotations, Profile::Helm3), format!("{THREE}{three}"));
            assert_eq!(classify_to_text(&annotations, Profile::Helm4), format!("{FOUR}{four}"));
        }
    }
}
