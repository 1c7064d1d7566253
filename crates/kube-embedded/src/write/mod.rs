//! Patches, server-side apply, and field ownership.
//!
//! Pure: no I/O; the caller passes the time. The verbs decode the request, compute the new object here, then default, admit, validate and
//! store it.

pub mod apply;
pub mod json_patch;
pub mod strategic;
