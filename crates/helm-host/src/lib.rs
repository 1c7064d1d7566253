//! The host environment of the Helm crates: clock, randomness, keys and certificates, and charts on disk.
//!
//! The rendering crates do no I/O of their own; the command line and the server pass them this implementation.

mod alongside;
mod clock;
pub mod disk;
mod keys;
mod rng;
mod sniff;

pub use alongside::run_alongside;
pub use disk::{load, load_without_detection};

use std::fmt::Write;

use helm_template::env::RenderEnv;

use crate::keys::HostCrypto;

/// The host environment of this process. Shared by any number of renderings on several threads.
#[derive(Default)]
pub struct Host {
    crypto: HostCrypto,
}

impl Host {
    pub fn new() -> Self {
        Self::default()
    }

    /// The environment without a cluster and without DNS lookups.
    pub fn render_env(&self) -> RenderEnv<'_> {
        RenderEnv { clock: self, random: self, crypto: &self.crypto, ..RenderEnv::NULL }
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
