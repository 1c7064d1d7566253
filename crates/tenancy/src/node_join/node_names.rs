//! Names of tenants' nodes. The name of a new node begins with the id of its account (`<id>-`), so the name itself proves the owner:
//! to the platform, and to admission policies, which see only the user name `system:node:<id>-...`. Ids are never reused.
//!
//! Nodes that joined before names had the prefix keep theirs. Such a name stays reserved for its account after node and account are
//! deleted, for as long as a certificate of that name may be valid. The ConfigMap `longshore-system/node-names` holds these names
//! (name to account and time). No new node is added to it. The policy for older nodes reads it as its parameter.

use std::collections::BTreeMap;

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube_types::SYSTEM_NAMESPACE;

/// The ConfigMap with the names of older nodes.
pub(crate) const NODE_NAMES_CONFIG_MAP: &str = "node-names";

/// Limit of the label `kubernetes.io/hostname`, which kubelets set to the node's name.
const MAX_NODE_NAME_LEN: usize = 63;

/// How long a name stays reserved. Certificates issued before lifetimes were limited are valid for a year by default.
const RESERVATION_PERIOD: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The prefix of the names of this account's nodes.
pub(crate) fn node_name_prefix(id: &UserId) -> String {
    format!("{id}-")
}

/// The account in the prefix of a node's name.
pub(crate) fn owner_by_prefix(name: &str) -> Option<UserId> {
    let (id, rest) = name.split_once('-')?;
    id.parse().ok().filter(|_| !rest.is_empty())
}

/// Whether a new node of this account may have this name.
pub(crate) fn is_allowed_node_name(name: &str, id: &UserId) -> bool {
    name.len() <= MAX_NODE_NAME_LEN && owner_by_prefix(name).as_ref() == Some(id)
}

/// Owners of the names of older nodes, with the time of the last certificate. Pure: no I/O, no clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeNameRegistry(BTreeMap<String, (UserId, Timestamp)>);

impl NodeNameRegistry {
    /// Entries that cannot be parsed are skipped.
    pub fn from_config_map(map: &ConfigMap) -> Self {
        let entry = |(name, value): (&String, &String)| {
            let (id, since) = value.split_once(' ')?;
            Some((name.clone(), (id.parse().ok()?, since.parse().ok()?)))
        };
        Self(map.data.iter().flatten().filter_map(entry).collect())
    }

    /// The account that a name belongs to. The record of an older node precedes the prefix, which an older node could choose freely.
    pub fn owner(&self, name: &str) -> Option<UserId> {
        let older = self.0.get(name).map(|(owner, _)| owner.clone());
        older.or_else(|| owner_by_prefix(name))
    }

    /// Whether the name belongs to an older node.
    pub fn is_legacy(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names of older nodes of one account.
    pub fn names_of_account<'a>(&'a self, id: &'a UserId) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(_, (owner, _))| owner == id).map(|(name, _)| name.as_str())
    }

    /// The names of all older nodes.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Extends the reservation of an older node's name after its certificate was renewed. Returns whether the name is an older node's.
    pub fn extend_reservation(&mut self, name: &str, now: Timestamp) -> bool {
        let entry = self.0.get_mut(name);
        entry.map(|(_, since)| *since = now).is_some()
    }

    /// Drops the names that no valid certificate can have and no account has a node of. Returns whether any was dropped.
    pub fn prune(&mut self, now: Timestamp, has: impl Fn(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|name, (_, since)| now.duration_since(*since) < RESERVATION_PERIOD || has(name));
        self.0.len() < before
    }

    /// The ConfigMap with these names, in place of `before`.
    pub fn to_config_map(&self, before: ConfigMap) -> ConfigMap {
        let entry = |(name, (id, since)): (&String, &(UserId, Timestamp))| {
            (name.clone(), format!("{id} {}", since.strftime("%Y-%m-%dT%H:%M:%SZ")))
        };
        ConfigMap {
            metadata: before.metadata,
            data: Some(self.0.iter().map(entry).collect()),
            ..ConfigMap::default()
        }
    }
}

pub(crate) fn api(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

/// The ConfigMap as older versions wrote it.
#[cfg(test)]
pub(crate) fn legacy_config_map(entries: impl IntoIterator<Item = (String, UserId, Timestamp)>) -> ConfigMap {
    let metadata = kube::api::ObjectMeta {
        name: Some(NODE_NAMES_CONFIG_MAP.to_owned()),
        namespace: Some(SYSTEM_NAMESPACE.to_owned()),
        ..kube::api::ObjectMeta::default()
    };
    let names = NodeNameRegistry(entries.into_iter().map(|(name, id, since)| (name, (id, since))).collect());
    names.to_config_map(ConfigMap { metadata, ..ConfigMap::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_name_prefix_identifies_the_account() {
        let id: UserId = "uaaaaaaaaaa".parse().unwrap();
        let longest = format!("{id}-{}", "x".repeat(51));
        #[rustfmt::skip]
        let table = [
            ("uaaaaaaaaaa-edge-1", Some("uaaaaaaaaaa"), true),
            (longest.as_str(),     Some("uaaaaaaaaaa"), true),
            ("ubbbbbbbbbb-edge-1", Some("ubbbbbbbbbb"), false),
            ("uaaaaaaaaaa-a.b",    Some("uaaaaaaaaaa"), true),
            ("uaaaaaaaaaa-",       None,                false),
            ("uaaaaaaaaaa",        None,                false),
            ("uaaaaaaaaa1-edge-1", None,                false),
            ("edge-1",             None,                false),
            ("control-plane",      None,                false),
        ];
        for (name, owner, allowed) in table {
            assert_eq!(owner_by_prefix(name).as_ref().map(UserId::as_str), owner, "{name}");
            assert_eq!(is_allowed_node_name(name, &id), allowed, "{name}");
        }
        assert!(!is_allowed_node_name(&format!("{longest}x"), &id));
    }

    #[test]
    fn legacy_node_name_is_reserved_for_the_lifetime_of_its_certificate() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let (ana, ben): (UserId, UserId) = ("uaaaaaaaaaa".parse().unwrap(), "ubbbbbbbbbb".parse().unwrap());
        // An older node could choose another account's prefix.
        let stolen = "uaaaaaaaaaa-stolen";
        let entries = [("one", &ana), ("two", &ana), ("three", &ben), (stolen, &ben)];
        let mut map = legacy_config_map(entries.map(|(name, id)| (name.to_owned(), id.clone(), now)));
        let mut names = NodeNameRegistry::from_config_map(&map);
        map.data.get_or_insert_default().insert("broken".to_owned(), "x".to_owned());
        assert_eq!(NodeNameRegistry::from_config_map(&map), names);
        assert_eq!(names.names_of_account(&ana).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(names.owner("three"), Some(ben.clone()));
        assert_eq!(names.owner(stolen), Some(ben));
        assert_eq!(names.owner("uaaaaaaaaaa-edge"), Some(ana.clone()));
        assert!(names.extend_reservation("two", now) && !names.extend_reservation("uaaaaaaaaaa-edge", now));
        assert!(!names.prune(now + SignedDuration::from_hours(365 * 24), |_| false));
        assert!(names.prune(now + SignedDuration::from_hours(367 * 24), |name| name == "two"));
        assert_eq!((names.owner("one"), names.owner("two")), (None, Some(ana)));
    }
}
