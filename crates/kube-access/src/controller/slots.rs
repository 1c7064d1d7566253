//! Slots of a controller, shared fairly among tenants.
//!
//! A reconcile holds an active slot. A reconcile older than [`SlotLimits::slow_after`] is waiting for something external, such as a
//! registry or pods. It moves to a slow slot, so that it does not block others; if its tenant's share of slow slots is used up, it keeps
//! its active slot. A free active slot goes to the waiting tenant that holds the fewest; among equals, to the one that has waited longest.
//!
//! Invariants:
//! - A tenant without an active slot gets one while any is free.
//! - A tenant below its share gets one unless only the reserve is left.
//! - A tenant at its share gets one only while no tenant below its share waits and half of the slots are free.
//!
//! So however many reconciles of one tenant hang, at least half of the active slots serve the others.
//!
//! Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The slots of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// Maximum number of concurrent reconciles, without the slow ones.
    pub active: usize,
    /// A tenant's share of them while others wait.
    pub active_share: usize,
    /// Active slots that only tenants without an active slot get.
    pub reserve: usize,
    /// Maximum number of concurrent slow reconciles.
    pub slow: usize,
    /// Maximum number of slow reconciles of one tenant.
    pub slow_share: usize,
    /// Age from which a reconcile is slow.
    pub slow_after: Duration,
    /// Age at which a reconcile is cancelled and counts as failed.
    pub deadline: Duration,
}

/// Deadline of a reconcile in controllers that set none. Each API call has a shorter timeout.
pub const DEFAULT_DEADLINE: Duration = Duration::from_mins(15);

impl From<usize> for SlotLimits {
    /// That many slots without shares, for controllers in which each key is a tenant of its own.
    fn from(slots: usize) -> Self {
        let slots = slots.max(1);
        Self {
            active: slots,
            active_share: slots,
            reserve: 0,
            slow: 0,
            slow_share: 0,
            slow_after: Duration::MAX,
            deadline: DEFAULT_DEADLINE,
        }
    }
}

/// Keys that wait for a slot and keys that hold one.
pub(super) struct Slots<K> {
    limits: SlotLimits,
    tenants: BTreeMap<String, TenantSlots<K>>,
    /// Tenants with waiting keys: active slots held, arrival of the first waiting key, name.
    ready: BTreeSet<(usize, u64, String)>,
    /// Active slots by the time at which they become slow.
    timers: BTreeSet<(Instant, K)>,
    active: usize,
    slow: usize,
    waiting: usize,
    arrivals: u64,
    /// When a key last got a slot.
    last_started: Option<Instant>,
}

struct TenantSlots<K> {
    waiting: VecDeque<(u64, Instant, K)>,
    running: BTreeMap<K, RunningKey>,
    active: usize,
    slow: usize,
}

#[derive(Clone, Copy)]
struct RunningKey {
    slow_at: Option<Instant>,
    is_slow: bool,
}

/// Totals of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotUsage {
    pub waiting: usize,
    pub active: usize,
    pub slow: usize,
    /// Since when no key has got a slot although the next waiting tenant is below its share. A long queue that moves is not starving.
    pub starving_since: Option<Instant>,
}

impl<K: Ord + Clone> Slots<K> {
    pub fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            tenants: BTreeMap::new(),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            active: 0,
            slow: 0,
            waiting: 0,
            arrivals: 0,
            last_started: None,
        }
    }

    /// Queues a key. The caller must not push a key that waits or runs.
    pub fn push(&mut self, tenant: &str, key: K, now: Instant) {
        let arrival = self.arrivals;
        self.arrivals = self.arrivals.wrapping_add(1);
        self.waiting += 1;
        self.update(tenant, |tenant| tenant.waiting.push_back((arrival, now, key)));
    }

    /// The next key to reconcile, which holds a slot from now on.
    pub fn begin(&mut self, now: Instant) -> Option<(String, K)> {
        let (held, _, name) = self.ready.first()?.clone();
        if !self.can_admit(held) {
            return None;
        }
        let slow_at = now.checked_add(self.limits.slow_after).filter(|_| self.limits.slow > 0);
        let key = self.update(&name, |tenant| {
            let (_, _, key) = tenant.waiting.pop_front()?;
            tenant.active += 1;
            tenant.running.insert(key.clone(), RunningKey { slow_at, is_slow: false });
            Some(key)
        })?;
        if let Some(at) = slow_at {
            self.timers.insert((at, key.clone()));
        }
        self.waiting -= 1;
        self.active += 1;
        self.last_started = Some(now);
        Some((name, key))
    }

    /// Returns the slot of a key.
    pub fn end(&mut self, tenant: &str, key: &K) {
        let ended = self.update(tenant, |tenant| {
            let running = tenant.running.remove(key)?;
            if running.is_slow {
                tenant.slow -= 1;
            } else {
                tenant.active -= 1;
            }
            Some(running)
        });
        let Some(RunningKey { slow_at, is_slow }) = ended else { return };
        if is_slow {
            self.slow -= 1;
        } else {
            self.active -= 1;
        }
        if let Some(at) = slow_at {
            self.timers.remove(&(at, key.clone()));
        }
    }

    /// Time at which [`Slots::demote`] must run next.
    pub fn next_wake(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Moves slow reconciles from active to slow slots while those have capacity. `tenant_of` names the tenant of a key.
    pub fn demote(&mut self, now: Instant, tenant_of: impl Fn(&K) -> String) {
        while let Some((at, key)) = self.timers.pop_first() {
            if at > now {
                self.timers.insert((at, key));
                return;
            }
            let SlotLimits { slow, slow_share, slow_after, .. } = self.limits;
            let room = self.slow < slow;
            let again = now.checked_add(slow_after);
            let demoted = self.update(&tenant_of(&key), |tenant| {
                let fits = room && tenant.slow < slow_share;
                let running = tenant.running.get_mut(&key)?;
                running.slow_at = if fits { None } else { again };
                if fits {
                    running.is_slow = true;
                    tenant.active -= 1;
                    tenant.slow += 1;
                }
                Some(fits)
            });
            match demoted {
                Some(true) => {
                    self.active -= 1;
                    self.slow += 1;
                }
                // Retried later, when slow reconciles may have ended.
                Some(false) => _ = again.map(|again| self.timers.insert((again, key))),
                None => {}
            }
        }
    }

    pub fn usage(&self) -> SlotUsage {
        let starving = self.ready.first().filter(|(held, ..)| *held < self.limits.active_share);
        let starving = starving.and_then(|(_, _, name)| self.tenants.get(name)?.waiting.front());
        SlotUsage {
            waiting: self.waiting,
            active: self.active,
            slow: self.slow,
            starving_since: starving
                .map(|(_, since, _)| self.last_started.map_or(*since, |begun| begun.max(*since))),
        }
    }

    /// Whether a tenant that holds this many active slots may have another.
    fn can_admit(&self, held: usize) -> bool {
        let SlotLimits { active, active_share, reserve, .. } = self.limits;
        let limit = if held == 0 {
            active
        } else if held < active_share {
            active.saturating_sub(reserve).max(1)
        } else {
            active / 2
        };
        self.active < limit
    }

    /// Changes a tenant and updates its position in the ready set.
    fn update<R>(&mut self, name: &str, change: impl FnOnce(&mut TenantSlots<K>) -> R) -> R {
        let tenant = self.tenants.entry(name.to_owned()).or_insert_with(|| TenantSlots {
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            active: 0,
            slow: 0,
        });
        if let Some((arrival, ..)) = tenant.waiting.front() {
            self.ready.remove(&(tenant.active, *arrival, name.to_owned()));
        }
        let changed = change(tenant);
        if let Some((arrival, ..)) = tenant.waiting.front() {
            self.ready.insert((tenant.active, *arrival, name.to_owned()));
        } else if tenant.running.is_empty() {
            self.tenants.remove(name);
        }
        changed
    }
}

#[cfg(test)]
mod tests;
