//! Bringing objects onto a cluster: what is wanted is written, what was wanted before and is no more is taken away.

use tokio::time::Instant;

use crate::object::Object;
use crate::owner::Ownership;

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As Helm 4: the cluster merges, and knows who set which field.
    ServerSide {
        /// Take fields from others who set them.
        force_conflicts: bool,
    },
    /// As Helm 3: from the last manifest, the new one and what is there.
    ThreeWay,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub way: Way,
    /// Whose the objects are. Hooks are nobody's.
    pub ownership: Option<Ownership>,
    /// Replace what is there instead of merging into it.
    pub force_replace: bool,
    /// Let the cluster check everything and keep nothing.
    pub dry_run: bool,
    /// Have fields refused that the kind does not know.
    pub validate: bool,
    /// Until when definitions may take to be established; a minute where it is not said.
    pub deadline: Option<Instant>,
}

impl Options {
    pub fn new(way: Way) -> Self {
        Self { way, ownership: None, force_replace: false, dry_run: false, validate: true, deadline: None }
    }
}

/// What was done, with the namespaces that the objects ended in.
#[derive(Debug, Default)]
pub struct Applied {
    pub created: Vec<Object>,
    pub changed: Vec<Object>,
    pub unchanged: Vec<Object>,
    /// What was wanted before, and is no more.
    pub removed: Vec<Object>,
    /// The same, but it stays, because it says so or is somebody else's.
    pub kept: Vec<Object>,
}
