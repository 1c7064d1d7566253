//! From trees to text.
//!
//! A [`Machine`] runs templates of one [`Templates`] set with one table of [`Functions`], under [`Limits`]. What a
//! template sees (order, scopes, nil) and what an error says is as in Go.

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

/// Why a value that contains itself is not printed.
const ENDLESS: &str = "a value without end cannot be printed";

/// What the missing entry of a map is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The zero value of the map's type.
    #[default]
    Zero,
    Error,
}

/// What would have been an error, in the words of the chart's author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlooked {
    Failed(String),
    /// Something required is not there.
    Missing(String),
    /// Something required is an empty text.
    Empty(String),
}

/// How much is kept of it.
const MOST_OVERLOOKED: usize = 1000;

pub struct Machine<'m> {
    pub templates: Templates,
    pub functions: &'m Functions,
    /// What its functions may reach for.
    pub outside: Outside<'m>,
    pub missing: Missing,
    /// `range` may go over an integer (Go 1.22 and later, as Helm 4 has it).
    pub ranges_over_integers: bool,
    /// A chart is only looked over: `fail` does not fail, and nothing is `required`.
    pub lint: bool,
    /// What lint has let pass, up to a number that nobody reads to the end.
    pub overlooked: Vec<Overlooked>,
    /// What was included and has not come back yet: how often, by name.
    included: HashMap<Str, usize>,
    texts: include::Texts,
    budget: &'m Budget<'m>,
    depth: usize,
    /// How often the stack has been made longer.
    stacks: usize,
    /// Maps into which templates have put others, by place: they may hold themselves, and would never be freed.
    changed: HashMap<usize, Trace>,
}

/// What was put into a map by a template is gone with the machine.
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

    /// Lets something pass.
    pub(crate) fn overlook(&mut self, what: Overlooked) {
        if self.overlooked.len() < MOST_OVERLOOKED {
            self.overlooked.push(what);
        }
    }

    /// Runs the template of this name. What comes out is text unless what went in was not.
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

    /// Counts work that takes as long as so many steps.
    pub(crate) fn charge(&self, steps: u64) -> Result<(), Str> {
        self.budget.charge(steps)
    }

    /// Counts what was printed, and what functions have made. Every result is counted where it comes back.
    pub(crate) fn wrote(&self, bytes: usize) -> Result<(), Str> {
        self.budget.take(bytes)
    }

    /// For a function that is about to make much out of a few words: `repeat`, `until`.
    pub(crate) fn room_for(&self, bytes: usize) -> Result<(), Str> {
        self.budget.fits(bytes)
    }

    pub(crate) fn budget(&self) -> &'m Budget<'m> {
        self.budget
    }

    /// How many bytes may still be made.
    pub(crate) fn room(&self) -> usize {
        self.budget.left()
    }

    /// A template has put `value` into the map.
    pub(crate) fn put_into(&mut self, map: &Map, value: &Value) {
        if matches!(value, Value::List(_) | Value::Map(_)) {
            let trace = map.trace();
            self.changed.entry(trace.address()).or_insert(trace);
        }
    }
}
