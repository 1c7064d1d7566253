//! Visibility of a caller, by which views are restricted.

/// The caller's visibility, determined by the caller of [`crate::Fleet::view`].
#[derive(Clone, Copy, Debug)]
pub struct Visibility<'a> {
    /// Nodes and pools of this tenant; `None` means all.
    pub tenant: Option<&'a str>,
    pub namespaces: Namespaces<'a>,
}

/// Namespaces of visible pods and workloads.
#[derive(Clone, Copy, Debug)]
pub enum Namespaces<'a> {
    All,
    Only(&'a [String]),
}
