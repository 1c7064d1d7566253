//! Pod addresses: each node assigns them from its pod CIDR.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use crate::control::view::Pod;
use crate::store::Key;

#[derive(Debug, Default)]
pub(super) struct PodAddresses {
    nodes: HashMap<String, AssignedAddresses>,
    /// The node and the address of each pod.
    pods: HashMap<Key, (String, u32)>,
}

#[derive(Debug, Default)]
struct AssignedAddresses {
    assigned: BTreeMap<u32, Key>,
    /// The last assigned address. The search for a free one begins after it, so that a released address is not reused at once.
    last: u32,
}

/// Returns the first and last address of a CIDR that pods can have.
fn address_bounds(range: &str) -> Option<(u32, u32)> {
    let (base, bits) = range.split_once('/')?;
    let base = u32::from(base.parse::<Ipv4Addr>().ok()?);
    let bits = bits.parse::<u32>().ok().filter(|bits| (1..=30).contains(bits))?;
    let size = 1_u32 << (32 - bits);
    let base = base & !(size - 1);
    // The first address is the node's own.
    Some((base + 2, base + size - 2))
}

impl PodAddresses {
    /// Records the address of a stored pod.
    pub fn record(&mut self, key: &Key, pod: &Pod) {
        let address = pod.status.pod_ip.parse::<Ipv4Addr>().ok().filter(|_| !pod.spec.host_network);
        match address {
            Some(address) if !pod.is_finished() => self.assign(key, &pod.spec.node_name, u32::from(address)),
            // A pod whose address was assigned but is not in the stored status yet keeps it.
            None if pod.is_active() => {}
            _ => self.release(key),
        }
    }

    /// Releases the addresses of pods that no longer exist.
    pub fn retain(&mut self, exists: impl Fn(&Key) -> bool) {
        let gone: Vec<Key> = self.pods.keys().filter(|key| !exists(key)).cloned().collect();
        for key in &gone {
            self.release(key);
        }
    }

    pub fn release(&mut self, key: &Key) {
        if let Some((node, address)) = self.pods.remove(key)
            && let Some(given) = self.nodes.get_mut(&node)
        {
            given.assigned.remove(&address);
        }
    }

    fn assign(&mut self, key: &Key, node: &str, address: u32) {
        if self.pods.get(key).is_some_and(|(at, known)| at == node && *known == address) {
            return;
        }
        self.release(key);
        let given = self.nodes.entry(node.to_owned()).or_default();
        given.assigned.insert(address, key.clone());
        given.last = given.last.max(address);
        self.pods.insert(key.clone(), (node.to_owned(), address));
    }

    /// Returns an address for a pod, the same one if the pod has one already; `None` when the range is exhausted.
    pub fn allocate(&mut self, key: &Key, node: &str, range: &str) -> Option<Ipv4Addr> {
        if let Some((at, address)) = self.pods.get(key)
            && at == node
        {
            return Some(Ipv4Addr::from(*address));
        }
        let (first, last) = address_bounds(range)?;
        let given = self.nodes.entry(node.to_owned()).or_default();
        let from = if (first..last).contains(&given.last) { given.last + 1 } else { first };
        let free = (from..=last).chain(first..from).find(|address| !given.assigned.contains_key(address))?;
        given.last = free;
        given.assigned.insert(free, key.clone());
        self.pods.insert(key.clone(), (node.to_owned(), free));
        Some(Ipv4Addr::from(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_addresses_are_unique_and_not_reused_at_once() {
        let key = |name: &str| Key::new(&"pods".into(), "n", name);
        let mut addresses = PodAddresses::default();
        let give = |addresses: &mut PodAddresses, name: &str| {
            addresses.allocate(&key(name), "node", "10.0.0.8/29").map(|address| address.octets()[3])
        };
        assert_eq!((give(&mut addresses, "a"), give(&mut addresses, "b")), (Some(10), Some(11)));
        assert_eq!(give(&mut addresses, "a"), Some(10), "it has one");
        addresses.release(&key("b"));
        let more: Vec<_> = ["c", "d", "e", "f", "g"].iter().map(|name| give(&mut addresses, name)).collect();
        assert_eq!(more, [Some(12), Some(13), Some(14), Some(11), None]);
        assert_eq!(addresses.allocate(&key("h"), "other", "nonsense"), None);
        addresses.retain(|kept| *kept == key("a"));
        assert_eq!((give(&mut addresses, "a"), give(&mut addresses, "i")), (Some(10), Some(12)));
    }
}
