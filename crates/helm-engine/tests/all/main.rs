//! The engine beside the real Helm.
//!
//! [`parity`] renders the charts of `LONGSHORE_CORPUS` and holds them against what Helm printed. [`errors`] are small
//! charts of our own that fail, and Helm's words for it; [`differential`] are templates that nobody wrote. Where `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3` name
//! programs (`cargo xtask test --real` sees to that), they are asked as well.

mod differential;
mod errors;
mod hostile;
mod ours;
mod parity;
mod real;
