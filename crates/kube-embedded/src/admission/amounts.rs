//! Lists of amounts (`cpu: 500m, memory: 1Gi`), and what a whole pod asks for.
//!
//! Limits and quota count with these. What cannot be read as an amount counts as absent: validation of
//! the object speaks about it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use crate::access::{items, text};
use crate::quantity::Quantity;

pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// A resource list of an object.
pub(crate) fn read(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), parse(amount)?))).collect()
}

pub(crate) fn parse(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// As an object of canonical texts.
pub(crate) fn write(list: &Amounts) -> Value {
    Value::Object(
        list.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect::<Map<_, _>>(),
    )
}

pub(crate) fn add(list: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match list.entry(name.clone()) {
            Entry::Occupied(mut found) => *found.get_mut() = found.get().add(amount),
            Entry::Vacant(place) => {
                place.insert(amount.clone());
            }
        }
    }
}

fn raise_to(list: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if list.get(name).is_none_or(|found| found < amount) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// Which half of a container's `resources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Requests,
    Limits,
}

impl Side {
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// What a pod asks for: its containers and sidecars together, or the largest init container with the sidecars
/// started before it, whichever is more; what is set for the whole pod replaces that.
pub(crate) fn of_pod(pod: &Value, side: Side) -> Amounts {
    let spec = &pod["spec"];
    let containers = items(spec, "containers").iter().map(|container| &container["resources"]);
    let initial = items(spec, "initContainers").iter();
    let initial =
        initial.map(|container| (&container["resources"], text(container, "restartPolicy") == "Always"));
    of_containers(containers, initial, &spec["resources"], side)
}

/// The same by the `resources` of each container, of each init container and whether it is a sidecar, and of the whole pod.
pub(crate) fn of_containers<'a>(
    containers: impl Iterator<Item = &'a Value>,
    init_containers: impl Iterator<Item = (&'a Value, bool)>,
    whole: &Value,
    side: Side,
) -> Amounts {
    let of = |resources: &Value| read(&resources[side.key()]);
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

/// As [`of_pod`], with the overhead of its runtime class, which counts in quota.
pub(crate) fn of_pod_with_overhead(pod: &Value, side: Side) -> Amounts {
    let mut total = of_pod(pod, side);
    let overhead = read(&pod["spec"]["overhead"]);
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
            (vec!["5"], vec![("1", "Always"), ("2", "")], json!({}), "6"),
            (vec!["100m"], vec![], json!({"requests": {"cpu": "4"}}), "4"),
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
}
