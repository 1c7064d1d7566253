//! The rules that a user has in a namespace, and which of other rules they do not cover.
//!
//! Roles are shared with the compiled policy, and each is present once, however many bindings refer to it. `reviews` lists the rules,
//! `escalation` compares them with those of a role that the user writes or binds.
//!
//! Invariant: [`HeldRules::missing`] takes at most [`MOST_STEPS`] steps; rules not compared within that limit count as missing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::rbac_sources::Role;
use super::rule::{Part, Rule};
use super::rule_index::{IndexedRules, Steps};

/// Maximum number of missing roles that one response names.
const MOST_ERRORS: usize = 20;
/// Maximum number of combinations of objects and verbs into which requested rules are split. Further rules must be covered as a whole.
const MOST_PARTS: usize = 20_000;
/// Step limit of one comparison, about a tenth of a second.
const MOST_STEPS: usize = 50_000_000;
/// Maximum bytes of missing rules in an error message.
const MOST_TEXT: usize = 64 << 10;

/// The rules of a user in a namespace.
#[derive(Default)]
pub(super) struct HeldRules {
    roles: Vec<Arc<Role>>,
    /// Addresses of `roles`, for deduplication.
    known: HashSet<usize>,
    pub errors: ResolutionErrors,
}

/// References of bindings to roles that do not exist.
#[derive(Default)]
pub(super) struct ResolutionErrors(Vec<Arc<str>>);

impl ResolutionErrors {
    /// Adds an error, deduplicated. Errors beyond [`MOST_ERRORS`] are dropped.
    pub fn add(&mut self, error: &Arc<str>) {
        if self.0.len() < MOST_ERRORS && !self.0.contains(error) {
            self.0.push(error.clone());
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Formats one error verbatim, several as a list; `None` without errors.
    pub fn text(&self) -> Option<String> {
        match self.0.as_slice() {
            [] => None,
            [only] => Some(only.to_string()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }
}

impl HeldRules {
    pub fn add(&mut self, role: &Arc<Role>) {
        if self.known.insert(Arc::as_ptr(role).addr()) {
            self.roles.push(role.clone());
        }
    }

    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.roles.iter().flat_map(|role| role.rules().list())
    }

    /// Total size of the roles in bytes.
    pub fn bytes(&self) -> usize {
        self.roles.iter().map(|role| role.bytes()).fold(0, usize::saturating_add)
    }

    /// Describes the parts of `wanted` that no rule of the user covers, one rule per line, sorted; `None` if all are covered.
    pub fn missing(&self, wanted: &[Rule]) -> Option<String> {
        let mut coverage = Coverage::of(self);
        let mut lines = Lines::default();
        // Parts about the same objects differ by verb only and share one line.
        let mut merged: BTreeMap<[&[String]; 3], Vec<&str>> = BTreeMap::new();
        let mut parts = 0_usize;
        for rule in wanted {
            // A rule without verbs grants nothing.
            if rule.part_count() == 0 || coverage.covers(&rule.whole()) {
                continue;
            }
            parts = parts.saturating_add(rule.part_count());
            if parts > MOST_PARTS || coverage.steps.are_over() {
                lines.add(|| rule.whole().describe());
                continue;
            }
            for object in rule.objects() {
                let is_missing = |verb: &&String| !coverage.covers(&object.with_verb(verb));
                let mut verbs = rule.verbs.iter().filter(is_missing).map(String::as_str).peekable();
                if verbs.peek().is_some() {
                    merged.entry([object.groups, object.resources, object.names]).or_default().extend(verbs);
                }
            }
            for url in rule.urls() {
                for part in rule.verbs.iter().map(|verb| url.with_verb(verb)) {
                    if !coverage.covers(&part) {
                        lines.add(|| part.describe());
                    }
                }
            }
        }
        for ([groups, resources, names], verbs) in merged {
            let part = Part { groups, resources, names, ..Part::default() };
            lines.add(|| part.describe_with(&verbs));
        }
        if coverage.steps.are_over() {
            lines.add_note("the rules are too many to compare all of them: use fewer rules and values");
        }
        lines.text()
    }
}

/// Compares parts of requested rules with the user's roles.
struct Coverage<'a> {
    /// Sorted by size: rules with wildcards are mostly in small roles.
    roles: Vec<&'a IndexedRules>,
    steps: Steps,
}

impl<'a> Coverage<'a> {
    fn of(held: &'a HeldRules) -> Self {
        let mut roles: Vec<&IndexedRules> = held.roles.iter().map(|role| role.rules()).collect();
        roles.sort_by_key(|role| role.list().len());
        Self { roles, steps: Steps::new(MOST_STEPS) }
    }

    /// Whether a single rule covers the part.
    fn covers(&mut self, part: &Part<'_>) -> bool {
        !self.steps.are_over() && self.roles.iter().any(|role| role.covers(part, &mut self.steps))
    }
}

/// Sorted lines of an error message, bounded in bytes.
#[derive(Default)]
struct Lines {
    sorted: BTreeSet<String>,
    bytes: usize,
    left_out: usize,
    note: Option<&'static str>,
}

impl Lines {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.bytes >= MOST_TEXT {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let mut line = line();
        if line.len() > MOST_TEXT {
            line.truncate(line.floor_char_boundary(MOST_TEXT));
            line.push_str("...");
        }
        self.bytes = self.bytes.saturating_add(line.len());
        self.sorted.insert(line);
    }

    fn add_note(&mut self, note: &'static str) {
        self.note = Some(note);
    }

    fn text(self) -> Option<String> {
        if self.sorted.is_empty() {
            return None;
        }
        let left_out = (self.left_out > 0).then(|| format!("and {} more", self.left_out));
        let end = left_out.into_iter().chain(self.note.map(str::to_owned));
        Some(self.sorted.into_iter().chain(end).collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests;
