//! The Helm version whose behaviour is followed, where versions differ.

/// A major version of Helm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// 3.17, built with Go 1.23.
    Helm3,
    /// 4.3, built with Go 1.26.
    #[default]
    Helm4,
}
