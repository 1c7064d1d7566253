//! The environment of a rendering as traits: clock, randomness, cryptography, cluster and DNS. This crate implements none of them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::budget::{Admission, Unlimited};
use crate::data::Data;
use crate::value::Str;

/// All external services of one rendering.
#[derive(Clone, Copy)]
pub struct RenderEnv<'o> {
    pub clock: &'o dyn Clock,
    pub random: &'o dyn Random,
    pub crypto: &'o dyn Crypto,
    pub cluster: &'o dyn Cluster,
    pub resolver: &'o dyn HostResolver,
    /// Grants memory and execution time.
    pub admission: &'o dyn Admission,
}

pub trait Clock {
    fn now(&self) -> Timestamp;

    /// The local time zone of `now` and `date`.
    fn zone(&self) -> TimeZone {
        TimeZone::UTC
    }
}

pub trait Random {
    /// Fills the buffer with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The kind of a private key to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    Rsa {
        bits: u32,
    },
    /// On curve P-256.
    Ecdsa,
    Ed25519,
    /// 2048-bit modulus, 256-bit subgroup.
    Dsa,
}

/// Elliptic curves on which certificates are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P256,
    P384,
    P521,
}

/// A private key, in the simplest encoding for its kind.
#[derive(Clone, PartialEq, Eq)]
pub enum PrivateKey {
    /// PKCS#1 in DER.
    Rsa(Vec<u8>),
    /// The secret scalar, padded to the byte length of the curve order.
    Ecdsa { curve: Curve, secret: Vec<u8> },
    /// The seed.
    Ed25519([u8; 32]),
    /// The numbers p, q, g, y and x, big-endian. The key is only generated and printed; nothing is signed with it.
    Dsa([Vec<u8>; 5]),
}

/// Key generation and signatures. The content of signed data and the encoding of keys and certificates are decided in this crate.
pub trait Crypto {
    /// Announces that the templates call for `count` keys, so that some can be generated ahead in parallel. Implementations should
    /// generate nothing before the first request, because few charts execute all of these calls.
    fn prepare(&self, kind: KeyKind, count: usize) {
        let _ = (kind, count);
    }

    fn generate(&self, kind: KeyKind) -> Result<PrivateKey, Str>;

    /// The public key as encoded in a certificate: PKCS#1 in DER, the uncompressed point, or the 32 bytes.
    fn public_key(&self, key: &PrivateKey) -> Result<Vec<u8>, Str>;

    /// Signs with SHA-256 (RSA with PKCS#1 v1.5 padding, P-256), SHA-384 (P-384), SHA-512 (P-521), or Ed25519.
    fn sign(&self, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, Str>;
}

/// The cluster behind `lookup`.
pub trait Cluster {
    /// The object, or the list if `name` is empty. Returns an empty [`Data::Map`] if the object does not exist.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, Str>;
}

/// The resolver behind `getHostByName`.
pub trait HostResolver {
    /// An address of the host; empty if resolution is not allowed.
    fn resolve(&self, host: &str) -> String;
}

/// The null environment: `lookup` finds nothing and `getHostByName` is empty. As clock, randomness and crypto it makes renderings
/// reproducible, for tests.
pub struct NullEnv;

impl RenderEnv<'static> {
    /// An environment of [`NullEnv`] only.
    pub const NULL: Self = Self {
        clock: &NullEnv,
        random: &NullEnv,
        crypto: &NullEnv,
        cluster: &NullEnv,
        resolver: &NullEnv,
        admission: &Unlimited,
    };
}

impl Cluster for NullEnv {
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, Str> {
        Ok(Data::Map(crate::data::Members::new()))
    }
}

impl HostResolver for NullEnv {
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

/// Always the Unix epoch.
impl Clock for NullEnv {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

/// All zeros.
impl Random for NullEnv {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// Refuses to generate or use keys.
impl Crypto for NullEnv {
    fn generate(&self, _: KeyKind) -> Result<PrivateKey, Str> {
        Err("keys cannot be made here".into())
    }

    fn public_key(&self, _: &PrivateKey) -> Result<Vec<u8>, Str> {
        Err("keys cannot be used here".into())
    }

    fn sign(&self, _: &PrivateKey, _: &[u8]) -> Result<Vec<u8>, Str> {
        Err("keys cannot be used here".into())
    }
}
