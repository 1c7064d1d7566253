//! What templates need of the world, as traits: the crate has none of it by itself.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::data::Data;
use crate::value::Str;

/// Everything that a rendering may reach for.
#[derive(Clone, Copy)]
pub struct Outside<'o> {
    pub clock: &'o dyn Clock,
    pub random: &'o dyn Random,
    pub crypto: &'o dyn Crypto,
    pub cluster: &'o dyn Cluster,
    pub names: &'o dyn HostNames,
}

pub trait Clock {
    fn now(&self) -> Timestamp;

    /// The zone that `now` and `date` speak in.
    fn zone(&self) -> TimeZone {
        TimeZone::UTC
    }
}

pub trait Random {
    /// Fills the buffer with bytes that nobody can foretell.
    fn fill(&self, bytes: &mut [u8]);
}

/// A private key to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Rsa {
        bits: u32,
    },
    /// On P-256.
    Ecdsa,
    Ed25519,
}

/// Keys and certificates.
pub trait Crypto {
    /// The templates at hand ask for this many keys: they may be made ahead, elsewhere.
    fn prepare(&self, kind: KeyKind, count: usize) {
        let _ = (kind, count);
    }
}

/// `lookup`.
pub trait Cluster {
    /// The object, or the list where `name` is empty; [`Data::Map`] without members where there is none.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, Str>;
}

/// `getHostByName`.
pub trait HostNames {
    /// An address of the host; empty where asking is not allowed.
    fn address(&self, host: &str) -> String;
}

/// No cluster and no names: `lookup` finds nothing, `getHostByName` is empty. As clock, chance and crypto it is for
/// renderings that must come out the same each time: tests.
pub struct Nowhere;

impl Cluster for Nowhere {
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, Str> {
        Ok(Data::Map(crate::data::Members::new()))
    }
}

impl HostNames for Nowhere {
    fn address(&self, _: &str) -> String {
        String::new()
    }
}

/// The beginning of 1970, for ever.
impl Clock for Nowhere {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

/// Zeros.
impl Random for Nowhere {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// No keys.
impl Crypto for Nowhere {}
