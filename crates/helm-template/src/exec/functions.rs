//! The table of functions that templates can call.

use std::collections::HashMap;

use super::{Error, Machine};
use crate::parse::Names;
use crate::profile::Profile;
use crate::value::{Str, Type, Value};

#[derive(Clone, Copy)]
pub struct Function {
    pub name: &'static str,
    /// With `variadic`, the last is the type of all that follow.
    pub params: &'static [Type],
    pub variadic: bool,
    pub run: Run,
    /// It prints all that it is given.
    pub(super) goes_through: bool,
    /// As how many steps a call counts.
    pub(super) steps: u64,
    /// How much of its arguments it looks at in the time of a step.
    pub(super) bytes_per_step: u64,
}

/// Functions that take long by design: a thousandth to a second each. A chart needs some, and no more than some.
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

/// What other functions than [`THOROUGH`] look at in the time of a step.
const BYTES_PER_STEP: u64 = 16;

/// Functions that take several nanoseconds for each byte that they are given.
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

/// Functions that print values of any type, with all that is in them.
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

/// A [`Function`] as a line of a table.
pub type Row = (&'static str, &'static [Type], bool, Run);

/// How it is done. An error is what went wrong; which function it was is added by the caller.
#[derive(Clone, Copy)]
pub enum Run {
    Plain(fn(&[Value]) -> Result<Value, Str>),
    /// One that needs the machine.
    Machine(fn(&mut Machine<'_>, &[Value]) -> Result<Value, Str>),
    /// One that runs templates, whose errors have causes.
    Template(fn(&mut Machine<'_>, &[Value]) -> Result<Value, Error>),
    /// `call`: of functions, and no value of a template is one.
    Call,
    /// These evaluate their arguments themselves, and not all of them.
    And,
    Or,
}

#[derive(Default)]
pub struct Functions {
    /// Whose functions they are, where they do not do quite the same.
    pub profile: Profile,
    table: Vec<Function>,
    index: HashMap<&'static str, u32>,
}

impl Functions {
    /// Go's own functions.
    pub fn builtin() -> Self {
        let mut functions = Self::default();
        functions.extend(super::builtin::FUNCTIONS);
        functions
    }

    /// Adds functions; one of a known name takes its place.
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

    /// Templates that call it are refused from now on.
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
