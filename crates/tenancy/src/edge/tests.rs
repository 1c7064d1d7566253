//! Logging in at the edge, and the scripts that people get.

use super::*;
