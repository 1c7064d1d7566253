//! Records and what is done with them, on an embedded cluster.
//!
//! Where `LONGSHORE_HELM_3_17`, `LONGSHORE_HELM_3_22` and `LONGSHORE_HELM_4_3` name programs (`cargo xtask test --real` sees
//! to it), the real Helms read what we write and we what they write. What they wrote once is in `tests/records`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acts;
mod helms;
mod hold;
mod interop;
mod records;
mod render;
mod storage;
mod world;
