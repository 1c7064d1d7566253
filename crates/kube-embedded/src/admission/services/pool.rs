//! The ranges of cluster IPs and node ports, and their free values.
//!
//! The lower end of each range is reserved for explicit requests. Dynamic allocation uses the upper part
//! while it has free values, at random, so that a released value is not
//! reused at once.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

/// 10.96.0.0/16
const CLUSTER_CIDR_BASE: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const CLUSTER_CIDR_SIZE: u32 = 1 << 16;
const STATIC_ADDRESSES: u32 = 256;

const FIRST_PORT: i64 = 30_000;
const LAST_PORT: i64 = 32_767;
const STATIC_PORTS: i64 = 86;

/// A value that can be allocated once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocatedValue {
    Address(IpAddr),
    Port(i64),
}

pub type AllocatedSet = HashSet<AllocatedValue>;

/// Values allocated to others and by this request.
pub struct AllocationPool {
    allocated: AllocatedSet,
    granted: Vec<AllocatedValue>,
}

impl AllocationPool {
    pub fn new(taken: AllocatedSet) -> Self {
        Self { allocated: taken, granted: Vec::new() }
    }

    pub fn granted(self) -> Vec<AllocatedValue> {
        self.granted
    }

    fn try_allocate(&mut self, lease: AllocatedValue) -> bool {
        let free = self.allocated.insert(lease);
        if free {
            self.granted.push(lease);
        }
        free
    }

    /// Allocates a given address; `Err` is the message. A dry run does not check whether it is free.
    pub fn allocate_address(&mut self, address: IpAddr, dry_run: bool) -> Result<(), &'static str> {
        let IpAddr::V4(v4) = address.to_canonical() else {
            return Err("the provided network does not match the current range");
        };
        // The network address and the last address cannot be used.
        if !(CLUSTER_CIDR_BASE + 1..CLUSTER_CIDR_BASE + CLUSTER_CIDR_SIZE - 1).contains(&u32::from(v4)) {
            return Err("the provided network does not match the current range");
        }
        if !self.try_allocate(AllocatedValue::Address(v4.into())) && !dry_run {
            return Err("provided IP is already allocated");
        }
        Ok(())
    }

    pub fn allocate_next_address(&mut self) -> Option<IpAddr> {
        let address = |offset: i64| {
            let offset = u32::try_from(offset).ok()?;
            Some(AllocatedValue::Address(Ipv4Addr::from(CLUSTER_CIDR_BASE + offset).into()))
        };
        let upper = i64::from(STATIC_ADDRESSES)..i64::from(CLUSTER_CIDR_SIZE - 1);
        let found = self
            .allocate_from_random_start(upper, address)
            .or_else(|| self.allocate_from_random_start(1..i64::from(STATIC_ADDRESSES), address));
        found.and_then(|lease| match lease {
            AllocatedValue::Address(ip) => Some(ip),
            AllocatedValue::Port(_) => None,
        })
    }

    /// Allocates a given port; `Err` is the message. A dry run ignores the range.
    pub fn allocate_port(&mut self, port: i64, dry_run: bool) -> Result<(), String> {
        if !dry_run && !(FIRST_PORT..=LAST_PORT).contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            ));
        }
        if self.try_allocate(AllocatedValue::Port(port)) {
            Ok(())
        } else {
            Err("provided port is already allocated".to_owned())
        }
    }

    pub fn allocate_next_port(&mut self) -> Option<i64> {
        let port = |number: i64| Some(AllocatedValue::Port(number));
        let (begin, middle, end) = (FIRST_PORT, FIRST_PORT + STATIC_PORTS, LAST_PORT + 1);
        let found = self
            .allocate_from_random_start(middle..end, port)
            .or_else(|| self.allocate_from_random_start(begin..middle, port));
        found.and_then(|lease| match lease {
            AllocatedValue::Port(port) => Some(port),
            AllocatedValue::Address(_) => None,
        })
    }

    /// The port shown in a dry run: the one after the last of this request, or after the range.
    pub fn dry_run_port(&mut self) -> i64 {
        let ports = self.granted.iter().filter_map(|lease| match lease {
            AllocatedValue::Port(port) => Some(*port),
            AllocatedValue::Address(_) => None,
        });
        let port = ports.max().unwrap_or(LAST_PORT + 1) + 1;
        self.granted.push(AllocatedValue::Port(port));
        port
    }

    /// Allocates the first free value, from a random start.
    fn allocate_from_random_start(
        &mut self,
        range: std::ops::Range<i64>,
        lease: impl Fn(i64) -> Option<AllocatedValue>,
    ) -> Option<AllocatedValue> {
        let length = range.end - range.start;
        // 48 random bits; the modulo's bias does not matter here.
        let random = i64::try_from(uuid::Uuid::new_v4().as_u128() >> 80).unwrap_or(0);
        let start = random.rem_euclid(length);
        (0..length)
            .filter_map(|step| lease(range.start + (start + step) % length))
            .find(|lease| self.try_allocate(*lease))
    }
}
