//! What tests of several rooms share: clusters, faults, clocks. A dev-dependency only.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
