//! What templates need of the world, as traits: the crate has none of it by itself.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::budget::{Admission, Unlimited};
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
    /// Grants memory and time.
    pub admission: &'o dyn Admission,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    Rsa {
        bits: u32,
    },
    /// On P-256.
    Ecdsa,
    Ed25519,
    /// 2048 bits, in a group of 256.
    Dsa,
}

/// The curves on which certificates are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P256,
    P384,
    P521,
}

/// A private key, in the form in which each kind is simplest.
#[derive(Clone, PartialEq, Eq)]
pub enum PrivateKey {
    /// PKCS#1 in DER.
    Rsa(Vec<u8>),
    /// The secret number, as long as the order of the curve is.
    Ecdsa { curve: Curve, secret: Vec<u8> },
    /// The seed.
    Ed25519([u8; 32]),
    /// The numbers p, q, g, y and x, their highest bytes first. It is made and handed on; nothing is signed with it.
    Dsa([Vec<u8>; 5]),
}

/// Keys and signatures. What is signed, and how keys and certificates are written, is decided here inside.
pub trait Crypto {
    /// The templates at hand ask for so many keys in as many places: some may be made ahead, elsewhere. Nothing
    /// should be made before the first is asked for, because few charts reach all the places.
    fn prepare(&self, kind: KeyKind, count: usize) {
        let _ = (kind, count);
    }

    fn generate(&self, kind: KeyKind) -> Result<PrivateKey, Str>;

    /// The public half, as it stands in a certificate: PKCS#1 in DER, the uncompressed point, or the 32 bytes.
    fn public(&self, key: &PrivateKey) -> Result<Vec<u8>, Str>;

    /// Signs with SHA-256 (RSA in the way of PKCS#1 v1.5, P-256), SHA-384 (P-384), SHA-512 (P-521), or in the way of
    /// Ed25519.
    fn sign(&self, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, Str>;
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

impl Outside<'static> {
    /// [`Nowhere`] for all of it.
    pub const NOWHERE: Self = Self {
        clock: &Nowhere,
        random: &Nowhere,
        crypto: &Nowhere,
        cluster: &Nowhere,
        names: &Nowhere,
        admission: &Unlimited,
    };
}

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
impl Crypto for Nowhere {
    fn generate(&self, _: KeyKind) -> Result<PrivateKey, Str> {
        Err("keys cannot be made here".into())
    }

    fn public(&self, _: &PrivateKey) -> Result<Vec<u8>, Str> {
        Err("keys cannot be used here".into())
    }

    fn sign(&self, _: &PrivateKey, _: &[u8]) -> Result<Vec<u8>, Str> {
        Err("keys cannot be used here".into())
    }
}
