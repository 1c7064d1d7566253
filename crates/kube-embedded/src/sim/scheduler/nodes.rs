//! Filters on a node alone: node affinity, node name, taints. Pure: no I/O, no clock.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::items;
use crate::control::view::{Node, PodSpec, Taint};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Limits for the terms of a pod's node affinity, for its expressions and values together, and for its tolerations: they are evaluated
/// for every node on each change. Kubernetes has no such limits.
const MAX_TERMS: usize = 100;
const MAX_VALUES: usize = 5_000;
const MAX_TOLERATIONS: usize = 100;

/// Returns why a pod is not scheduled: its node affinity or its tolerations exceed the limits.
///
/// The cost of this check is bounded by the limits, not by the size of the pod.
pub(super) fn complexity_error(spec: &PodSpec) -> Option<String> {
    let tolerations = spec.tolerations.len();
    if tolerations > MAX_TOLERATIONS {
        return Some(format!("the pod has {tolerations} tolerations (limit {MAX_TOLERATIONS}); use fewer"));
    }
    let required = required(spec).map(|selector| items(selector, "nodeSelectorTerms")).unwrap_or_default();
    let preferred = items(&spec.affinity["nodeAffinity"], "preferredDuringSchedulingIgnoredDuringExecution");
    let count = required.len().saturating_add(preferred.len());
    if count > MAX_TERMS {
        return Some(format!("the pod has {count} node affinity terms (limit {MAX_TERMS}); use fewer"));
    }
    let terms = required.iter().chain(preferred.iter().map(|term| &term["preference"]));
    let lists = terms.flat_map(|term| [items(term, "matchExpressions"), items(term, "matchFields")]);
    let mut values = 0_usize;
    for list in lists {
        values = values.saturating_add(list.len());
        let of_list = list.iter().take(MAX_VALUES).map(|requirement| items(requirement, "values").len());
        values = of_list.fold(values, usize::saturating_add);
        if values > MAX_VALUES {
            return Some(format!(
                "the pod has more than {MAX_VALUES} expressions and values in its node affinity; use fewer"
            ));
        }
    }
    None
}

/// Whether a pod's node selector and required node affinity match the node. A pod with a [`complexity_error`]
/// matches no node.
pub(crate) fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    if complexity_error(spec).is_some() {
        return false;
    }
    let label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
    let by_selector = spec.node_selector.iter().all(|(key, value)| label(key) == Some(value));
    by_selector && required(spec).is_none_or(|terms| matches_terms(terms, node))
}

fn required(spec: &PodSpec) -> Option<&Value> {
    let required = &spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    (!required.is_null()).then_some(required)
}

/// Whether one of the terms of a node selector matches.
pub(crate) fn matches_terms(selector: &Value, node: &Node) -> bool {
    items(selector, "nodeSelectorTerms").iter().any(|term| matches_term(term, node))
}

/// Whether all requirements of a term match; an empty term matches nothing.
fn matches_term(term: &Value, node: &Node) -> bool {
    let (labels, fields) = (items(term, "matchExpressions"), items(term, "matchFields"));
    let of_label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
    let of_field = |key: &str| (key == "metadata.name").then_some(node.metadata.name.as_str());
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|requirement| matches_requirement(requirement, of_label))
        && fields.iter().all(|requirement| matches_requirement(requirement, of_field))
}

fn matches_requirement<'n>(requirement: &Value, lookup: impl Fn(&str) -> Option<&'n str>) -> bool {
    let found = lookup(requirement["key"].as_str().unwrap_or_default());
    let values = items(requirement, "values");
    let listed = |found: &str| values.iter().any(|value| value == found);
    let compares = |right: fn(&i64, &i64) -> bool| {
        let limit = values.first().and_then(Value::as_str).and_then(|limit| limit.parse::<i64>().ok());
        found.and_then(|found| found.parse().ok()).zip(limit).is_some_and(|(a, b)| right(&a, &b))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => found.is_some_and(listed),
        "NotIn" => !found.is_some_and(listed),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compares(i64::gt),
        "Lt" => compares(i64::lt),
        _ => false,
    }
}

/// Returns the nodes that every term names by `metadata.name`, if so; a pod of a `DaemonSet` names one.
pub(super) fn named_nodes(spec: &PodSpec) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let terms = items(required(spec)?, "nodeSelectorTerms");
    for term in terms {
        let fields = items(term, "matchFields").iter();
        let mut of_term: Option<BTreeSet<String>> = None;
        for field in fields.filter(|field| field["key"] == "metadata.name" && field["operator"] == "In") {
            let values = items(field, "values").iter().filter_map(Value::as_str);
            let values: BTreeSet<String> = values.map(str::to_owned).collect();
            of_term = Some(of_term.map_or(values.clone(), |known| &known & &values));
        }
        names.extend(of_term?);
    }
    (!terms.is_empty()).then_some(names)
}

/// The sum of the weights of the preferred terms that match the node.
pub(super) fn preference_score(spec: &PodSpec, node: &Node) -> i64 {
    let preferred = items(&spec.affinity["nodeAffinity"], "preferredDuringSchedulingIgnoredDuringExecution");
    let met = preferred.iter().filter(|term| matches_term(&term["preference"], node));
    met.filter_map(|term| term["weight"].as_i64()).sum()
}

/// Returns the taints of a node with one of these effects that a pod does not tolerate.
pub(crate) fn untolerated<'n>(spec: &PodSpec, node: &'n Node, effects: &[&str]) -> Vec<&'n Taint> {
    let repels = |taint: &&Taint| {
        effects.contains(&taint.effect.as_str())
            && !spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    };
    node.spec.taints.iter().filter(repels).collect()
}

/// Whether the node is cordoned and the pod does not tolerate that.
pub(super) fn is_cordoned(spec: &PodSpec, node: &Node) -> bool {
    let taint = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    node.spec.unschedulable && !spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"zone": "a", "size": "7"}},
            "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        }))
        .unwrap()
    }

    fn spec(spec: Value) -> PodSpec {
        serde_json::from_value(spec).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is passed is written in place")]
    fn affinity(terms: Value) -> PodSpec {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        spec(json!({"affinity": {"nodeAffinity": required}}))
    }

    #[test]
    fn nodes_are_chosen_by_labels_and_names() {
        let rule = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let table = [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{}, {"matchExpressions": [rule("zone", "In", json!(["a"]))]}]), true),
            (
                json!([{"matchExpressions": [rule("zone", "In", json!(["a"])), rule("zone", "NotIn", json!(["a"]))]}]),
                false,
            ),
            (json!([{"matchExpressions": [rule("other", "NotIn", json!(["a"]))]}]), true),
            (json!([{"matchExpressions": [rule("size", "Gt", json!(["6"]))]}]), true),
            (json!([{"matchExpressions": [rule("size", "Lt", json!(["6"]))]}]), false),
            (json!([{"matchExpressions": [rule("zone", "Gt", json!(["6"]))]}]), false),
            (
                json!([{"matchExpressions": [rule("zone", "Exists", json!([])), rule("x", "DoesNotExist", json!([]))]}]),
                true,
            ),
            (json!([{"matchFields": [rule("metadata.name", "In", json!(["n"]))]}]), true),
            (json!([{"matchFields": [rule("metadata.name", "NotIn", json!(["n"]))]}]), false),
        ];
        for (terms, chosen) in table {
            assert_eq!(is_selected(&affinity(terms.clone()), &node()), chosen, "{terms}");
        }
        assert!(is_selected(&spec(json!({"nodeSelector": {"zone": "a"}})), &node()));
        assert!(!is_selected(&spec(json!({"nodeSelector": {"zone": "b"}})), &node()));
        let named_by =
            |terms: Value| named_nodes(&affinity(terms)).map(|names| names.into_iter().collect::<Vec<_>>());
        let field = |name: &str| json!({"matchFields": [rule("metadata.name", "In", json!([name]))]});
        assert_eq!(named_by(json!([field("a"), field("b")])), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(
            named_by(json!([field("a"), {"matchExpressions": [rule("zone", "Exists", json!([]))]}])),
            None
        );
        assert_eq!(named_nodes(&spec(json!({}))), None);
    }

    #[test]
    fn untolerated_taints_repel_pods() {
        let repelled = |tolerations: Value| {
            let spec = spec(json!({"tolerations": tolerations}));
            (untolerated(&spec, &node(), &["NoSchedule"]).len(), is_cordoned(&spec, &node()))
        };
        assert_eq!(repelled(json!([])), (1, true));
        assert_eq!(repelled(json!([{"operator": "Exists"}])), (0, false));
        assert_eq!(repelled(json!([{"key": "k", "value": "v", "effect": "NoSchedule"}])), (0, true));
        assert_eq!(
            repelled(json!([{"key": "k", "value": "w"}, {"key": "k", "value": "v", "effect": "NoExecute"}])),
            (1, true)
        );
    }
}
