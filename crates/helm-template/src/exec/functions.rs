//! The table of functions that templates can call.

use std::collections::HashMap;

use super::{ExecError, Machine};
use crate::parse::FunctionResolver;
use crate::profile::Profile;
use crate::value::{Str, Type, Value};

/// A template function with its signature and cost.
#[derive(Clone, Copy)]
pub struct Function {
    pub name: &'static str,
    /// Parameter types. If `variadic`, the last one is the type of all remaining arguments.
    pub params: &'static [Type],
    pub variadic: bool,
    pub body: FunctionBody,
    /// Whether the function prints all of its arguments.
    pub(super) prints_arguments: bool,
    /// Fixed cost of a call in steps.
    pub(super) steps: u64,
    /// Bytes of arguments that the function processes per step.
    pub(super) bytes_per_step: u64,
}

/// Fixed costs of functions that take a millisecond to a second each. Charts need a few such calls; the cost limits their number.
const SLOW_FUNCTIONS: &[(&str, u64)] = &[
    ("bcrypt", BCRYPT_STEPS),
    ("derivePassword", DERIVE_PASSWORD_STEPS),
    ("genCA", CERTIFICATE_STEPS),
    ("genCAWithKey", CERTIFICATE_STEPS),
    ("genSelfSignedCert", CERTIFICATE_STEPS),
    ("genSelfSignedCertWithKey", CERTIFICATE_STEPS),
    ("genSignedCert", CERTIFICATE_STEPS),
    ("genSignedCertWithKey", CERTIFICATE_STEPS),
    ("htpasswd", BCRYPT_STEPS),
];
const BCRYPT_STEPS: u64 = 2_500_000;
const DERIVE_PASSWORD_STEPS: u64 = 6_000_000;
const CERTIFICATE_STEPS: u64 = 600_000;

/// Bytes per step for all functions except [`EXPENSIVE_FUNCTIONS`].
const BYTES_PER_STEP: u64 = 16;

/// Functions that take several nanoseconds per byte of their arguments.
const EXPENSIVE_FUNCTIONS: &[&str] = &[
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
const PRINTING_FUNCTIONS: &[&str] = &[
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
pub type FunctionRow = (&'static str, &'static [Type], bool, FunctionBody);

/// The implementation of a function. Errors do not name the function; the caller adds its name.
#[derive(Clone, Copy)]
pub enum FunctionBody {
    Plain(fn(&[Value]) -> Result<Value, Str>),
    /// Needs the machine.
    Machine(fn(&mut Machine<'_>, &[Value]) -> Result<Value, Str>),
    /// Runs templates; its errors have causes.
    Template(fn(&mut Machine<'_>, &[Value]) -> Result<Value, ExecError>),
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
    pub fn extend(&mut self, rows: &[FunctionRow]) {
        for &(name, params, variadic, run) in rows {
            let goes_through = PRINTING_FUNCTIONS.contains(&name);
            let steps = SLOW_FUNCTIONS.iter().find(|(slow, _)| *slow == name).map_or(0, |(_, steps)| *steps);
            let bytes_per_step = if EXPENSIVE_FUNCTIONS.contains(&name) { 1 } else { BYTES_PER_STEP };
            let function = Function {
                name,
                params,
                variadic,
                body: run,
                prints_arguments: goes_through,
                steps,
                bytes_per_step,
            };
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

impl FunctionResolver for Functions {
    fn find(&self, name: &str) -> Option<(u32, &'static str)> {
        self.index.get_key_value(name).map(|(name, at)| (*at, *name))
    }
}
