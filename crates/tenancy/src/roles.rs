//! The curated ClusterRoles `longshore-ws-<role>`: what a role may do in each namespace of its workspace.

use domain::roles::{KubernetesRow, WorkspaceRole};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::core::ObjectMeta;
use kube_types::FIELD_MANAGER;
use kube_types::marks::MANAGED_BY;

/// One ClusterRole for each workspace role, in the order of the roles.
pub fn curated() -> Vec<ClusterRole> {
    WorkspaceRole::ALL.iter().map(|role| of(*role)).collect()
}

fn of(role: WorkspaceRole) -> ClusterRole {
    let metadata = ObjectMeta {
        name: Some(role.cluster_role()),
        labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    ClusterRole { metadata, rules: Some(role.kubernetes().map(rule).collect()), aggregation_rule: None }
}

fn rule((_, group, resources, verbs): &KubernetesRow) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_a_cluster_role_that_nothing_is_added_to() {
        let roles = curated();
        assert_eq!(roles.len(), WorkspaceRole::ALL.len());
        for (role, is) in WorkspaceRole::ALL.iter().zip(&roles) {
            assert_eq!(is.metadata.name, Some(format!("longshore-ws-{role}")));
            // An aggregated role would grow by any ClusterRole with a matching label.
            assert_eq!(is.aggregation_rule, None);
            assert_eq!(is.rules.as_ref().map(Vec::len), Some(role.kubernetes().count()));
        }
    }
}
