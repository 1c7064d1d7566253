//! How a new object comes out of an old one and a request: patches, and who owns which field.

pub mod apply;
pub mod json_patch;
pub mod strategic;
