//! Resource lists (`cpu: 500m, memory: 1Gi`) and the sum over a pod.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::workload::{items, text};
use crate::quantity::{Format, Quantity};

pub type Amounts = BTreeMap<String, Quantity>;

/// Reads a resource list.
pub fn read(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::of(amount)?))).collect()
}

/// Writes a resource list with canonical quantities.
pub fn write(list: &Amounts) -> Value {
    let entries = list.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect::<Map<_, _>>())
}

pub fn add(list: &mut Amounts, more: &Amounts) {
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
pub fn times(list: &Amounts, count: u64) -> Amounts {
    if count == 0 {
        return Amounts::new();
    }
    list.iter().map(|(name, amount)| (name.clone(), amount.times(count))).collect()
}

pub fn raise_to(list: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if list.get(name).is_none_or(|found| found < amount) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// A count as a quantity.
pub fn count(number: u64) -> Quantity {
    Quantity::from_units(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi)
}

/// Requests or limits of a container's `resources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Requests,
    Limits,
}

impl Side {
    pub fn key(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Effective resources of a pod, as in Kubernetes: the larger of the sum of containers and sidecars, and the largest
/// init container with the sidecars started before it. Pod-level resources replace that.
pub fn of_pod(pod: &Value, side: Side) -> Amounts {
    of_pod_by(pod, |resources| read(&resources[side.key()]), side)
}

/// Effective resources of a pod made from a template: [`of_pod`] plus the overhead of its runtime class. A missing
/// request defaults to the limit, as the API server does at creation of the pod.
pub fn of_template(template: &Value, side: Side) -> Amounts {
    let of = |resources: &Value| {
        let mut list = read(&resources[side.key()]);
        if side == Side::Requests {
            for (name, limit) in read(&resources["limits"]) {
                list.entry(name).or_insert(limit);
            }
        }
        list
    };
    with_overhead(of_pod_by(template, of, side), &template["spec"]["overhead"], side)
}

/// [`of_pod`] plus the overhead of its runtime class, which counts in quota.
pub fn of_pod_with_overhead(pod: &Value, side: Side) -> Amounts {
    with_overhead(of_pod(pod, side), &pod["spec"]["overhead"], side)
}

/// Effective resources by the `resources` of each container, of each init container with whether it is a sidecar, and
/// of the pod.
pub fn of_containers<'a>(
    containers: impl Iterator<Item = &'a Value>,
    init_containers: impl Iterator<Item = (&'a Value, bool)>,
    whole: &Value,
    side: Side,
) -> Amounts {
    sum(containers, init_containers, whole, &|resources| read(&resources[side.key()]), side)
}

fn of_pod_by(pod: &Value, of: impl Fn(&Value) -> Amounts, side: Side) -> Amounts {
    let spec = &pod["spec"];
    let containers = items(spec, "containers").iter().map(|container| &container["resources"]);
    let initial = items(spec, "initContainers").iter();
    let initial =
        initial.map(|container| (&container["resources"], text(container, "restartPolicy") == "Always"));
    sum(containers, initial, &spec["resources"], &of, side)
}

fn sum<'a>(
    containers: impl Iterator<Item = &'a Value>,
    init_containers: impl Iterator<Item = (&'a Value, bool)>,
    whole: &Value,
    of: &dyn Fn(&Value) -> Amounts,
    side: Side,
) -> Amounts {
    let mut total = Amounts::new();
    for container in containers {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut initial) = (Amounts::new(), Amounts::new());
    for (container, is_sidecar) in init_containers {
        let mut needed = of(container);
        if is_sidecar {
            add(&mut total, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise_to(&mut initial, &needed);
    }
    raise_to(&mut total, &initial);
    for (name, amount) in read(&whole[side.key()]) {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            total.insert(name, amount);
        }
    }
    total
}

/// Adds the pod overhead to requests, and to limits that are set.
fn with_overhead(mut total: Amounts, overhead: &Value, side: Side) -> Amounts {
    let overhead = read(overhead);
    match side {
        Side::Requests => add(&mut total, &overhead),
        Side::Limits => {
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
    fn a_pod_needs_its_containers_or_its_largest_start() {
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
            assert_eq!(of_pod(&pod, Side::Requests)["cpu"].to_string(), expected);
        }
    }

    #[test]
    fn a_template_asks_for_its_limits_where_it_says_no_request_and_for_overhead() {
        let template = json!({"spec": {
            "containers": [
                {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
                {"resources": {"limits": {"memory": "1Gi"}}},
            ],
            "overhead": {"cpu": "10m", "memory": "1Mi", "ephemeral-storage": "1Gi"},
        }});
        let requests = json!({"cpu": "110m", "memory": "2049Mi", "ephemeral-storage": "1Gi"});
        assert_eq!(write(&of_template(&template, Side::Requests)), requests);
        // A limit that is not set stays unset.
        assert_eq!(write(&of_template(&template, Side::Limits)), json!({"cpu": "1010m", "memory": "2049Mi"}));
        assert_eq!(write(&of_pod(&template, Side::Requests)), json!({"cpu": "100m"}));
    }
}
