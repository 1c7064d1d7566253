//! Numbers.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
