//! Rate limits per client address.
//!
//! An attempt counts as failed from its start, so that concurrent attempts cannot exceed the limit; a successful attempt is
//! subtracted again. Accounts that do not exist count like others. The memory is bounded: when the table is full, the oldest
//! tenth is evicted.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use domain::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::Error;

/// The kind of a limited operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RateLimitKind {
    SignInToAccount([u8; 16]),
    SignIn,
    Register,
}

/// The period in which attempts are counted.
const WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// The capacity of the table.
const TABLE_CAPACITY: usize = 20_000;

impl RateLimitKind {
    /// The limit of attempts within [`WINDOW`].
    fn max_attempts(self) -> usize {
        match self {
            Self::SignInToAccount(_) => 5,
            Self::SignIn => 30,
            // Many users of one office share an address.
            Self::Register => 100,
        }
    }
}

type RateLimitKey = (RateLimitKind, IpAddr);
type RateLimitTable = HashMap<RateLimitKey, RateLimitEntry>;

/// The counters of a key.
#[derive(Default)]
struct RateLimitEntry {
    /// The latest failures, oldest first; at most as many as the limit.
    failed: VecDeque<Timestamp>,
    /// Attempts in progress.
    pending: usize,
}

/// Counts attempts per kind of operation and client address.
pub(crate) struct Throttle {
    clock: Arc<dyn Clock>,
    table: Mutex<RateLimitTable>,
}

/// A sign-in attempt in progress. Counts as failed if it is dropped without an outcome.
#[must_use]
pub(crate) struct SignInAttempt<'a> {
    throttle: &'a Throttle,
    keys: [RateLimitKey; 2],
    has_outcome: bool,
}

impl Throttle {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, table: Mutex::default() }
    }

    /// Begins an attempt to sign in as `account`: its id, or the login name if there is no such account.
    pub fn sign_in(&self, account: &str, from: IpAddr) -> Result<SignInAttempt<'_>, Error> {
        let digest = Sha256::digest(account.as_bytes());
        let short = std::array::from_fn(|place| digest[place]);
        let keys = [
            (RateLimitKind::SignInToAccount(short), client_network(from)),
            (RateLimitKind::SignIn, client_network(from)),
        ];
        let now = self.clock.now();
        let mut rows = self.table.lock();
        check_limits(&rows, &keys, now)?;
        for key in &keys {
            entry(&mut rows, *key, now).pending += 1;
        }
        Ok(SignInAttempt { throttle: self, keys, has_outcome: false })
    }

    /// Counts a registration.
    pub fn register(&self, from: IpAddr) -> Result<(), Error> {
        let (now, key) = (self.clock.now(), (RateLimitKind::Register, client_network(from)));
        let mut rows = self.table.lock();
        check_limits(&rows, &[key], now)?;
        entry(&mut rows, key, now).record_failure(key.0.max_attempts(), now);
        Ok(())
    }

    /// Ends an attempt. Rows that were evicted in the meantime are skipped.
    fn record_outcome(&self, keys: &[RateLimitKey; 2], outcome: AttemptOutcome) {
        let now = self.clock.now();
        let mut rows = self.table.lock();
        for key in keys {
            let Some(row) = rows.get_mut(key) else { continue };
            row.pending = row.pending.saturating_sub(1);
            match outcome {
                AttemptOutcome::Failed => row.record_failure(key.0.max_attempts(), now),
                AttemptOutcome::Succeeded if key.0 != RateLimitKind::SignIn => row.failed.clear(),
                AttemptOutcome::Succeeded | AttemptOutcome::Withdrawn => {}
            }
            if row.pending == 0 && row.failed.is_empty() {
                rows.remove(key);
            }
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttemptOutcome {
    Failed,
    Succeeded,
    Withdrawn,
}

impl SignInAttempt<'_> {
    /// The attempt succeeded: earlier failures of this account from this address are cleared.
    pub fn succeed(mut self) {
        self.has_outcome = true;
        self.throttle.record_outcome(&self.keys, AttemptOutcome::Succeeded);
    }

    /// The attempt was not decided, through no fault of the client.
    pub fn withdraw(mut self) {
        self.has_outcome = true;
        self.throttle.record_outcome(&self.keys, AttemptOutcome::Withdrawn);
    }
}

impl Drop for SignInAttempt<'_> {
    fn drop(&mut self) {
        if !self.has_outcome {
            self.throttle.record_outcome(&self.keys, AttemptOutcome::Failed);
        }
    }
}

impl RateLimitEntry {
    fn record_failure(&mut self, limit: usize, now: Timestamp) {
        if self.failed.len() >= limit {
            self.failed.pop_front();
        }
        self.failed.push_back(now);
    }

    /// The time until another attempt is allowed. `None` if it is allowed now.
    fn retry_after(&self, limit: usize, now: Timestamp) -> Option<SignedDuration> {
        // After the clock was set back, the wait must not exceed the window.
        let left = |failed: &Timestamp| (WINDOW - now.duration_since(*failed)).min(WINDOW);
        let counted = self.failed.iter().filter(|failed| left(failed).is_positive());
        let used = counted.clone().count();
        match counted.min() {
            Some(first) if used >= limit => Some(left(first)),
            // Attempts in progress end soon.
            _ => (used + self.pending >= limit).then_some(SignedDuration::ZERO),
        }
    }

    fn last_activity(&self) -> Timestamp {
        self.failed.back().copied().unwrap_or(Timestamp::MAX)
    }
}

/// Refuses if the limit of one of the keys is reached.
fn check_limits(rows: &RateLimitTable, keys: &[RateLimitKey], now: Timestamp) -> Result<(), Error> {
    let wait = keys.iter().filter_map(|key| rows.get(key)?.retry_after(key.0.max_attempts(), now)).max();
    match wait {
        None => Ok(()),
        Some(wait) => Err(Error::Throttled { seconds: wait.as_secs().unsigned_abs() + 1 }),
    }
}

/// The row of a key, created if missing; evicts old rows if the table is full.
fn entry(rows: &mut RateLimitTable, key: RateLimitKey, now: Timestamp) -> &mut RateLimitEntry {
    if rows.len() >= TABLE_CAPACITY && !rows.contains_key(&key) {
        evict(rows, now);
    }
    rows.entry(key).or_default()
}

/// Removes expired rows. If that is too little, removes the oldest tenth.
fn evict(rows: &mut RateLimitTable, now: Timestamp) {
    rows.retain(|_, row| row.pending > 0 || now.duration_since(row.last_activity()) < WINDOW);
    if rows.len() > TABLE_CAPACITY * 9 / 10 {
        let mut times: Vec<_> = rows.values().map(RateLimitEntry::last_activity).collect();
        let surplus = times.len() / 10;
        let edge = *times.select_nth_unstable(surplus).1;
        // Of the rows exactly at the threshold, remove only as many as complete the tenth.
        let mut as_old = surplus - times.iter().filter(|time| **time < edge).count();
        rows.retain(|_, row| {
            let goes = row.last_activity() < edge || (row.last_activity() == edge && as_old > 0);
            as_old -= usize::from(goes && row.last_activity() == edge);
            !goes
        });
    }
}

/// The client that an address counts for: the IPv4 address itself, or the /64 network of an IPv6 address, because one customer owns all of
/// it.
fn client_network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is set by hand.
    #[derive(Clone, Default)]
    struct TestClock(Arc<Mutex<i64>>);

    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(1_000_000 + *self.0.lock()).unwrap()
        }
    }

    fn throttle() -> (Throttle, TestClock) {
        let clock = TestClock::default();
        (Throttle::new(Arc::new(clock.clone())), clock)
    }

    fn from(number: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    fn wait(answer: Result<impl Sized, Error>) -> Option<u64> {
        match answer {
            Ok(_) => None,
            Err(Error::Throttled { seconds }) => Some(seconds),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn account_is_throttled_after_five_failures_in_five_minutes() {
        let (throttle, clock) = throttle();
        for _ in 0..5 {
            assert_eq!(wait(throttle.sign_in("ana", from(1))), None);
            *clock.0.lock() += 10;
        }
        assert_eq!(wait(throttle.sign_in("ana", from(1))), Some(251));
        assert_eq!(wait(throttle.sign_in("bob", from(1))), None, "another account");
        assert_eq!(wait(throttle.sign_in("ana", from(2))), None, "another address");
        *clock.0.lock() = 300;
        assert_eq!(wait(throttle.sign_in("ana", from(1))), None, "the first is forgotten");
        assert_eq!(wait(throttle.sign_in("ana", from(1))), Some(11), "the second is not");
    }

    #[test]
    fn address_is_throttled_after_thirty_failures() {
        let (throttle, _) = throttle();
        for number in 0..30 {
            assert_eq!(wait(throttle.sign_in(&number.to_string(), from(1))), None);
        }
        assert_eq!(wait(throttle.sign_in("another", from(1))), Some(301));
    }

    #[test]
    fn concurrent_attempts_do_not_exceed_the_limit() {
        let (throttle, _) = throttle();
        let under_way: Vec<_> = (0..5).map(|_| throttle.sign_in("ana", from(1)).unwrap()).collect();
        assert_eq!(wait(throttle.sign_in("ana", from(1))), Some(1));
        under_way.into_iter().for_each(SignInAttempt::withdraw);
        assert_eq!(wait(throttle.sign_in("ana", from(1))), None);
        assert_eq!(throttle.table.lock().len(), 2);
    }

    #[test]
    fn success_clears_failures_of_the_account_but_not_of_the_address() {
        let (throttle, _) = throttle();
        for _ in 0..4 {
            drop(throttle.sign_in("ana", from(1)).unwrap());
        }
        throttle.sign_in("ana", from(1)).unwrap().succeed();
        for _ in 0..5 {
            assert_eq!(wait(throttle.sign_in("ana", from(1))), None);
        }
        assert_eq!(wait(throttle.sign_in("ana", from(1))), Some(301));
        let address = &throttle.table.lock()[&(RateLimitKind::SignIn, from(1))];
        assert_eq!((address.failed.len(), address.pending), (9, 0));
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out_for_long() {
        let (throttle, clock) = throttle();
        for _ in 0..5 {
            drop(throttle.sign_in("ana", from(1)).unwrap());
        }
        *clock.0.lock() = -100_000;
        assert_eq!(wait(throttle.sign_in("ana", from(1))), Some(301));
    }

    #[test]
    fn table_is_bounded_and_evicts_the_oldest_entries() {
        let (throttle, clock) = throttle();
        for _ in 0..5 {
            drop(throttle.sign_in("early", from(0)));
        }
        for number in 1..50_000 {
            if number % 1000 == 0 {
                *clock.0.lock() += 1;
            }
            drop(throttle.sign_in("flood", from(number)));
            assert!(throttle.table.lock().len() <= TABLE_CAPACITY);
        }
        assert_eq!(wait(throttle.sign_in("early", from(0))), None, "the oldest");
        assert!(throttle.table.lock().contains_key(&(RateLimitKind::SignIn, from(49_999))), "the newest");
    }

    #[test]
    fn ipv6_network_counts_as_one_address() {
        let address = |text: &str| client_network(text.parse().unwrap());
        assert_eq!(address("2001:db8:1:2:3:4:5:6"), address("2001:db8:1:2:ffff::1"));
        assert_ne!(address("2001:db8:1:2::1"), address("2001:db8:1:3::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    }
}
