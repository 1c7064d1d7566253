//! Limit on alias expansion.
//!
//! go-yaml counts nodes while decoding and rejects a document in which too many come from aliases. Here the sizes are computed once,
//! before anything is copied, so that a YAML bomb costs no more than its own length.

use std::collections::HashMap;

use super::tape::{Content, Tape};

/// The first alias that exceeds the limit, and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub at: usize,
    pub text: String,
}

/// Number of decoded nodes per node, including expanded aliases.
struct Sizes<'t, 'a> {
    tape: &'t Tape<'a>,
    known: HashMap<usize, Size>,
}

/// The decoded size of a node.
#[derive(Clone, Copy)]
enum Size {
    /// Being counted. An alias to such a node forms a cycle.
    Open,
    Nodes(u64),
}

/// A size larger than that of any document.
const CIRCLE: u64 = u64::MAX;

pub(super) fn refusal(tape: &Tape<'_>) -> Option<Refusal> {
    if !tape.aliases {
        return None;
    }
    let mut sizes = Sizes { tape, known: HashMap::new() };
    // Aliases only point backwards, so in text order all sizes they need are known and no recursion goes deep.
    for node in &tape.nodes {
        if let Content::Alias { target, .. } = node.content {
            sizes.of(target);
        }
    }
    let mut walk = Walk { sizes, decoded: 1, from_aliases: 0, refusal: None };
    walk.node(0);
    walk.refusal
}

/// Counters of decoded nodes, updated in go-yaml's decoding order.
struct Walk<'t, 'a> {
    sizes: Sizes<'t, 'a>,
    decoded: u64,
    from_aliases: u64,
    refusal: Option<Refusal>,
}

impl Walk<'_, '_> {
    /// Visits nodes in go-yaml's decoding order.
    fn node(&mut self, at: usize) {
        let tape = self.sizes.tape;
        let Some(node) = tape.nodes.get(at) else { return };
        self.decoded += 1;
        match &node.content {
            Content::Scalar { .. } => self.check(at),
            Content::Alias { name, target } => {
                let size = self.sizes.of(*target);
                if size == CIRCLE {
                    let text = format!("yaml: anchor '{name}' value contains itself");
                    self.refusal.get_or_insert(Refusal { at, text });
                    return;
                }
                self.decoded = self.decoded.saturating_add(size);
                self.from_aliases = self.from_aliases.saturating_add(size);
                self.check(at);
            }
            Content::Sequence => {
                for child in tape.children(at) {
                    if self.refusal.is_none() {
                        self.node(child);
                    }
                }
            }
            Content::Mapping => {
                let mut children = tape.children(at);
                while let (Some(key), Some(value)) = (children.next(), children.next()) {
                    if self.refusal.is_some() {
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
            self.refusal.get_or_insert(Refusal { at, text });
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

impl Sizes<'_, '_> {
    fn of(&mut self, at: usize) -> u64 {
        let Some(node) = self.tape.nodes.get(at) else { return 0 };
        if matches!(node.content, Content::Scalar { .. }) {
            return 1;
        }
        match self.known.get(&at) {
            Some(Size::Open) => return CIRCLE,
            Some(Size::Nodes(nodes)) => return *nodes,
            None => {}
        }
        self.known.insert(at, Size::Open);
        // No recursion into children: all descendants are adjacent on the tape.
        let mut nodes = 1_u64;
        let mut child = at + 1;
        while child < node.next && nodes != CIRCLE {
            let Some(node) = self.tape.nodes.get(child) else { break };
            nodes = match &node.content {
                Content::Alias { target, .. } => {
                    // One more for the alias itself.
                    nodes.saturating_add(self.of(*target)).saturating_add(1)
                }
                _ => nodes.saturating_add(1),
            };
            child += 1;
        }
        self.known.insert(at, Size::Nodes(nodes));
        nodes
    }
}
