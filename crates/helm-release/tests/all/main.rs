//! Records and actions on an embedded cluster.
//!
//! Where `LONGSHORE_HELM_3_17`, `LONGSHORE_HELM_3_22` and `LONGSHORE_HELM_4_3` name programs
//! (`cargo xtask test --real` sets them), the real Helm programs read our records and we read theirs. Recorded output of
//! them is in `tests/records`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod actions;
mod fixture;
mod helm_cli;
mod interop;
mod lock;
mod records;
mod render;
mod storage;
