//! Tests of the engine against the real Helm programs.
//!
//! - [`parity`]: charts of `LONGSHORE_CORPUS`, compared with Helm's recorded output
//! - [`errors`]: small failing charts with Helm's error messages
//! - [`differential`]: generated templates
//! - [`hostile`], attacks
//!
//! Where `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3` name programs (`cargo xtask test --real` sets them), these
//! are run as well.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::format_collect, clippy::format_push_string, reason = "made once, and read more easily")]

mod budget_shares;
mod differential;
mod errors;
mod helm_program;
mod hostile;
mod longshore;
mod parity;
