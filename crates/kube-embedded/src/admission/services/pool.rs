//! The ranges of cluster IPs and node ports, and their free values.
//!
//! The lower end of each range is reserved for explicit requests. Dynamic allocation uses the upper part
//! while it has free values, at random, so that a released value is not
//! reused at once.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

/// 10.96.0.0/16
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const SIZE: u32 = 1 << 16;
const STATIC_ADDRESSES: u32 = 256;

const FIRST_PORT: i64 = 30_000;
const LAST_PORT: i64 = 32_767;
const STATIC_PORTS: i64 = 86;

/// A value that can be allocated once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    Address(IpAddr),
    Port(i64),
}

pub type Taken = HashSet<Lease>;

/// Values allocated to others and by this request.
pub struct Pool {
    taken: Taken,
    granted: Vec<Lease>,
}

impl Pool {
    pub fn new(taken: Taken) -> Self {
        Self { taken, granted: Vec::new() }
    }

    pub fn granted(self) -> Vec<Lease> {
        self.granted
    }

    fn take(&mut self, lease: Lease) -> bool {
        let free = self.taken.insert(lease);
        if free {
            self.granted.push(lease);
        }
        free
    }

    /// Allocates a given address; `Err` is the message. A dry run does not check whether it is free.
    pub fn claim_address(&mut self, address: IpAddr, dry_run: bool) -> Result<(), &'static str> {
        let IpAddr::V4(v4) = address.to_canonical() else {
            return Err("the provided network does not match the current range");
        };
        // The network address and the last address cannot be used.
        if !(NETWORK + 1..NETWORK + SIZE - 1).contains(&u32::from(v4)) {
            return Err("the provided network does not match the current range");
        }
        if !self.take(Lease::Address(v4.into())) && !dry_run {
            return Err("provided IP is already allocated");
        }
        Ok(())
    }

    pub fn any_address(&mut self) -> Option<IpAddr> {
        let address = |offset: i64| {
            let offset = u32::try_from(offset).ok()?;
            Some(Lease::Address(Ipv4Addr::from(NETWORK + offset).into()))
        };
        let upper = i64::from(STATIC_ADDRESSES)..i64::from(SIZE - 1);
        let found =
            self.probe(upper, address).or_else(|| self.probe(1..i64::from(STATIC_ADDRESSES), address));
        found.and_then(|lease| match lease {
            Lease::Address(ip) => Some(ip),
            Lease::Port(_) => None,
        })
    }

    /// Allocates a given port; `Err` is the message. A dry run ignores the range.
    pub fn claim_port(&mut self, port: i64, dry_run: bool) -> Result<(), String> {
        if !dry_run && !(FIRST_PORT..=LAST_PORT).contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            ));
        }
        if self.take(Lease::Port(port)) {
            Ok(())
        } else {
            Err("provided port is already allocated".to_owned())
        }
    }

    pub fn any_port(&mut self) -> Option<i64> {
        let port = |number: i64| Some(Lease::Port(number));
        let (begin, middle, end) = (FIRST_PORT, FIRST_PORT + STATIC_PORTS, LAST_PORT + 1);
        let found = self.probe(middle..end, port).or_else(|| self.probe(begin..middle, port));
        found.and_then(|lease| match lease {
            Lease::Port(port) => Some(port),
            Lease::Address(_) => None,
        })
    }

    /// The port shown in a dry run: the one after the last of this request, or after the range.
    pub fn pretended_port(&mut self) -> i64 {
        let ports = self.granted.iter().filter_map(|lease| match lease {
            Lease::Port(port) => Some(*port),
            Lease::Address(_) => None,
        });
        let port = ports.max().unwrap_or(LAST_PORT + 1) + 1;
        self.granted.push(Lease::Port(port));
        port
    }

    /// Allocates the first free value, from a random start.
    fn probe(&mut self, range: std::ops::Range<i64>, lease: impl Fn(i64) -> Option<Lease>) -> Option<Lease> {
        let length = range.end - range.start;
        // 48 random bits; the modulo's bias does not matter here.
        let random = i64::try_from(uuid::Uuid::new_v4().as_u128() >> 80).unwrap_or(0);
        let start = random.rem_euclid(length);
        (0..length)
            .filter_map(|step| lease(range.start + (start + step) % length))
            .find(|lease| self.take(*lease))
    }
}
