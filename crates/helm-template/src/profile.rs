//! Which Helm is followed, where they differ.

/// A generation of Helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// 3.17, built with Go 1.23.
    Helm3,
    /// 4.3, built with Go 1.26.
    #[default]
    Helm4,
}
