//! Rules of the kinds that run pods, and of those that limit them.

use super::Rules;

pub const RULES: &[Rules] = &[];
