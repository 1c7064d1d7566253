//! The commands that ask a running platform, run in this process.
//!
//! [`desk`] is where somebody types them, [`strange`] has servers that are not ours or say odd things.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod desk;
mod strange;
