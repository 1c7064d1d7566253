//! Semantic versions and their constraints.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
