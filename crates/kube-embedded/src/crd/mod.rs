//! Custom resource definitions and the objects they define.

/// What one version of a CRD says beyond names and shape.
pub struct CustomKind {}
