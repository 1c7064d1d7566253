//! Maps: made, changed in place, merged, searched.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
