//! How a new object comes out of an old one and a request: patches, and who owns which field.
//!
//! Everything here is pure. The verbs decode the request, ask one of these for the new object, and
//! then default, admit, validate and store it.

pub mod apply;
pub mod json_patch;
pub mod strategic;
