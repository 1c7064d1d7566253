//! From rendered files to manifests: split into documents, separated from hooks, sorted by installation order.

use bytes::Bytes;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml::{ManifestHeader, read_header};

use crate::hooks::{self, Hook};
use crate::render::RenderedFile;
use crate::scope::is_partial;
use crate::split::{split, trim};

/// A document that is not a hook.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The source file.
    pub source: Str,
    pub content: Bytes,
    pub header: ManifestHeader,
}

/// The documents of all files; manifests and hooks are each in installation order.
#[derive(Debug, Default)]
pub struct SortedManifests {
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<Hook>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Splits files into documents and classifies them.
pub fn sort_manifests(files: &[RenderedFile], profile: Profile) -> Result<SortedManifests, String> {
    let mut files: Vec<_> = files.iter().filter(|file| !is_partial(&file.name)).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sorted = SortedManifests::default();
    for file in files.into_iter().filter(|file| !trim(&file.content).is_empty()) {
        for content in split(&file.content, profile) {
            let head = read_header(&content, profile)
                .map_err(|why| format!("YAML parse error on {}: {why}", file.name))?;
            let manifest = Manifest { source: file.name.clone(), content, header: head };
            match hooks::classify(manifest, profile) {
                hooks::ClassifiedDocument::Manifest(manifest) => sorted.manifests.push(manifest),
                hooks::ClassifiedDocument::Hook(hook) => sorted.hooks.push(hook),
                hooks::ClassifiedDocument::UnknownHook(warning) => sorted.warnings.push(warning),
            }
        }
    }
    sorted
        .manifests
        .sort_by(|a, b| install_rank(&a.header.kind, profile).cmp(&install_rank(&b.header.kind, profile)));
    sorted.hooks.sort_by(|a, b| install_rank(&a.kind, profile).cmp(&install_rank(&b.kind, profile)));
    Ok(sorted)
}

/// Sort key of a kind: known kinds by position, unknown kinds after them by name.
fn install_rank(kind: &str, profile: Profile) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(at) if profile == Profile::Helm4 || at < FIRST_HELM4_KIND => (at, ""),
        _ => (usize::MAX, kind),
    }
}

/// Kinds in installation order.
const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The index of the first kind that only Helm 4 orders.
const FIRST_HELM4_KIND: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sorted documents as `source content`; hooks follow after a bar.
    fn sorted_to_text(files: &[(&str, &str)], profile: Profile) -> Result<String, String> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, content)| RenderedFile {
                name: (*name).into(),
                content: Bytes::copy_from_slice(content.as_bytes()),
            })
            .collect();
        let sorted = sort_manifests(&files, profile)?;
        let line = |source: &str, content: &Bytes| {
            format!("{source} {}", String::from_utf8_lossy(content).trim_end().replace('\n', "; "))
        };
        let manifests = sorted.manifests.iter().map(|manifest| line(&manifest.source, &manifest.content));
        let hooks = sorted.hooks.iter().map(|hook| format!("| {} {}", hook.kind, hook.weight));
        Ok(manifests.chain(hooks).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn manifests_sort_by_install_order_then_file_then_document() {
        let files = [
            ("c/b.yaml", "kind: Service\n---\nkind: ConfigMap\n"),
            ("c/a.yaml", "kind: Service\nx: 1\n---\nkind: Zed\n---\nkind: Alpha\n---\nkind: Namespace\n"),
            ("c/p.yaml", "kind: PriorityClass\n---\nkind: 1\n"),
        ];
        let want = "c/p.yaml kind: PriorityClass\nc/a.yaml kind: Namespace\nc/b.yaml kind: ConfigMap\n\
            c/a.yaml kind: Service; x: 1\nc/b.yaml kind: Service\nc/p.yaml kind: 1\nc/a.yaml kind: Alpha\n\
            c/a.yaml kind: Zed";
        for profile in [Profile::Helm3, Profile::Helm4] {
            assert_eq!(sorted_to_text(&files, profile).unwrap(), want);
        }
    }

    #[test]
    fn webhooks_are_ordered_only_for_helm4() {
        let files = [(
            "c/a.yaml",
            "kind: MutatingWebhookConfiguration\n---\nkind: Alpha\n---\nkind: ValidatingWebhookConfiguration\n---\n\
             kind: APIService\n",
        )];
        let kinds = |profile| sorted_to_text(&files, profile).unwrap().replace("c/a.yaml kind: ", "");
        let [three, four] = [Profile::Helm3, Profile::Helm4].map(kinds);
        assert_eq!(three, "APIService\nAlpha\nMutatingWebhookConfiguration\nValidatingWebhookConfiguration");
        assert_eq!(four, "APIService\nMutatingWebhookConfiguration\nValidatingWebhookConfiguration\nAlpha");
    }

    #[test]
    fn hooks_sort_by_kind_not_weight() {
        let hook = |kind, weight| {
            format!(
                "kind: {kind}\nmetadata:\n  annotations: {{helm.sh/hook: test, helm.sh/hook-weight: '{weight}'}}\n"
            )
        };
        let (a, b) = (
            hook("Secret", 0) + "---\n" + &hook("ConfigMap", 1),
            hook("Pod", 2) + "---\n" + &hook("Job", -1),
        );
        let files = [("c/b.yaml", b.as_str()), ("c/a.yaml", a.as_str())];
        for profile in [Profile::Helm3, Profile::Helm4] {
            assert_eq!(
                sorted_to_text(&files, profile).unwrap(),
                "| Secret 0\n| ConfigMap 1\n| Pod 2\n| Job -1"
            );
        }
    }

    #[test]
    fn partials_and_blank_files_are_skipped() {
        let files = [
            ("c/_a.yaml", "kind: Service\n"),
            ("c/d/_x.yaml", "kind: x\n"),
            ("c/b.yaml", " \n"),
            ("c/e.yaml", "# nothing\n"),
            ("c/f.yaml", "a: 1"),
        ];
        for profile in [Profile::Helm3, Profile::Helm4] {
            assert_eq!(sorted_to_text(&files, profile).unwrap(), "c/e.yaml # nothing\nc/f.yaml a: 1");
        }
    }

    #[test]
    fn invalid_manifests_are_rejected() {
        let why = |content, profile| sorted_to_text(&[("c/a.yaml", content)], profile).unwrap_err();
        for profile in [Profile::Helm3, Profile::Helm4] {
            assert_eq!(
                why("kind: [\n", profile),
                "YAML parse error on c/a.yaml: error converting YAML to JSON: yaml: line 1: did not find expected \
                 node content"
            );
        }
        let list = "YAML parse error on c/a.yaml: error unmarshaling JSON: while decoding JSON: json: cannot \
            unmarshal array into Go value of type ";
        assert_eq!(why("- 1\n", Profile::Helm3), format!("{list}releaseutil.SimpleHead"));
        assert_eq!(why("- 1\n", Profile::Helm4), format!("{list}util.SimpleHead"));
    }
}
