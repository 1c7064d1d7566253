//! Template execution: from syntax trees to text.
//!
//! A [`Machine`] runs the templates of one [`Templates`] set with one table of [`Functions`], within a [`Budget`]. Evaluation order,
//! scopes, nil handling and error messages match Go.

mod builtin;
mod call;
mod compare;
mod error;
mod eval;
mod functions;
mod include;
mod templates;
mod values;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::budget::Budget;
use crate::env::RenderEnv;
use crate::value::{Map, Str, Value, WeakMap};

pub use crate::budget::RenderLimits;
pub use error::ExecError;
pub use functions::{Function, FunctionBody, FunctionRow, Functions};
pub use include::without_no_value;
pub use templates::Templates;

/// Error for printing a value that contains itself.
const CYCLIC_VALUE_ERROR: &str = "a value without end cannot be printed";

/// The result of looking up a missing map key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// The zero value of the map's type.
    #[default]
    Zero,
    Error,
}

/// A `fail` or `required` that lint mode ignored, with the chart author's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredFailure {
    Failed(String),
    /// A required value is missing.
    MissingValue(String),
    /// A required value is an empty string.
    EmptyValue(String),
}

/// Maximum number of ignored failures that are recorded.
const MAX_IGNORED_FAILURES: usize = 1000;

/// The interpreter of one rendering: templates, functions, environment and budget.
pub struct Machine<'m> {
    pub templates: Templates,
    pub functions: &'m Functions,
    /// The environment that functions may use.
    pub env: RenderEnv<'m>,
    pub missing_key: MissingKey,
    /// Whether `range` accepts an integer (Go 1.22 and later, used by Helm 4).
    pub ranges_over_integers: bool,
    /// Lint mode: `fail` and `required` do not fail.
    pub is_lint: bool,
    /// Failures that lint mode ignored, at most `MAX_IGNORED_FAILURES`.
    pub ignored_failures: Vec<IgnoredFailure>,
    /// Active `include` calls per template name.
    include_depths: HashMap<Str, usize>,
    tpl_cache: include::TplCache,
    budget: &'m Budget<'m>,
    depth: usize,
    /// The number of stack segments added so far.
    stack_segments: usize,
    /// Maps that templates have modified to hold other maps or lists, by address. They may form reference cycles, which `Drop` breaks.
    modified_maps: HashMap<usize, WeakMap>,
}

/// Clears modified maps, so that reference cycles are freed.
impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.modified_maps.values().for_each(WeakMap::clear);
    }
}

impl<'m> Machine<'m> {
    pub fn new(
        templates: Templates,
        functions: &'m Functions,
        outside: RenderEnv<'m>,
        budget: &'m Budget<'m>,
    ) -> Self {
        Self {
            templates,
            functions,
            env: outside,
            missing_key: MissingKey::default(),
            ranges_over_integers: true,
            is_lint: false,
            ignored_failures: Vec::new(),
            include_depths: HashMap::new(),
            tpl_cache: include::TplCache::default(),
            budget,
            depth: 0,
            stack_segments: 0,
            modified_maps: HashMap::new(),
        }
    }

    /// Records an ignored failure.
    pub(crate) fn record_ignored_failure(&mut self, what: IgnoredFailure) {
        if self.ignored_failures.len() < MAX_IGNORED_FAILURES {
            self.ignored_failures.push(what);
        }
    }

    /// Runs the template named `name`. The output is UTF-8 if its input was.
    pub fn run(&mut self, name: &str, data: Value) -> Result<Vec<u8>, ExecError> {
        let Some(template) = self.templates.get(name) else {
            let name = crate::go::quote(name);
            let why = format!("template: no template {name} associated with template \"gotpl\"");
            return Err(ExecError::new(why));
        };
        let mut out = Vec::new();
        walk::run(self, &template, data, &mut out)?;
        Ok(out)
    }

    fn step(&self) -> Result<(), Str> {
        self.charge(1)
    }

    /// Counts `steps` of work.
    pub(crate) fn charge(&self, steps: u64) -> Result<(), Str> {
        self.budget.charge(steps)
    }

    /// Counts bytes that were printed or returned by a function. Callers count every function result.
    pub(crate) fn charge_bytes(&self, bytes: usize) -> Result<(), Str> {
        self.budget.allocate(bytes)
    }

    /// Fails if `bytes` do not fit the budget. For functions whose output is much larger than their input: `repeat`, `until`.
    pub(crate) fn check_memory(&self, bytes: usize) -> Result<(), Str> {
        self.budget.fits(bytes)
    }

    pub(crate) fn budget(&self) -> &'m Budget<'m> {
        self.budget
    }

    /// The number of bytes left in the budget.
    pub(crate) fn remaining_bytes(&self) -> usize {
        self.budget.remaining_bytes()
    }

    /// Records that a template has inserted `value` into the map.
    pub(crate) fn record_insertion(&mut self, map: &Map, value: &Value) {
        if matches!(value, Value::List(_) | Value::Map(_)) {
            let trace = map.downgrade();
            self.modified_maps.entry(trace.address()).or_insert(trace);
        }
    }
}
