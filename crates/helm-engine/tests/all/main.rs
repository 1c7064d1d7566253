//! The engine beside the real Helm.
//!
//! [`parity`] renders the charts of `LONGSHORE_CORPUS` and holds them against what Helm printed. [`errors`] are small
//! charts of our own that fail, and Helm's words for it; [`differential`] are templates that nobody wrote; [`hostile`] is
//! what means us harm. Where `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3` name programs (`cargo xtask test --real` sees
//! to that), they are asked as well.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::format_collect, clippy::format_push_string, reason = "made once, and read more easily")]

mod differential;
mod errors;
mod hostile;
mod ours;
mod parity;
mod real;
mod shares;
