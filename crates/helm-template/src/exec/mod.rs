//! Template execution: from syntax trees to text.
//!
//! A [`Machine`] runs the templates of one [`Templates`] set with one table of [`Functions`], within a [`Budget`]. Evaluation order,
//! scopes, nil handling and error messages are those of Go.

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
use crate::outside::Outside;
use crate::value::{Map, Str, Trace, Value};

pub use crate::budget::Limits;
pub use error::Error;
pub use functions::{Function, Functions, Row, Run};
pub use include::without_no_value;
pub use templates::Templates;

/// Error for printing a value that contains itself.
const ENDLESS: &str = "a value without end cannot be printed";

/// The result of looking up a missing map key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The zero value of the map's type.
    #[default]
    Zero,
    Error,
}

/// A `fail` or `required` that lint mode ignored, with the chart author's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlooked {
    Failed(String),
    /// A required value is missing.
    Missing(String),
    /// A required value is an empty string.
    Empty(String),
}

/// Maximum number of ignored failures that are recorded.
const MOST_OVERLOOKED: usize = 1000;

/// The interpreter of one rendering: templates, functions, environment and budget.
pub struct Machine<'m> {
    pub templates: Templates,
    pub functions: &'m Functions,
    /// The environment that functions may use.
    pub outside: Outside<'m>,
    pub missing: Missing,
    /// Whether `range` accepts an integer (Go 1.22 and later, used by Helm 4).
    pub ranges_over_integers: bool,
    /// Lint mode: `fail` and `required` do not fail.
    pub lint: bool,
    /// Failures that lint mode ignored, at most `MOST_OVERLOOKED`.
    pub overlooked: Vec<Overlooked>,
    /// Active `include` calls per template name.
    included: HashMap<Str, usize>,
    texts: include::Texts,
    budget: &'m Budget<'m>,
    depth: usize,
    /// The number of stack segments added so far.
    stacks: usize,
    /// Maps that templates have modified to hold other maps or lists, by address. They may form reference cycles, which `Drop` breaks.
    changed: HashMap<usize, Trace>,
}

/// Clears modified maps, so that reference cycles are freed.
impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.changed.values().for_each(Trace::clear);
    }
}

impl<'m> Machine<'m> {
    pub fn new(
        templates: Templates,
        functions: &'m Functions,
        outside: Outside<'m>,
        budget: &'m Budget<'m>,
    ) -> Self {
        Self {
            templates,
            functions,
            outside,
            missing: Missing::default(),
            ranges_over_integers: true,
            lint: false,
            overlooked: Vec::new(),
            included: HashMap::new(),
            texts: include::Texts::default(),
            budget,
            depth: 0,
            stacks: 0,
            changed: HashMap::new(),
        }
    }

    /// Records an ignored failure.
    pub(crate) fn overlook(&mut self, what: Overlooked) {
        if self.overlooked.len() < MOST_OVERLOOKED {
            self.overlooked.push(what);
        }
    }

    /// Runs the template named `name`. The output is UTF-8 if its input was.
    pub fn run(&mut self, name: &str, data: Value) -> Result<Vec<u8>, Error> {
        let Some(template) = self.templates.get(name) else {
            let name = crate::go::quote(name);
            let why = format!("template: no template {name} associated with template \"gotpl\"");
            return Err(Error::new(why));
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
    pub(crate) fn wrote(&self, bytes: usize) -> Result<(), Str> {
        self.budget.take(bytes)
    }

    /// Fails if `bytes` do not fit the budget. For functions whose output is much larger than their input: `repeat`, `until`.
    pub(crate) fn room_for(&self, bytes: usize) -> Result<(), Str> {
        self.budget.fits(bytes)
    }

    pub(crate) fn budget(&self) -> &'m Budget<'m> {
        self.budget
    }

    /// The number of bytes left in the budget.
    pub(crate) fn room(&self) -> usize {
        self.budget.left()
    }

    /// Records that a template has inserted `value` into the map.
    pub(crate) fn put_into(&mut self, map: &Map, value: &Value) {
        if matches!(value, Value::List(_) | Value::Map(_)) {
            let trace = map.trace();
            self.changed.entry(trace.address()).or_insert(trace);
        }
    }
}
