//! The table of functions that templates can call.

use std::collections::HashMap;

use super::{Error, Machine};
use crate::parse::Names;
use crate::profile::Profile;
use crate::value::{Str, Type, Value};

/// A template function with its signature and cost.
#[derive(Clone, Copy)]
pub struct Function {
    pub name: &'static str,
    /// Parameter types. If `variadic`, the last one is the type of all remaining arguments.
    pub params: &'static [Type],
    pub variadic: bool,
    pub run: Run,
    /// Whether the function prints all of its arguments.
    pub(super) goes_through: bool,
    /// Fixed cost of a call in steps.
    pub(super) steps: u64,
    /// Bytes of arguments that the function processes per step.
    pub(super) bytes_per_step: u64,
}

/// Fixed costs of functions that take a millisecond to a second each. Charts need a few such calls; the cost limits their number.
const SLOW: &[(&str, u64)] = &[
    ("bcrypt", PASSWORD),
    ("derivePassword", DERIVED),
    ("genCA", CERTIFICATE),
    ("genCAWithKey", CERTIFICATE),
    ("genSelfSignedCert", CERTIFICATE),
    ("genSelfSignedCertWithKey", CERTIFICATE),
    ("genSignedCert", CERTIFICATE),
    ("genSignedCertWithKey", CERTIFICATE),
    ("htpasswd", PASSWORD),
];
const PASSWORD: u64 = 2_500_000;
const DERIVED: u64 = 6_000_000;
const CERTIFICATE: u64 = 600_000;

/// Bytes per step for all functions except [`THOROUGH`].
const BYTES_PER_STEP: u64 = 16;

/// Functions that take several nanoseconds per byte of their arguments.
const THOROUGH: &[&str] = &[
    "b32dec",
    "camelcase",
    "date",
    "durationRound",
    "kebabcase",
    "sha512sum",
    "shuffle",
    "snakecase",
    "toDate",
    "mustToDate",
    "trimAll",
    "trimall",
    "urlParse",
];

/// Functions that print values of any type, including nested ones.
const PRINTING: &[&str] = &[
    "cat",
    "html",
    "join",
    "js",
    "print",
    "printf",
    "println",
    "quote",
    "sortAlpha",
    "squote",
    "toString",
    "toStrings",
    "urlquery",
];

/// A row of a function table; see [`Function`].
pub type Row = (&'static str, &'static [Type], bool, Run);

/// The implementation of a function. Errors do not name the function; the caller adds its name.
#[derive(Clone, Copy)]
pub enum Run {
    Plain(fn(&[Value]) -> Result<Value, Str>),
    /// Needs the machine.
    Machine(fn(&mut Machine<'_>, &[Value]) -> Result<Value, Str>),
    /// Runs templates; its errors have causes.
    Template(fn(&mut Machine<'_>, &[Value]) -> Result<Value, Error>),
    /// `call`. No template value is callable, so it always fails.
    Call,
    /// `and` and `or` evaluate their arguments themselves, lazily.
    And,
    Or,
}

/// A table of template functions. The parser resolves names to indexes into it.
#[derive(Default)]
pub struct Functions {
    /// The Helm version, for functions that behave differently.
    pub profile: Profile,
    table: Vec<Function>,
    index: HashMap<&'static str, u32>,
}

impl Functions {
    /// The built-in functions of Go.
    pub fn builtin() -> Self {
        let mut functions = Self::default();
        functions.extend(super::builtin::FUNCTIONS);
        functions
    }

    /// Adds functions; a function of the same name is replaced.
    pub fn extend(&mut self, rows: &[Row]) {
        for &(name, params, variadic, run) in rows {
            let goes_through = PRINTING.contains(&name);
            let steps = SLOW.iter().find(|(slow, _)| *slow == name).map_or(0, |(_, steps)| *steps);
            let bytes_per_step = if THOROUGH.contains(&name) { 1 } else { BYTES_PER_STEP };
            let function = Function { name, params, variadic, run, goes_through, steps, bytes_per_step };
            if let Some(at) = self.index.get(function.name) {
                self.table[*at as usize] = function;
            } else {
                let at = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
                self.index.insert(function.name, at);
                self.table.push(function);
            }
        }
    }

    /// Removes a function; parsing a template that calls it fails from now on.
    pub fn remove(&mut self, name: &str) {
        self.index.remove(name);
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.index.keys().copied()
    }

    pub(super) fn get(&self, index: u32) -> &Function {
        &self.table[index as usize]
    }
}

impl Names for Functions {
    fn find(&self, name: &str) -> Option<(u32, &'static str)> {
        self.index.get_key_value(name).map(|(name, at)| (*at, *name))
    }
}
