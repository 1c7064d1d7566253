//! The host environment of the Helm crates: clock, randomness, keys and certificates, and charts on disk.
//!
//! The rendering crates do no I/O of their own; the command line and the server pass them this implementation.

mod beside;
mod chance;
mod clock;
pub mod folder;
mod keys;
mod sniff;

pub use beside::beside;
pub use folder::{load, load_unasked};

use std::fmt::Write;

use helm_template::outside::Outside;

use crate::keys::Keys;

/// The host environment of this process. Shared by any number of renderings on several threads.
#[derive(Default)]
pub struct Host {
    keys: Keys,
}

impl Host {
    pub fn new() -> Self {
        Self::default()
    }

    /// The environment without a cluster and without DNS lookups.
    pub fn outside(&self) -> Outside<'_> {
        Outside { clock: self, random: self, crypto: &self.keys, ..Outside::NOWHERE }
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut digits = String::with_capacity(64);
    for byte in digest.as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
