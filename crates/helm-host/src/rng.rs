//! Randomness from the operating system.
//!
//! Not from aws-lc's generator: that first collects CPU jitter for some 30 milliseconds, ten times the rendering time of a whole
//! chart.

use helm_template::env::Random;

use crate::Host;

impl Random for Host {
    fn fill(&self, bytes: &mut [u8]) {
        // Predictable passwords would be worse than an error.
        getrandom::fill(bytes).expect("the system gives randomness");
    }
}
