//! Limit on alias expansion.
//!
//! go-yaml counts nodes while decoding and rejects a document in which too many come from aliases. Here the sizes are computed once,
//! before anything is copied, so that a YAML bomb costs no more than its own length.

use std::collections::HashMap;

use super::tape::{Content, Tape};

/// The first alias that exceeds the limit, and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AliasLimitError {
    pub at: usize,
    pub text: String,
}

/// Number of decoded nodes per node, including expanded aliases.
struct NodeCounts<'t, 'a> {
    tape: &'t Tape<'a>,
    counts: HashMap<usize, NodeCount>,
}

/// The decoded size of a node.
#[derive(Clone, Copy)]
enum NodeCount {
    /// Being counted. An alias to such a node forms a cycle.
    InProgress,
    Counted(u64),
}

/// A size larger than that of any document.
const CYCLE: u64 = u64::MAX;

pub(super) fn check_aliases(tape: &Tape<'_>) -> Option<AliasLimitError> {
    if !tape.has_aliases {
        return None;
    }
    let mut sizes = NodeCounts { tape, counts: HashMap::new() };
    // Aliases only point backwards, so in text order all sizes they need are known and no recursion goes deep.
    for node in &tape.nodes {
        if let Content::Alias { target, .. } = node.content {
            sizes.node_count(target);
        }
    }
    let mut walk = AliasCounter { sizes, decoded: 1, from_aliases: 0, error: None };
    walk.node(0);
    walk.error
}

/// Counters of decoded nodes, updated in go-yaml's decoding order.
struct AliasCounter<'t, 'a> {
    sizes: NodeCounts<'t, 'a>,
    decoded: u64,
    from_aliases: u64,
    error: Option<AliasLimitError>,
}

impl AliasCounter<'_, '_> {
    /// Visits nodes in go-yaml's decoding order.
    fn node(&mut self, at: usize) {
        let tape = self.sizes.tape;
        let Some(node) = tape.nodes.get(at) else { return };
        self.decoded += 1;
        match &node.content {
            Content::Scalar { .. } => self.check(at),
            Content::Alias { name, target } => {
                let size = self.sizes.node_count(*target);
                if size == CYCLE {
                    let text = format!("yaml: anchor '{name}' value contains itself");
                    self.error.get_or_insert(AliasLimitError { at, text });
                    return;
                }
                self.decoded = self.decoded.saturating_add(size);
                self.from_aliases = self.from_aliases.saturating_add(size);
                self.check(at);
            }
            Content::Sequence => {
                for child in tape.children(at) {
                    if self.error.is_none() {
                        self.node(child);
                    }
                }
            }
            Content::Mapping => {
                let mut children = tape.children(at);
                while let (Some(key), Some(value)) = (children.next(), children.next()) {
                    if self.error.is_some() {
                        return;
                    }
                    if !tape.is_merge(key) {
                        self.node(key);
                        self.node(value);
                    } else if matches!(tape.nodes.get(value), Some(node) if matches!(node.content, Content::Sequence))
                    {
                        let maps: Vec<_> = tape.children(value).collect();
                        for map in maps.into_iter().rev() {
                            self.node(map);
                        }
                    } else {
                        self.node(value);
                    }
                }
            }
        }
    }

    fn check(&mut self, at: usize) {
        #[expect(clippy::cast_precision_loss, reason = "as go-yaml does")]
        let ratio = self.from_aliases as f64 / self.decoded as f64;
        if self.from_aliases > 100 && self.decoded > 1000 && ratio > allowed(self.decoded) {
            let text = "yaml: document contains excessive aliasing".to_owned();
            self.error.get_or_insert(AliasLimitError { at, text });
        }
    }
}

/// Allowed ratio of nodes from aliases: almost all in a small document, a tenth in a large one.
fn allowed(decoded: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    #[expect(clippy::cast_precision_loss, reason = "far below the limit")]
    match decoded {
        0..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((decoded - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

impl NodeCounts<'_, '_> {
    fn node_count(&mut self, at: usize) -> u64 {
        let Some(node) = self.tape.nodes.get(at) else { return 0 };
        if matches!(node.content, Content::Scalar { .. }) {
            return 1;
        }
        match self.counts.get(&at) {
            Some(NodeCount::InProgress) => return CYCLE,
            Some(NodeCount::Counted(nodes)) => return *nodes,
            None => {}
        }
        self.counts.insert(at, NodeCount::InProgress);
        // No recursion into children: all descendants are adjacent on the tape.
        let mut nodes = 1_u64;
        let mut child = at + 1;
        while child < node.next && nodes != CYCLE {
            let Some(node) = self.tape.nodes.get(child) else { break };
            nodes = match &node.content {
                Content::Alias { target, .. } => {
                    // One more for the alias itself.
                    nodes.saturating_add(self.node_count(*target)).saturating_add(1)
                }
                _ => nodes.saturating_add(1),
            };
            child += 1;
        }
        self.counts.insert(at, NodeCount::Counted(nodes));
        nodes
    }
}
