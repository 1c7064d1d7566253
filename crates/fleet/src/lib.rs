//! Nodes, pools and what runs on them, as the console of the edge shows them.
//!
//! Modules in reading order: what is answered ([`rows`]).

pub mod rows;

/// What a caller may see. Whoever asks for a look has decided it by who the caller is.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// Nodes and pools of the tenant with this id; none: all of them.
    pub tenant: Option<&'a str>,
    pub namespaces: Namespaces<'a>,
}

/// Whose pods and workloads.
#[derive(Clone, Copy, Debug)]
pub enum Namespaces<'a> {
    All,
    Of(&'a [String]),
}
