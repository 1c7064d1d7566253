//! How often something may be tried from one address.
//!
//! An attempt counts as failed from its beginning, so that a hundred at once are no way around; one that succeeded is
//! taken back. Accounts that do not exist count like others. What is remembered is bounded: when it is full, the oldest
//! tenth is forgotten.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use domain::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::Error;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    SignInAs([u8; 16]),
    SignIn,
    Register,
}

const WINDOW: SignedDuration = SignedDuration::from_mins(5);
const REMEMBERED: usize = 20_000;

impl Act {
    /// How often within [`WINDOW`].
    fn limit(self) -> usize {
        match self {
            Self::SignInAs(_) => 5,
            Self::SignIn => 30,
            // An office behind one address registers together.
            Self::Register => 100,
        }
    }
}

type Key = (Act, IpAddr);

pub(crate) struct Throttle {
    clock: Arc<dyn Clock>,
    /// When the last attempts were, oldest first; at most as many as the limit.
    rows: Mutex<HashMap<Key, VecDeque<Timestamp>>>,
}

/// An attempt to sign in that is under way. Dropped, it has failed.
#[must_use]
pub(crate) struct Attempt<'a> {
    throttle: &'a Throttle,
    keys: [Key; 2],
    at: Timestamp,
}

impl Throttle {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, rows: Mutex::default() }
    }

    /// Begins an attempt to sign in as `account`: an id, or whatever was typed where there is no such account.
    pub fn sign_in(&self, account: &str, from: IpAddr) -> Result<Attempt<'_>, Error> {
        let digest = Sha256::digest(account.as_bytes());
        let short = std::array::from_fn(|place| digest[place]);
        let keys = [(Act::SignInAs(short), network(from)), (Act::SignIn, network(from))];
        let at = self.count(&keys)?;
        Ok(Attempt { throttle: self, keys, at })
    }

    /// Counts a registration.
    pub fn register(&self, from: IpAddr) -> Result<(), Error> {
        self.count(&[(Act::Register, network(from))]).map(drop)
    }

    /// Counts for all keys, or for none where one of them is used up.
    fn count(&self, keys: &[Key]) -> Result<Timestamp, Error> {
        let now = self.clock.now();
        let mut rows = self.rows.lock();
        let wait = keys.iter().filter_map(|key| wait(rows.get(key)?, key.0.limit(), now)).max();
        if let Some(wait) = wait {
            let seconds = u64::try_from(wait.as_secs()).unwrap_or_default() + 1;
            return Err(Error::Throttled { seconds });
        }
        for key in keys {
            if rows.len() >= REMEMBERED && !rows.contains_key(key) {
                forget(&mut rows, now);
            }
            let row = rows.entry(*key).or_default();
            if row.len() >= key.0.limit() {
                row.pop_front();
            }
            row.push_back(now);
        }
        Ok(now)
    }
}

/// How long until one more is allowed, where none is.
fn wait(row: &VecDeque<Timestamp>, limit: usize, now: Timestamp) -> Option<SignedDuration> {
    let first = row.front().filter(|_| row.len() >= limit)?;
    let wait = WINDOW - now.duration_since(*first);
    // A clock that was set back must not lock anybody out for longer than the window.
    wait.is_positive().then_some(wait.min(WINDOW))
}

/// Drops the rows that no longer count; where that is too little, the oldest tenth.
fn forget(rows: &mut HashMap<Key, VecDeque<Timestamp>>, now: Timestamp) {
    let last = |row: &VecDeque<Timestamp>| row.back().copied().unwrap_or(Timestamp::MIN);
    rows.retain(|_, row| now.duration_since(last(row)) < WINDOW);
    if rows.len() > REMEMBERED * 9 / 10 {
        let mut times: Vec<_> = rows.values().map(last).collect();
        let tenth = times.len() / 10;
        let (_, edge, _) = times.select_nth_unstable(tenth);
        let edge = *edge;
        let mut surplus = tenth + 1;
        rows.retain(|_, row| {
            let goes = surplus > 0 && last(row) <= edge;
            surplus -= usize::from(goes);
            !goes
        });
    }
}

/// Whose address it is: of an IPv6 address the network of 64 bits, which is what one customer has.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Attempt<'_> {
    /// It was them: what they mistyped before is forgotten.
    pub fn succeeded(self) {
        self.throttle.rows.lock().remove(&self.keys[0]);
        self.withdrawn();
    }

    /// It was not decided, and not for a reason of theirs.
    pub fn withdrawn(self) {
        let mut rows = self.throttle.rows.lock();
        for key in &self.keys {
            if let Some(row) = rows.get_mut(key) {
                if let Some(place) = row.iter().rposition(|time| *time == self.at) {
                    row.remove(place);
                }
                if row.is_empty() {
                    rows.remove(key);
                }
            }
        }
    }
}
