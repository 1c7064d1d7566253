//! Object counts: how many objects of each kind a namespace of a workspace may have.
//!
//! [`OBJECT_COUNT_LIMITS`] has a row for every kind that a workspace role may create, so that storage is bounded; a test derives the kinds
//! from the roles. The counts are a separate ResourceQuota in each namespace, in addition to the one with the namespace's share of the
//! workspace's quota. The counts omit resource names that the workspace's quota contains: so an administrator sets another limit.

use super::ResourceQuantities;

/// API group, resource, limit. Where Kubernetes has a plain name for a resource, `count/...` counts all objects and not only those
/// in use: `pods` excludes finished pods.
#[rustfmt::skip]
const OBJECT_COUNT_LIMITS: &[(&str, &str, u32)] = &[
    ("",                          "configmaps",               100),
    ("",                          "persistentvolumeclaims",   50),
    ("",                          "pods",                     250),
    ("",                          "replicationcontrollers",   50),
    ("",                          "secrets",                  200),
    ("",                          "serviceaccounts",          50),
    ("",                          "services",                 50),
    ("apps",                      "daemonsets",               20),
    ("apps",                      "deployments",              50),
    ("apps",                      "replicasets",              600),
    ("apps",                      "statefulsets",             50),
    ("autoscaling",               "horizontalpodautoscalers", 50),
    ("batch",                     "cronjobs",                 50),
    ("batch",                     "jobs",                     200),
    ("coordination.k8s.io",       "leases",                   100),
    ("longshore.dev",             "helmreleases",             100),
    ("networking.k8s.io",         "ingresses",                50),
    ("networking.k8s.io",         "networkpolicies",          50),
    ("policy",                    "poddisruptionbudgets",     50),
    ("rbac.authorization.k8s.io", "rolebindings",             60),
    ("rbac.authorization.k8s.io", "roles",                    50),
];

/// Kinds that roles may create and no quota counts: Kubernetes exempts Events from quotas and deletes them after an hour.
#[cfg(test)]
const UNCOUNTED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// The ResourceQuota's resource name for all objects of a kind.
fn count_resource_name(group: &str, resource: &str) -> String {
    if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") }
}

/// The counts of a namespace. `quota` is its workspace's quota.
pub(crate) fn count_limits(quota: &ResourceQuantities) -> ResourceQuantities {
    let rows = OBJECT_COUNT_LIMITS
        .iter()
        .map(|(group, resource, most)| (count_resource_name(group, resource), most.to_string()));
    rows.filter(|(word, _)| !quota.contains_key(word)).collect()
}

#[cfg(test)]
mod tests {
    use domain::roles::KUBERNETES_RULES;

    use super::*;

    #[test]
    fn every_kind_that_a_role_may_create_has_a_count() {
        for (_, group, resources, verbs) in KUBERNETES_RULES {
            for resource in resources.iter().filter(|resource| !resource.contains('/')) {
                let is_created = verbs.contains(&"create");
                let is_counted = OBJECT_COUNT_LIMITS.iter().any(|row| (row.0, row.1) == (*group, *resource));
                let is_exempt = UNCOUNTED.contains(&(*group, *resource));
                assert!(!is_created || is_counted != is_exempt, "{resource}.{group} has no count");
            }
        }
    }

    #[test]
    fn quota_of_a_workspace_replaces_a_count() {
        let quota = ResourceQuantities::from([("count/jobs.batch".to_owned(), "1000".to_owned())]);
        assert!(!count_limits(&quota).contains_key("count/jobs.batch"));
        assert_eq!(count_limits(&ResourceQuantities::new())["count/deployments.apps"], "50");
        assert_eq!(count_limits(&ResourceQuantities::new()).len(), OBJECT_COUNT_LIMITS.len());
    }
}
