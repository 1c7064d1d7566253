//! How much a workspace may use.

mod shares;

pub use shares::{Amounts, QuotaError, shares};
