//! Chart archives: `.tgz` files unpacked into memory, never to disk.
//!
//! Archives are untrusted. Unpacking stops at the first invalid header; path traversal, links that leave the chart,
//! devices and duplicate entries are rejected. Where Helm rejects an archive too, its check runs first and its
//! message is used.

mod gzip;
mod read;
mod tar;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::read_files_interruptible;
pub use read::{ArchiveError, ArchiveLimits, read_files};
pub use write::{PackError, write};
