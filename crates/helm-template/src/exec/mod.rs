//! From trees to text.
//!
//! A [`Machine`] runs templates of one [`Templates`] set with one table of [`Functions`], under [`Limits`]. What a
//! template sees (order, scopes, nil) and what an error says is as in Go.

mod builtin;
mod call;
mod compare;
mod eval;
mod functions;
mod templates;
mod walk;

#[cfg(test)]
mod tests;

use crate::outside::Outside;
use crate::value::{Str, Value};

pub use functions::{Function, Functions, Row, Run};
pub use templates::Templates;

/// Why nothing came out: the whole text, as Go words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub Str);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What a template may use up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes, iterations and calls.
    pub steps: u64,
    /// Bytes of all outputs together.
    pub output: usize,
    /// Templates inside templates.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 200_000_000, output: 512 << 20, depth: 1_000 }
    }
}

/// What the missing entry of a map is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The zero value of the map's type.
    #[default]
    Zero,
    Error,
}

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
    limits: Limits,
    steps: u64,
    written: usize,
    depth: usize,
}

impl<'m> Machine<'m> {
    pub fn new(templates: Templates, functions: &'m Functions, outside: Outside<'m>, limits: Limits) -> Self {
        Self {
            templates,
            functions,
            outside,
            missing: Missing::default(),
            ranges_over_integers: true,
            lint: false,
            limits,
            steps: 0,
            written: 0,
            depth: 0,
        }
    }

    /// Runs the template of this name. What comes out is text unless what went in was not.
    pub fn run(&mut self, name: &str, data: Value) -> Result<Vec<u8>, Error> {
        let Some(template) = self.templates.get(name) else {
            return Err(Error(
                format!(
                    "template: no template {} associated with template \"gotpl\"",
                    crate::go::quote(name)
                )
                .into(),
            ));
        };
        let mut out = Vec::new();
        walk::run(self, &template, data, &mut out)?;
        Ok(out)
    }

    fn step(&mut self) -> Result<(), Str> {
        self.steps += 1;
        if self.steps > self.limits.steps {
            return Err(format!("too much work: stopped after {} steps", self.limits.steps).into());
        }
        Ok(())
    }

    /// Counts what was printed, and what a function is about to make out of a few words: `repeat`, `until`.
    pub(crate) fn wrote(&mut self, bytes: usize) -> Result<(), Str> {
        self.written = self.written.saturating_add(bytes);
        if self.written > self.limits.output {
            return Err(format!("too much output: stopped after {} bytes", self.limits.output).into());
        }
        Ok(())
    }
}
