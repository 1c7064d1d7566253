//! The subsets of an `Endpoints` object: addresses and the ports they offer. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, Serialize};

use super::port_order;
use super::slice::{Port, TargetRef};

/// Maximum number of addresses of an `Endpoints` object.
pub const MAX_ADDRESSES: usize = 1000;

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Subset {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "named")]
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Address {
    pub ip: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// `Endpoints` omit the name of an unnamed port; in a slice it is empty.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Port>, D::Error> {
    let mut ports = Vec::<Port>::deserialize(deserializer)?;
    for port in &mut ports {
        port.name.get_or_insert_default();
    }
    Ok(ports)
}

/// Address and uid of its target: two pods may share the address of their node.
type AddressKey = (String, String);

fn address_key(address: &Address) -> AddressKey {
    (address.ip.clone(), address.target_ref.as_ref().map(|target| target.uid.clone()).unwrap_or_default())
}

/// Merges subsets into as few as possible, sorted. An address that is both ready and not ready for a port is not ready.
pub fn repack(subsets: Vec<Subset>) -> Vec<Subset> {
    let mut addresses: BTreeMap<AddressKey, Address> = BTreeMap::new();
    // For each port, or for none: its addresses, and whether each is ready.
    let mut offers: Vec<(Option<Port>, BTreeMap<AddressKey, bool>)> = Vec::new();
    let mut places: HashMap<Option<Port>, usize> = HashMap::new();
    for Subset { addresses: ready, not_ready_addresses, ports } in subsets {
        let ports: Vec<_> = if ports.is_empty() { vec![None] } else { ports.into_iter().map(Some).collect() };
        let ready = ready.into_iter().map(|address| (address, true));
        for (address, ready) in ready.chain(not_ready_addresses.into_iter().map(|address| (address, false))) {
            let identity = address_key(&address);
            for port in &ports {
                let at = *places.entry(port.clone()).or_insert_with(|| {
                    offers.push((port.clone(), BTreeMap::new()));
                    offers.len().saturating_sub(1)
                });
                let is_ready = offers[at].1.entry(identity.clone()).or_insert(ready);
                *is_ready &= ready;
            }
            addresses.entry(identity).or_insert(address);
        }
    }
    let mut by_offer: BTreeMap<Vec<(AddressKey, bool)>, Vec<Port>> = BTreeMap::new();
    for (port, who) in offers {
        by_offer.entry(who.into_iter().collect()).or_default().extend(port);
    }
    let subsets = by_offer.into_iter().map(|(who, mut ports)| {
        ports.sort_by_cached_key(port_order::endpoints_port_key);
        let of = |wanted: bool| {
            let chosen = who.iter().filter(|(_, ready)| *ready == wanted);
            chosen.filter_map(|(identity, _)| addresses.get(identity).cloned()).collect()
        };
        Subset { addresses: of(true), not_ready_addresses: of(false), ports }
    });
    subsets.collect()
}

/// Truncates to [`MAX_ADDRESSES`], not-ready addresses first, in proportion between subsets. Returns whether anything was removed.
pub fn truncate(subsets: &mut [Subset]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let waiting: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready.saturating_add(waiting) <= MAX_ADDRESSES {
        return false;
    }
    let (room, total) = if ready > MAX_ADDRESSES {
        (MAX_ADDRESSES, ready)
    } else {
        (MAX_ADDRESSES.saturating_sub(ready), waiting)
    };
    let mut left = room;
    for subset in subsets {
        let list = if ready > MAX_ADDRESSES {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.truncate(list.len().saturating_mul(room).div_ceil(total).min(left));
        left = left.saturating_sub(list.len());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str) -> Address {
        Address { ip: ip.to_owned(), ..Address::default() }
    }

    fn subset(ready: &[&str], waiting: &[&str], ports: &[i64]) -> Subset {
        let port = |port: &i64| Port { name: Some(String::new()), number: Some(*port), ..Port::default() };
        Subset {
            addresses: ready.iter().map(|ip| address(ip)).collect(),
            not_ready_addresses: waiting.iter().map(|ip| address(ip)).collect(),
            ports: ports.iter().map(port).collect(),
        }
    }

    #[test]
    fn ports_with_the_same_addresses_share_a_subset() {
        let packed = repack(vec![
            subset(&["10.0.0.2"], &[], &[80]),
            subset(&["10.0.0.1"], &[], &[80]),
            subset(&["10.0.0.1", "10.0.0.2"], &[], &[81]),
            subset(&["10.0.0.1"], &[], &[82]),
        ]);
        let drawn: Vec<_> = packed.iter().map(|s| (s.addresses.len(), s.ports.len())).collect();
        assert_eq!(drawn, [(1, 1), (2, 2)]);
        assert_eq!(packed[1].addresses[0].ip, "10.0.0.1");
    }

    #[test]
    fn repack_prefers_not_ready() {
        let packed = repack(vec![subset(&["10.0.0.1"], &[], &[80]), subset(&[], &["10.0.0.1"], &[80])]);
        assert_eq!(packed, [subset(&[], &["10.0.0.1"], &[80])]);
        assert_eq!(repack(vec![subset(&["10.0.0.1"], &[], &[])]), [subset(&["10.0.0.1"], &[], &[])]);
    }

    #[test]
    fn truncate_removes_not_ready_addresses_first() {
        let many = |from: usize, to: usize| -> Vec<Address> {
            (from..to).map(|n| address(&format!("10.0.{}.{}", n / 256, n % 256))).collect()
        };
        let mut subsets = [
            Subset { addresses: many(0, 900), not_ready_addresses: many(900, 1100), ports: Vec::new() },
            Subset { addresses: Vec::new(), not_ready_addresses: many(1100, 1200), ports: Vec::new() },
        ];
        assert!(truncate(&mut subsets));
        let lengths = subsets.each_ref().map(|s| (s.addresses.len(), s.not_ready_addresses.len()));
        assert_eq!(lengths, [(900, 67), (0, 33)]);
        assert!(!truncate(&mut subsets));
    }
}
