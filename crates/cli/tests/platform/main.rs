//! The commands that ask a running platform, run in this process.
//!
//! [`desk`] is where somebody types them, and [`house`] a whole platform on a loopback port: [`story`] is what people do there, and [`releases`]
//! what they do with releases.
//! [`strange`] has servers that are not ours or say odd things.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod desk;
mod house;
mod releases;
mod story;
mod strange;
