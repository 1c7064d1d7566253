//! Chance: what the system gives.
//!
//! Not aws-lc's generator: that first listens to the jitter of the processor for some 30 milliseconds, in which a
//! whole chart is rendered ten times over.

use helm_template::outside::Random;

use crate::Host;

impl Random for Host {
    fn fill(&self, bytes: &mut [u8]) {
        // Passwords that could be foretold would be worse than none.
        getrandom::fill(bytes).expect("the system gives randomness");
    }
}
