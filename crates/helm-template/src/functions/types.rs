//! Conversion of numbers and texts, and questions about Go types.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
