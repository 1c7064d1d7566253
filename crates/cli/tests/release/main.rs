//! Release commands directly on an embedded cluster that listens on loopback, compared with the real Helm named by
//! `LONGSHORE_HELM_4_3`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod errors;
mod harness;
mod helm_comparison;
mod lifecycle;
