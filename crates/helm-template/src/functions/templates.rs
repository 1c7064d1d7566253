//! Templates inside templates, and the cluster: `include`, `tpl`, `lookup`.

use crate::exec::Row;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
];
