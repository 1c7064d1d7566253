//! Resource lists (`cpu: 500m, memory: 1Gi`) and the sum over a pod.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::workload::{array_field, str_field};
use crate::quantity::{Format, Quantity};

pub type ResourceList = BTreeMap<String, Quantity>;

/// Reads a resource list.
pub fn parse(list: &Value) -> ResourceList {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_value(amount)?))).collect()
}

/// Writes a resource list with canonical quantities.
pub fn to_json(list: &ResourceList) -> Value {
    let entries = list.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect::<Map<_, _>>())
}

pub fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        match list.entry(name.clone()) {
            Entry::Occupied(mut found) => *found.get_mut() = found.get().add(amount),
            Entry::Vacant(place) => {
                place.insert(amount.clone());
            }
        }
    }
}

/// Multiplies a list. Zero gives an empty list.
#[must_use]
pub fn times(list: &ResourceList, count: u64) -> ResourceList {
    if count == 0 {
        return ResourceList::new();
    }
    list.iter().map(|(name, amount)| (name.clone(), amount.times(count))).collect()
}

pub fn merge_max(list: &mut ResourceList, minimum: &ResourceList) {
    for (name, amount) in minimum {
        if list.get(name).is_none_or(|found| found < amount) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// A count as a quantity.
pub fn count_quantity(number: u64) -> Quantity {
    Quantity::from_units(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi)
}

/// Requests or limits of a container's `resources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceField {
    Requests,
    Limits,
}

impl ResourceField {
    pub fn key(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Effective resources of a pod, as in Kubernetes: the larger of the sum of containers and sidecars, and the largest
/// init container with the sidecars started before it. Pod-level resources replace that.
pub fn for_pod(pod: &Value, side: ResourceField) -> ResourceList {
    for_pod_by(pod, |resources| parse(&resources[side.key()]), side)
}

/// Effective resources of a pod made from a template: [`for_pod`] plus the overhead of its runtime class. A missing
/// request defaults to the limit, as the API server does at creation of the pod.
pub fn for_template(template: &Value, side: ResourceField) -> ResourceList {
    let of = |resources: &Value| {
        let mut list = parse(&resources[side.key()]);
        if side == ResourceField::Requests {
            for (name, limit) in parse(&resources["limits"]) {
                list.entry(name).or_insert(limit);
            }
        }
        list
    };
    with_overhead(for_pod_by(template, of, side), &template["spec"]["overhead"], side)
}

/// [`for_pod`] plus the overhead of its runtime class, which counts in quota.
pub fn for_pod_with_overhead(pod: &Value, side: ResourceField) -> ResourceList {
    with_overhead(for_pod(pod, side), &pod["spec"]["overhead"], side)
}

/// Effective resources by the `resources` of each container, of each init container with whether it is a sidecar, and
/// of the pod.
pub fn for_containers<'a>(
    containers: impl Iterator<Item = &'a Value>,
    init_containers: impl Iterator<Item = (&'a Value, bool)>,
    whole: &Value,
    side: ResourceField,
) -> ResourceList {
    sum_containers(containers, init_containers, whole, &|resources| parse(&resources[side.key()]), side)
}

fn for_pod_by(pod: &Value, of: impl Fn(&Value) -> ResourceList, side: ResourceField) -> ResourceList {
    let spec = &pod["spec"];
    let containers = array_field(spec, "containers").iter().map(|container| &container["resources"]);
    let initial = array_field(spec, "initContainers").iter();
    let initial =
        initial.map(|container| (&container["resources"], str_field(container, "restartPolicy") == "Always"));
    sum_containers(containers, initial, &spec["resources"], &of, side)
}

fn sum_containers<'a>(
    containers: impl Iterator<Item = &'a Value>,
    init_containers: impl Iterator<Item = (&'a Value, bool)>,
    whole: &Value,
    of: &dyn Fn(&Value) -> ResourceList,
    side: ResourceField,
) -> ResourceList {
    let mut total = ResourceList::new();
    for container in containers {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut initial) = (ResourceList::new(), ResourceList::new());
    for (container, is_sidecar) in init_containers {
        let mut needed = of(container);
        if is_sidecar {
            add(&mut total, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        merge_max(&mut initial, &needed);
    }
    merge_max(&mut total, &initial);
    for (name, amount) in parse(&whole[side.key()]) {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            total.insert(name, amount);
        }
    }
    total
}

/// Adds the pod overhead to requests, and to limits that are set.
fn with_overhead(mut total: ResourceList, overhead: &Value, side: ResourceField) -> ResourceList {
    let overhead = parse(overhead);
    match side {
        ResourceField::Requests => add(&mut total, &overhead),
        ResourceField::Limits => {
            for (name, amount) in &overhead {
                if let Some(found) = total.get_mut(name)
                    && !found.is_zero()
                {
                    *found = found.add(amount);
                }
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_resources_are_the_larger_of_containers_and_init_containers() {
        let container = |cpu: &str, policy: &str| {
            let mut container = json!({"resources": {"requests": {"cpu": cpu}}});
            if !policy.is_empty() {
                container["restartPolicy"] = policy.into();
            }
            container
        };
        let table = [
            (vec!["100m", "200m"], vec![], json!({}), "300m"),
            (vec!["100m"], vec![("2", "")], json!({}), "2"),
            (vec!["100m"], vec![("1", "Always"), ("2", "")], json!({}), "3"),
            (vec!["100m"], vec![("2", ""), ("1", "Always")], json!({}), "2"),
            (vec!["5"], vec![("1", "Always"), ("2", "")], json!({}), "6"),
            (vec!["100m"], vec![], json!({"requests": {"cpu": "4"}}), "4"),
            (vec!["nonsense"], vec![("1", "")], json!({}), "1"),
        ];
        for (containers, initial, whole, expected) in table {
            let pod = json!({"spec": {
                "containers": containers.iter().map(|cpu| container(cpu, "")).collect::<Vec<_>>(),
                "initContainers": initial.iter().map(|(cpu, policy)| container(cpu, policy)).collect::<Vec<_>>(),
                "resources": whole, "overhead": {"cpu": "1m"},
            }});
            assert_eq!(for_pod(&pod, ResourceField::Requests)["cpu"].to_string(), expected);
        }
    }

    #[test]
    fn template_requests_default_to_limits_and_include_overhead() {
        let template = json!({"spec": {
            "containers": [
                {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
                {"resources": {"limits": {"memory": "1Gi"}}},
            ],
            "overhead": {"cpu": "10m", "memory": "1Mi", "ephemeral-storage": "1Gi"},
        }});
        let requests = json!({"cpu": "110m", "memory": "2049Mi", "ephemeral-storage": "1Gi"});
        assert_eq!(to_json(&for_template(&template, ResourceField::Requests)), requests);
        // A limit that is not set stays unset.
        assert_eq!(
            to_json(&for_template(&template, ResourceField::Limits)),
            json!({"cpu": "1010m", "memory": "2049Mi"})
        );
        assert_eq!(to_json(&for_pod(&template, ResourceField::Requests)), json!({"cpu": "100m"}));
    }
}
