//! Chart archives: `.tgz` files read into memory, never onto a disk.
//!
//! An archive comes from strangers. It is unpacked no further than its headers are found good; names that lead out of
//! the chart, links that do, devices and second entries of one name are refused. Helm's own refusals come first and in
//! Helm's words.

mod gzip;
mod read;
mod tar;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::files_unless;
pub use read::{ArchiveError, Limits, files};
pub use write::{PackError, write};
