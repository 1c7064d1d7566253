//! The rules that a user has in a namespace, and which other rules they do not cover.
//!
//! Roles are shared with the compiled policy, and each is present once, however many bindings refer to it. `reviews` lists the rules,
//! `escalation` compares them with the rules of a role that the user writes or binds.
//!
//! Invariant: [`EffectiveRules::missing_rules`] takes at most [`MAX_STEPS`] steps; rules not compared within that limit count as missing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::rbac_sources::Role;
use super::rule::{Rule, RulePart};
use super::rule_index::{IndexedRules, StepBudget};

/// Maximum number of missing roles that one response names.
const MAX_ERRORS: usize = 20;
/// Maximum number of combinations of objects and verbs into which requested rules are split. Further rules must be covered as a whole.
const MAX_PARTS: usize = 20_000;
/// Step limit of one comparison, about a tenth of a second.
const MAX_STEPS: usize = 50_000_000;
/// Maximum bytes of missing rules in an error message.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The rules of a user in a namespace.
#[derive(Default)]
pub(super) struct EffectiveRules {
    roles: Vec<Arc<Role>>,
    /// Addresses of `roles`, for deduplication.
    added_roles: HashSet<usize>,
    pub errors: ResolutionErrors,
}

/// References of bindings to roles that do not exist.
#[derive(Default)]
pub(super) struct ResolutionErrors(Vec<Arc<str>>);

impl ResolutionErrors {
    /// Adds an error, deduplicated. Errors beyond [`MAX_ERRORS`] are dropped.
    pub fn add(&mut self, error: &Arc<str>) {
        if self.0.len() < MAX_ERRORS && !self.0.contains(error) {
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

impl EffectiveRules {
    pub fn add(&mut self, role: &Arc<Role>) {
        if self.added_roles.insert(Arc::as_ptr(role).addr()) {
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

    /// Describes the parts of `requested` that no rule of the user covers, one rule per line, sorted; `None` if all are covered.
    pub fn missing_rules(&self, requested: &[Rule]) -> Option<String> {
        let mut coverage = Coverage::new(self);
        let mut lines = MissingRuleLines::default();
        // Parts about the same objects differ by verb only and share one line.
        let mut merged: BTreeMap<[&[String]; 3], Vec<&str>> = BTreeMap::new();
        let mut parts = 0_usize;
        for rule in requested {
            // A rule without verbs grants nothing.
            if rule.part_count() == 0 || coverage.covers(&rule.as_part()) {
                continue;
            }
            parts = parts.saturating_add(rule.part_count());
            if parts > MAX_PARTS || coverage.steps.is_exhausted() {
                lines.add(|| rule.as_part().describe());
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
            let part = RulePart { groups, resources, names, ..RulePart::default() };
            lines.add(|| part.describe_with(&verbs));
        }
        if coverage.steps.is_exhausted() {
            lines.add_note("the rules are too many to compare all of them: use fewer rules and values");
        }
        lines.text()
    }
}

/// Compares parts of requested rules with the user's roles.
struct Coverage<'a> {
    /// Sorted by size: rules with wildcards are mostly in small roles.
    roles: Vec<&'a IndexedRules>,
    steps: StepBudget,
}

impl<'a> Coverage<'a> {
    fn new(held: &'a EffectiveRules) -> Self {
        let mut roles: Vec<&IndexedRules> = held.roles.iter().map(|role| role.rules()).collect();
        roles.sort_by_key(|role| role.list().len());
        Self { roles, steps: StepBudget::new(MAX_STEPS) }
    }

    /// Whether a single rule covers the part.
    fn covers(&mut self, part: &RulePart<'_>) -> bool {
        !self.steps.is_exhausted() && self.roles.iter().any(|role| role.covers(part, &mut self.steps))
    }
}

/// Sorted lines of an error message, bounded in bytes.
#[derive(Default)]
struct MissingRuleLines {
    sorted: BTreeSet<String>,
    bytes: usize,
    omitted: usize,
    note: Option<&'static str>,
}

impl MissingRuleLines {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.bytes >= MAX_TEXT_BYTES {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        let mut line = line();
        if line.len() > MAX_TEXT_BYTES {
            line.truncate(line.floor_char_boundary(MAX_TEXT_BYTES));
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
        let left_out = (self.omitted > 0).then(|| format!("and {} more", self.omitted));
        let end = left_out.into_iter().chain(self.note.map(str::to_owned));
        Some(self.sorted.into_iter().chain(end).collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests;
