//! The budget of one rendering: a counter of steps of work and bytes of memory.
//!
//! Every part of a rendering draws on the same [`Budget`]: dependencies, merged values, schemas, templates, and post-processing of
//! the objects. Nothing is ever credited back: the budget counts total allocation, so it bounds both time and memory.
//! Callers charge before they work and take bytes before they allocate.
//!
//! The host of a rendering takes part through [`Admission`]: it can refuse memory, and it can stop a rendering whose caller has
//! disconnected or whose deadline has passed.

use std::cell::Cell;

use crate::data::{Data, Members};
use crate::value::Str;

/// Limits of one rendering.
#[derive(Clone, Copy, Debug)]
pub struct RenderLimits {
    /// Nodes, iterations and calls; one step is about twenty nanoseconds. Slower work counts as several steps.
    pub steps: u64,
    /// Total bytes of merged values, schemas and their messages, all outputs and all function results.
    pub memory: usize,
    /// Nesting depth of template calls. The default is Go's limit; the available stack may allow less.
    pub depth: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self { steps: 50_000_000, memory: 128 << 20, depth: 100_000 }
    }
}

/// The host's side of a budget. An error ends the rendering; the error text becomes the rendering's message.
pub trait Admission {
    /// Reserves memory until the rendering ends.
    fn reserve(&self, bytes: u64) -> Result<(), Str>;

    /// Fails if the rendering should stop. Called some thousand times per second.
    fn check(&self) -> Result<(), Str>;
}

/// Admits everything; only the budget's own limits apply.
pub struct Unlimited;

impl Admission for Unlimited {
    fn reserve(&self, _: u64) -> Result<(), Str> {
        Ok(())
    }

    fn check(&self) -> Result<(), Str> {
        Ok(())
    }
}

/// Cost of one value in a list or a map, including its key and the map's own structure. Strings are shared, not copied.
pub const VALUE_BYTES: usize = 64;

/// Steps between two calls of [`Admission::check`].
const CHECK_INTERVAL: u64 = 10_000;

/// Unit of memory reservation, in bytes.
const RESERVATION_UNIT: usize = 1 << 20;

/// The budget of one rendering. Once exceeded, it stays exceeded.
pub struct Budget<'b> {
    limits: RenderLimits,
    admission: &'b dyn Admission,
    steps: Cell<u64>,
    /// The step count at which the limit and the host are checked next.
    next_check: Cell<u64>,
    memory: Cell<usize>,
    reserved: Cell<usize>,
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Self::new(RenderLimits::default(), &Unlimited)
    }
}

impl<'b> Budget<'b> {
    pub fn new(limits: RenderLimits, admission: &'b dyn Admission) -> Self {
        Self {
            limits,
            admission,
            steps: Cell::new(0),
            next_check: Cell::new(0),
            memory: Cell::new(0),
            reserved: Cell::new(0),
        }
    }

    pub fn limits(&self) -> RenderLimits {
        self.limits
    }

    /// Counts work; call it before doing the work.
    #[inline]
    pub fn charge(&self, steps: u64) -> Result<(), Str> {
        let steps = self.steps.get().saturating_add(steps);
        self.steps.set(steps);
        if steps < self.next_check.get() { Ok(()) } else { self.check(steps) }
    }

    #[cold]
    fn check(&self, steps: u64) -> Result<(), Str> {
        let limit = self.limits.steps;
        if steps > limit {
            return Err(format!("too much work: stopped after {limit} steps").into());
        }
        self.admission.check()?;
        self.next_check.set(steps.saturating_add(CHECK_INTERVAL).min(limit.saturating_add(1)));
        Ok(())
    }

    /// Counts memory; call it before allocating.
    pub fn allocate(&self, bytes: usize) -> Result<(), Str> {
        self.fits(bytes)?;
        self.memory.set(self.memory.get() + bytes);
        Ok(())
    }

    /// Counts the memory of `count` values.
    pub fn allocate_values(&self, count: usize) -> Result<(), Str> {
        self.charge(count as u64)?;
        self.allocate(count.saturating_mul(VALUE_BYTES))
    }

    /// Fails if `bytes` more would exceed the budget. Does not count them.
    pub fn fits(&self, bytes: usize) -> Result<(), Str> {
        let needed = self.memory.get().saturating_add(bytes);
        if needed > self.limits.memory {
            return Err(format!("too much memory: stopped after {} bytes", self.limits.memory).into());
        }
        let missing = needed.saturating_sub(self.reserved.get());
        if missing > 0 {
            let more = missing.div_ceil(RESERVATION_UNIT) * RESERVATION_UNIT;
            self.admission.reserve(more as u64)?;
            self.reserved.set(self.reserved.get() + more);
        }
        Ok(())
    }

    /// The number of bytes left.
    pub fn remaining_bytes(&self) -> usize {
        self.limits.memory.saturating_sub(self.memory.get())
    }

    pub fn used_steps(&self) -> u64 {
        self.steps.get()
    }

    pub fn used_memory(&self) -> usize {
        self.memory.get()
    }
}

/// The size in bytes of all members: values and strings.
pub fn members_size(members: &Members) -> usize {
    members.iter().map(|(key, value)| key.len() + data_size(value)).sum()
}

/// The size in bytes of a tree of data, including its root.
pub fn data_size(data: &Data) -> usize {
    VALUE_BYTES
        + match data {
            Data::String(text) => text.len(),
            Data::List(items) => items.iter().map(data_size).sum(),
            Data::Map(members) => members_size(members),
            _ => 0,
        }
}

/// The number of values in all members, including maps and lists.
pub fn count_member_values(members: &Members) -> usize {
    members.values().map(count_values).sum()
}

/// The number of values in a tree of data, including its root.
pub fn count_values(data: &Data) -> usize {
    1 + match data {
        Data::List(items) => items.iter().map(count_values).sum(),
        Data::Map(members) => count_member_values(members),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Grants some memory and a number of checks.
    struct Host {
        memory: Cell<u64>,
        checks: Cell<u32>,
        reserved: RefCell<Vec<u64>>,
    }

    impl Admission for Host {
        fn reserve(&self, bytes: u64) -> Result<(), Str> {
            self.memory.set(self.memory.get().checked_sub(bytes).ok_or("the pool is full")?);
            self.reserved.borrow_mut().push(bytes);
            Ok(())
        }

        fn check(&self) -> Result<(), Str> {
            self.checks.set(self.checks.get().checked_sub(1).ok_or("cancelled")?);
            Ok(())
        }
    }

    fn host(memory: u64, checks: u32) -> Host {
        Host { memory: Cell::new(memory), checks: Cell::new(checks), reserved: RefCell::default() }
    }

    #[test]
    fn budget_ends_at_its_limits() {
        let budget = Budget::new(RenderLimits { steps: 20_000, memory: 100, depth: 1 }, &Unlimited);
        assert_eq!(budget.charge(20_000), Ok(()));
        assert_eq!(budget.charge(1), Err("too much work: stopped after 20000 steps".into()));
        assert_eq!(budget.charge(u64::MAX), Err("too much work: stopped after 20000 steps".into()));
        assert_eq!(budget.allocate(60), Ok(()));
        assert_eq!(budget.fits(40), Ok(()));
        assert_eq!(budget.allocate(41), Err("too much memory: stopped after 100 bytes".into()));
        assert_eq!(budget.allocate(usize::MAX), Err("too much memory: stopped after 100 bytes".into()));
        assert_eq!(budget.remaining_bytes(), 40);
    }

    #[test]
    fn budget_reserves_memory_before_it_is_allocated() {
        let host = host(3 << 20, u32::MAX);
        let budget = Budget::new(RenderLimits::default(), &host);
        budget.allocate(10).unwrap();
        budget.allocate(10).unwrap();
        budget.fits(2 << 20).unwrap();
        assert_eq!(*host.reserved.borrow(), [1 << 20, 2 << 20]);
        assert_eq!(budget.allocate(3 << 20), Err("the pool is full".into()));
        assert_eq!(budget.used_memory(), 20);
    }

    #[test]
    fn budget_asks_the_host_at_intervals() {
        let host = host(0, 3);
        let budget = Budget::new(RenderLimits::default(), &host);
        let stopped = (0..1_000_000).find_map(|_| budget.charge(1).err());
        assert_eq!(stopped, Some("cancelled".into()));
        assert!((2 * CHECK_INTERVAL..=4 * CHECK_INTERVAL).contains(&budget.used_steps()));
    }
}
