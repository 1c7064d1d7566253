//! From rendered files to manifests: split into documents, separated from hooks, sorted by installation order.

use bytes::Bytes;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml::{Head, head};

use crate::hooks::{self, Hook};
use crate::render::Rendered;
use crate::scope::is_partial;
use crate::split::{split, trim};

/// A document that is not a hook.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The source file.
    pub source: Str,
    pub content: Bytes,
    pub head: Head,
}

/// The documents of all files; manifests and hooks are each in installation order.
#[derive(Debug, Default)]
pub struct Sorted {
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<Hook>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Splits files into documents and classifies them.
pub fn sort(files: &[Rendered], profile: Profile) -> Result<Sorted, String> {
    let mut files: Vec<_> = files.iter().filter(|file| !is_partial(&file.name)).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sorted = Sorted::default();
    for file in files.into_iter().filter(|file| !trim(&file.content).is_empty()) {
        for content in split(&file.content, profile) {
            let head =
                head(&content, profile).map_err(|why| format!("YAML parse error on {}: {why}", file.name))?;
            let manifest = Manifest { source: file.name.clone(), content, head };
            match hooks::of(manifest, profile) {
                hooks::Found::Manifest(manifest) => sorted.manifests.push(manifest),
                hooks::Found::Hook(hook) => sorted.hooks.push(hook),
                hooks::Found::Unknown(warning) => sorted.warnings.push(warning),
            }
        }
    }
    sorted.manifests.sort_by(|a, b| rank(&a.head.kind, profile).cmp(&rank(&b.head.kind, profile)));
    sorted.hooks.sort_by(|a, b| rank(&a.kind, profile).cmp(&rank(&b.kind, profile)));
    Ok(sorted)
}

/// Sort key of a kind: known kinds by position, unknown kinds after them by name.
fn rank(kind: &str, profile: Profile) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(at) if profile == Profile::Helm4 || at < WITH_HELM4 => (at, ""),
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
const WITH_HELM4: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sorted documents as `source content`; hooks follow after a bar.
    fn sorted(files: &[(&str, &str)], profile: Profile) -> Result<String, String> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, content)| Rendered {
                name: (*name).into(),
                content: Bytes::copy_from_slice(content.as_bytes()),
            })
            .collect();
        let sorted = sort(&files, profile)?;
        let line = |source: &str, content: &Bytes| {
            format!("{source} {}", String::from_utf8_lossy(content).trim_end().replace('\n', "; "))
        };
        let manifests = sorted.manifests.iter().map(|manifest| line(&manifest.source, &manifest.content));
        let hooks = sorted.hooks.iter().map(|hook| format!("| {} {}", hook.kind, hook.weight));
        Ok(manifests.chain(hooks).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn the_order_of_installation_then_of_files_then_of_documents() {
        let files = [
            ("c/b.yaml", "kind: Service\n---\nkind: ConfigMap\n"),
            ("c/a.yaml", "kind: Service\nx: 1\n---\nkind: Zed\n---\nkind: Alpha\n---\nkind: Namespace\n"),
            ("c/p.yaml", "kind: PriorityClass\n---\nkind: 1\n"),
        ];
        let want = "c/p.yaml kind: PriorityClass\nc/a.yaml kind: Namespace\nc/b.yaml kind: ConfigMap\n\
            c/a.yaml kind: Service; x: 1\nc/b.yaml kind: Service\nc/p.yaml kind: 1\nc/a.yaml kind: Alpha\n\
            c/a.yaml kind: Zed";
        for profile in [Profile::Helm3, Profile::Helm4] {
            assert_eq!(sorted(&files, profile).unwrap(), want);
        }
    }

    #[test]
    fn only_helm_4_knows_where_webhooks_belong() {
        let files = [(
            "c/a.yaml",
            "kind: MutatingWebhookConfiguration\n---\nkind: Alpha\n---\nkind: ValidatingWebhookConfiguration\n---\n\
             kind: APIService\n",
        )];
        let kinds = |profile| sorted(&files, profile).unwrap().replace("c/a.yaml kind: ", "");
        let [three, four] = [Profile::Helm3, Profile::Helm4].map(kinds);
        assert_eq!(three, "APIService\nAlpha\nMutatingWebhookConfiguration\nValidatingWebhookConfiguration");
        assert_eq!(four, "APIService\nMutatingWebhookConfiguration\nValidatingWebhookConfiguration\nAlpha");
    }

    #[test]
    fn hooks_go_by_kind_and_not_by_weight() {
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
            assert_eq!(sorted(&files, profile).unwrap(), "| Secret 0\n| ConfigMap 1\n| Pod 2\n| Job -1");
        }
    }

    #[test]
    fn partials_and_blank_files_are_none() {
        let files = [
            ("c/_a.yaml", "kind: Service\n"),
            ("c/d/_x.yaml", "kind: x\n"),
            ("c/b.yaml", " \n"),
            ("c/e.yaml", "# nothing\n"),
            ("c/f.yaml", "a: 1"),
        ];
        for profile in [Profile::Helm3, Profile::Helm4] {
            assert_eq!(sorted(&files, profile).unwrap(), "c/e.yaml # nothing\nc/f.yaml a: 1");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let why = |content, profile| sorted(&[("c/a.yaml", content)], profile).unwrap_err();
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
