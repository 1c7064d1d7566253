//! Whose the names of nodes are: a name that was let in stays its account's after the node is gone, and after the account is.
//!
//! The machine still has a certificate of that name, which cannot be revoked. Whoever else were let in under it would share its
//! identity, and whatever comes back under it must not be taken for a node of nobody.
//!
//! One ConfigMap, `longshore-system/node-names`: name to account and moment.

use std::collections::BTreeMap;

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ObjectMeta;
use kube_types::marks::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};

/// The name of the ConfigMap.
pub(crate) const NAMES: &str = "node-names";

/// Certificates of nodes are good for a year where a cluster does not say otherwise.
const KEPT: SignedDuration = SignedDuration::from_hours(366 * 24);

/// Whose each name is, and since when. Pure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(BTreeMap<String, (UserId, Timestamp)>);

impl Names {
    /// What cannot be read is nobody's.
    pub fn of(map: &ConfigMap) -> Self {
        let entry = |(name, value): (&String, &String)| {
            let (id, since) = value.split_once(' ')?;
            Some((name.clone(), (id.parse().ok()?, since.parse().ok()?)))
        };
        Self(map.data.iter().flatten().filter_map(entry).collect())
    }

    pub fn owner(&self, name: &str) -> Option<&UserId> {
        self.0.get(name).map(|(owner, _)| owner)
    }

    /// The names of one account.
    pub fn of_account<'a>(&'a self, id: &'a UserId) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(_, (owner, _))| owner == id).map(|(name, _)| name.as_str())
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Gives a name away that nobody else has.
    pub fn give(&mut self, name: &str, id: &UserId, now: Timestamp) {
        self.0.insert(name.to_owned(), (id.clone(), now));
    }

    /// Forgets what no certificate can be left of: long ago, and of no node that anybody has.
    pub fn forget(&mut self, now: Timestamp, has: impl Fn(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|name, (_, since)| now.duration_since(*since) < KEPT || has(name));
        self.0.len() < before
    }

    /// The ConfigMap with these names, in place of `before`.
    pub fn to_map(&self, before: Option<ConfigMap>) -> ConfigMap {
        let entry = |(name, (id, since)): (&String, &(UserId, Timestamp))| {
            (name.clone(), format!("{id} {}", since.strftime("%Y-%m-%dT%H:%M:%SZ")))
        };
        let metadata = before.map_or_else(metadata, |before| before.metadata);
        ConfigMap { metadata, data: Some(self.0.iter().map(entry).collect()), ..ConfigMap::default() }
    }
}

fn metadata() -> ObjectMeta {
    ObjectMeta {
        name: Some(NAMES.to_owned()),
        namespace: Some(SYSTEM_NAMESPACE.to_owned()),
        labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn api(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_for_as_long_as_a_certificate_may_be_good() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let (ana, ben): (UserId, UserId) = ("uaaaaaaaaaa".parse().unwrap(), "ubbbbbbbbbb".parse().unwrap());
        let mut names = Names::default();
        names.give("one", &ana, now);
        names.give("two", &ana, now);
        names.give("three", &ben, now);
        let mut map = names.to_map(None);
        assert_eq!(Names::of(&map), names);
        map.data.get_or_insert_default().insert("broken".to_owned(), "x".to_owned());
        assert_eq!(Names::of(&map), names);
        assert_eq!(names.of_account(&ana).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(names.owner("three"), Some(&ben));
        assert!(!names.forget(now + SignedDuration::from_hours(365 * 24), |_| false));
        assert!(names.forget(now + SignedDuration::from_hours(367 * 24), |name| name == "two"));
        assert_eq!((names.owner("one"), names.owner("two")), (None, Some(&ana)));
    }
}
