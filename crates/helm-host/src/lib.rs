//! What the Helm crates take from outside: the clock, chance, keys and certificates, and charts that lie in folders.
//!
//! The crates that render touch none of it by themselves; the command line and the server give them this.

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

/// This machine. One serves any number of renderings, of several threads.
#[derive(Default)]
pub struct Host {
    keys: Keys,
}

impl Host {
    pub fn new() -> Self {
        Self::default()
    }

    /// Without a cluster, and without asking for the addresses of hosts.
    pub fn outside(&self) -> Outside<'_> {
        Outside { clock: self, random: self, crypto: &self.keys, ..Outside::NOWHERE }
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut digits = String::with_capacity(64);
    for byte in digest.as_ref() {
        // Writing to a text does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
