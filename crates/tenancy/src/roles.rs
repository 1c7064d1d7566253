//! The curated ClusterRoles `longshore-ws-<role>`: the permissions of a role in each namespace of its workspace.

use domain::roles::{KubernetesRuleRow, WorkspaceRole};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::core::ObjectMeta;
use kube_types::FIELD_MANAGER;
use kube_types::well_known::MANAGED_BY;

/// One ClusterRole for each workspace role, in the order of the roles.
pub fn workspace_cluster_roles() -> Vec<ClusterRole> {
    WorkspaceRole::ALL.iter().map(|role| cluster_role(*role)).collect()
}

fn cluster_role(role: WorkspaceRole) -> ClusterRole {
    let metadata = ObjectMeta {
        name: Some(role.cluster_role()),
        labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    ClusterRole { metadata, rules: Some(role.kubernetes_rules().map(rule).collect()), aggregation_rule: None }
}

fn rule((_, group, resources, verbs): &KubernetesRuleRow) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(to_strings(resources)),
        verbs: to_strings(verbs),
        ..PolicyRule::default()
    }
}

pub(crate) fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_roles_are_cluster_roles_without_aggregation() {
        let roles = workspace_cluster_roles();
        assert_eq!(roles.len(), WorkspaceRole::ALL.len());
        for (role, is) in WorkspaceRole::ALL.iter().zip(&roles) {
            assert_eq!(is.metadata.name, Some(format!("longshore-ws-{role}")));
            // An aggregated role would grow by any ClusterRole with a matching label.
            assert_eq!(is.aggregation_rule, None);
            assert_eq!(is.rules.as_ref().map(Vec::len), Some(role.kubernetes_rules().count()));
        }
    }
}
