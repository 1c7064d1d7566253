//! Keys that are due in one controller, and the slots of the reconciles in progress.
//!
//! Namespaces take turns; keys of one namespace are first in, first out. Slots and time are shared:
//! - A namespace without a slot gets any free one. Up to [`NAMESPACE_SHARE`] slots it gets one while more than [`RESERVE`] are free, and
//!   beyond that while more than half are free. So one namespace never has more than half of the slots.
//! - A namespace whose reconciles computed for some time is served after all others for [`DEBT_FACTOR`] times as long. It still gets slots that
//!   no other namespace needs.
//!
//! Cluster-scoped objects count as one namespace.
//!
//! Pure: time is an argument.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::Key;

/// Maximum number of concurrent reconciles of one controller. Their writes share a commit.
pub(super) const MAX_CONCURRENT_RECONCILES: usize = 128;
/// Slots that a namespace gets while others use more than half of them.
const NAMESPACE_SHARE: usize = 8;
/// Slots that only namespaces without a slot get.
const RESERVE: usize = 16;
const DEBT_FACTOR: u32 = 8;
/// A namespace in debt waits for no longer than this.
const MAX_DEBT: Duration = Duration::from_mins(1);
/// Above this number of namespaces, idle ones are pruned.
const PRUNE_THRESHOLD: usize = 1_024;

#[derive(Default)]
pub(super) struct DueKeys {
    namespaces: HashMap<Box<str>, NamespaceQueue>,
    /// Namespaces with due keys, in the order of their turns. A debt counts from the namespace's next turn.
    turns: VecDeque<Box<str>>,
    /// Namespaces with due keys and debts, by the end of the debts.
    indebted: BTreeSet<(Instant, Box<str>)>,
    /// All due keys.
    queued: HashSet<Key>,
    running: usize,
}

#[derive(Default)]
struct NamespaceQueue {
    keys: VecDeque<Key>,
    running: usize,
    debt_until: Option<Instant>,
}

impl NamespaceQueue {
    /// Whether a further reconcile may begin while `free` slots are free.
    fn can_start(&self, free: usize) -> bool {
        self.running == 0
            || (self.running < NAMESPACE_SHARE && free > RESERVE)
            || free > MAX_CONCURRENT_RECONCILES / 2
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.keys.is_empty() && self.running == 0 && self.debt_until.is_none_or(|end| end <= now)
    }
}

impl DueKeys {
    pub fn push(&mut self, key: Key, now: Instant) {
        if !self.queued.insert(key.clone()) {
            return;
        }
        let (namespace, queue) = (key.namespace.clone(), self.namespaces.entry(key.namespace.clone()));
        let queue = queue.or_default();
        queue.keys.push_back(key);
        if queue.keys.len() == 1 {
            self.add_turn(namespace, now);
        }
    }

    /// Adds a namespace that has due keys.
    fn add_turn(&mut self, namespace: Box<str>, now: Instant) {
        let debt = self.namespaces.get(&namespace).and_then(|queue| queue.debt_until);
        match debt.filter(|end| *end > now) {
            Some(end) => drop(self.indebted.insert((end, namespace))),
            None => self.turns.push_back(namespace),
        }
    }

    /// Takes the next key, whose reconcile holds a slot until [`Self::release`].
    pub fn pop(&mut self, now: Instant) -> Option<Key> {
        let free = MAX_CONCURRENT_RECONCILES.checked_sub(self.running).filter(|free| *free > 0)?;
        while self.indebted.first().is_some_and(|(end, _)| *end <= now)
            && let Some((_, namespace)) = self.indebted.pop_first()
        {
            self.turns.push_back(namespace);
        }
        let can_start =
            |namespace: &str| self.namespaces.get(namespace).is_some_and(|queue| queue.can_start(free));
        // At most as many namespaces are skipped as there are slots: a namespace without one can start.
        let turn = self.turns.iter().position(|namespace| can_start(namespace));
        let namespace = if let Some(namespace) = turn.and_then(|turn| self.turns.remove(turn)) {
            namespace
        } else {
            let found = self.indebted.iter().find(|(_, namespace)| can_start(namespace)).cloned()?;
            self.indebted.remove(&found);
            found.1
        };
        let queue = self.namespaces.get_mut(&namespace)?;
        let key = queue.keys.pop_front()?;
        queue.running += 1;
        self.running += 1;
        if !queue.keys.is_empty() {
            self.add_turn(namespace, now);
        }
        self.queued.remove(&key);
        Some(key)
    }

    /// Returns the slot of a reconcile that has computed for `busy`.
    pub fn release(&mut self, namespace: &str, busy: Duration, now: Instant) {
        let Some(queue) = self.namespaces.get_mut(namespace) else { return };
        self.running = self.running.saturating_sub(1);
        queue.running = queue.running.saturating_sub(1);
        let debt =
            queue.debt_until.map_or(now, |end| end.max(now)) + busy.saturating_mul(DEBT_FACTOR).min(MAX_DEBT);
        queue.debt_until = Some(debt.min(now + MAX_DEBT)).filter(|end| *end > now);
        if queue.is_idle(now) {
            self.namespaces.remove(namespace);
        }
        if self.namespaces.len() > PRUNE_THRESHOLD {
            self.namespaces.retain(|_, queue| !queue.is_idle(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: usize) -> Key {
        Key::new(&"deployments.apps".into(), namespace, &name.to_string())
    }

    fn names(keys: &mut DueKeys, count: usize, now: Instant) -> Vec<String> {
        let taken = (0..count).filter_map(|_| keys.pop(now));
        taken.map(|key| format!("{}/{}", key.namespace, key.name)).collect()
    }

    #[test]
    fn namespace_whose_reconciles_hang_leaves_half_of_the_slots_to_others() {
        let (mut keys, now) = (DueKeys::default(), Instant::now());
        (0..1_000).for_each(|n| keys.push(key("greedy", n), now));
        assert_eq!(names(&mut keys, 1_000, now).len(), MAX_CONCURRENT_RECONCILES / 2);
        // They hang. Another namespace gets slots, and so do ten more hostile ones, which cannot take the reserve.
        keys.push(key("good", 0), now);
        assert_eq!(names(&mut keys, 10, now), ["good/0"]);
        for namespace in 0..10 {
            (0..100).for_each(|n| keys.push(key(&format!("greedy-{namespace}"), n), now));
        }
        let taken = names(&mut keys, 1_000, now);
        assert_eq!(taken.len(), MAX_CONCURRENT_RECONCILES / 2 - 1 - RESERVE);
        for n in 0..RESERVE {
            keys.push(key(&format!("good-{n}"), 0), now);
        }
        assert_eq!(names(&mut keys, 1_000, now).len(), RESERVE);
        assert_eq!(names(&mut keys, 1, now), Vec::<String>::new());
        keys.release("good", Duration::ZERO, now);
        keys.push(key("good", 1), now);
        assert_eq!(names(&mut keys, 10, now), ["good/1"]);
    }

    #[test]
    fn namespace_that_has_computed_for_long_comes_after_the_others() {
        let (mut keys, now) = (DueKeys::default(), Instant::now());
        keys.push(key("heavy", 0), now);
        assert_eq!(names(&mut keys, 1, now), ["heavy/0"]);
        keys.release("heavy", Duration::from_secs(1), now);
        (1..4).for_each(|n| keys.push(key("heavy", n), now));
        (0..3).for_each(|n| keys.push(key("good", n), now));
        assert_eq!(
            names(&mut keys, 4, now),
            ["good/0", "good/1", "good/2", "heavy/1"],
            "it waits for others only"
        );
        // The debt ends.
        (3..6).for_each(|n| keys.push(key("good", n), now));
        let later = now + Duration::from_secs(1) * DEBT_FACTOR;
        assert_eq!(names(&mut keys, 3, later), ["good/3", "heavy/2", "good/4"]);
        // It is limited, so that a namespace is never forgotten for longer.
        keys.release("heavy", Duration::from_hours(1), later);
        keys.release("heavy", Duration::from_hours(1), later);
        assert_eq!(keys.namespaces["heavy"].debt_until, Some(later + MAX_DEBT));
    }

    #[test]
    fn idle_namespaces_are_forgotten() {
        let (mut keys, now) = (DueKeys::default(), Instant::now());
        for n in 0..3 * PRUNE_THRESHOLD {
            let namespace = format!("n{n}");
            keys.push(key(&namespace, 0), now);
            assert!(keys.pop(now).is_some());
            keys.release(&namespace, Duration::from_millis(1), now + Duration::from_millis(n as u64));
        }
        assert!(keys.namespaces.len() <= PRUNE_THRESHOLD, "{}", keys.namespaces.len());
        assert!(
            keys.turns.is_empty() && keys.indebted.is_empty() && keys.queued.is_empty() && keys.running == 0
        );
    }
}
