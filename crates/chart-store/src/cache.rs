//! Bounded caches.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// LRU cache with a limit on the total weight.
pub struct LruCache<K, V> {
    limit: usize,
    weight: usize,
    /// Logical clock, incremented by each access.
    clock: u64,
    entries: HashMap<K, LruEntry<V>>,
}

struct LruEntry<V> {
    value: V,
    weight: usize,
    last_access: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> LruCache<K, V> {
    pub fn new(limit: usize) -> Self {
        Self { limit, weight: 0, clock: 0, entries: HashMap::new() }
    }

    pub fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let held = self.entries.get_mut(key)?;
        held.last_access = self.clock;
        Some(held.value.clone())
    }

    /// Inserts a value and evicts the least recently used ones. A value above the limit is not cached.
    pub fn put(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        if weight > self.limit {
            return;
        }
        self.clock += 1;
        self.weight += weight;
        self.entries.insert(key, LruEntry { value, weight, last_access: self.clock });
        while self.weight > self.limit {
            let oldest =
                self.entries.iter().min_by_key(|(_, held)| held.last_access).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(held) = self.entries.remove(key) {
            self.weight -= held.weight;
        }
    }
}

/// Single-flight cache of remote answers with TTL. Of concurrent callers for one key, one sends the request; all share its result, also a
/// failure.
pub struct RefreshingCache<K, V, E> {
    /// TTL of a success, and of a failure.
    ttl: Duration,
    negative_ttl: Duration,
    /// Whether a failure applies to all callers. One that concerns a single caller, such as its budget, is not cached.
    is_shared: fn(&E) -> bool,
    slots: Mutex<LruCache<K, Arc<Slot<V, E>>>>,
}

struct Slot<V, E>(tokio::sync::Mutex<Option<CachedResult<V, E>>>);

struct CachedResult<V, E> {
    at: Instant,
    /// The last success, even if a later request failed.
    value: Option<V>,
    failure: Option<E>,
}

impl<K: Hash + Eq + Clone, V: Clone, E: Clone> RefreshingCache<K, V, E> {
    pub fn new(limit: usize, fresh: Duration, sulk: Duration, is_shared: fn(&E) -> bool) -> Self {
        Self { ttl: fresh, negative_ttl: sulk, is_shared, slots: Mutex::new(LruCache::new(limit)) }
    }

    /// The cached value if it is fresh, else the result of `ask`, which gets the last success.
    ///
    /// A caller waits a bounded time for the request of another, and then sends its own: the other may be waiting for a budget of its
    /// own.
    pub async fn get(
        &self,
        key: &K,
        weigh: impl Fn(&V) -> usize,
        ask: impl AsyncFnOnce(Option<V>) -> Result<V, E>,
    ) -> Result<V, E> {
        let slot = self.slot(key);
        let Ok(mut heard) = tokio::time::timeout(SINGLE_FLIGHT_TIMEOUT, slot.0.lock()).await else {
            return ask(None).await;
        };
        if let Some(heard) = &*heard {
            match (&heard.failure, &heard.value) {
                (Some(failure), _) if heard.at.elapsed() < self.negative_ttl => return Err(failure.clone()),
                (None, Some(value)) if heard.at.elapsed() < self.ttl => return Ok(value.clone()),
                _ => {}
            }
        }
        let before = heard.as_ref().and_then(|heard| heard.value.clone());
        let answer = ask(before.clone()).await;
        if let Err(failure) = &answer
            && !(self.is_shared)(failure)
        {
            return answer;
        }
        let (value, failure) = match &answer {
            Ok(value) => (Some(value.clone()), None),
            Err(failure) => (before, Some(failure.clone())),
        };
        let weight = value.as_ref().map_or(0, weigh) + MIN_WEIGHT;
        *heard = Some(CachedResult { at: Instant::now(), value, failure });
        self.slots.lock().put(key.clone(), slot.clone(), weight);
        answer
    }

    fn slot(&self, key: &K) -> Arc<Slot<V, E>> {
        let mut slots = self.slots.lock();
        slots.get(key).unwrap_or_else(|| {
            let slot = Arc::new(Slot(tokio::sync::Mutex::new(None)));
            slots.put(key.clone(), slot.clone(), MIN_WEIGHT);
            slot
        })
    }
}

/// Minimum weight of an entry.
const MIN_WEIGHT: usize = 512;
/// Maximum time to wait for another caller's request.
const SINGLE_FLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn lru_cache_evicts_the_least_recently_used() {
        let mut memory = LruCache::new(10);
        for name in ["a", "b", "c"] {
            memory.put(name, name, 3);
        }
        assert_eq!(memory.get(&"a"), Some("a"));
        memory.put("d", "d", 3);
        assert_eq!(memory.get(&"b"), None);
        assert_eq!([memory.get(&"a"), memory.get(&"c"), memory.get(&"d")], [Some("a"), Some("c"), Some("d")]);
        memory.put("e", "too heavy", 11);
        assert_eq!((memory.get(&"e"), memory.weight), (None, 9));
        memory.put("a", "heavier", 10);
        assert_eq!((memory.get(&"a"), memory.get(&"c"), memory.weight), (Some("heavier"), None, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn refreshing_cache_shares_requests_and_caches_failures() {
        let seconds = Duration::from_secs;
        let hearsay: RefreshingCache<&str, usize, &str> =
            RefreshingCache::new(1 << 20, seconds(60), seconds(5), |error| *error != "busy");
        let asked = AtomicUsize::new(0);
        let ask = async |answer: Result<usize, &'static str>| {
            hearsay
                .get(
                    &"x",
                    |_| 1,
                    async |_| {
                        tokio::time::sleep(seconds(1)).await;
                        asked.fetch_add(1, Ordering::Relaxed);
                        answer
                    },
                )
                .await
        };
        let many = futures::future::join_all((0..100).map(|_| ask(Err("no")))).await;
        assert!(many.iter().all(|one| *one == Err("no")));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(seconds(5)).await;
        assert_eq!(ask(Ok(7)).await, Ok(7));
        assert_eq!((ask(Ok(8)).await, asked.load(Ordering::Relaxed)), (Ok(7), 2));
        // A failure by one caller's budget does not affect other callers.
        let other: RefreshingCache<&str, usize, &str> =
            RefreshingCache::new(1 << 20, seconds(60), seconds(5), |error| *error != "busy");
        assert_eq!(other.get(&"x", |_| 1, async |_| Err("busy")).await, Err("busy"));
        assert_eq!(other.get(&"x", |_| 1, async |_| Ok(1)).await, Ok(1));
        tokio::time::advance(seconds(60)).await;
        assert_eq!((ask(Err("gone")).await, asked.load(Ordering::Relaxed)), (Err("gone"), 3));
        tokio::time::advance(seconds(5)).await;
        let before = hearsay.get(&"x", |_| 1, async |before| before.ok_or("forgotten")).await;
        assert_eq!(before, Ok(7));
    }
}
