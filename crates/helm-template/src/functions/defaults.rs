//! What stands in for a missing value, and refusals: `default`, `coalesce`, `ternary`, `fail`, `required`.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
