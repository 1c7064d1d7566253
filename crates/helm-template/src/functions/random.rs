//! Random texts and numbers.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
