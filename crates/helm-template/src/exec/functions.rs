//! The table of functions that templates can call.

use std::collections::HashMap;

use super::Machine;
use crate::parse::Names;
use crate::value::{Str, Type, Value};

pub struct Function {
    pub name: &'static str,
    /// With `variadic`, the last is the type of all that follow.
    pub params: &'static [Type],
    pub variadic: bool,
    pub run: Run,
}

/// How it is done. An error is what went wrong; which function it was is added by the caller.
#[derive(Clone, Copy)]
pub enum Run {
    Plain(fn(&[Value]) -> Result<Value, Str>),
    /// One that needs the machine: it may run templates.
    Machine(fn(&mut Machine<'_>, &[Value]) -> Result<Value, Str>),
    /// These evaluate their arguments themselves, and not all of them.
    And,
    Or,
}

#[derive(Default)]
pub struct Functions {
    table: Vec<Function>,
    index: HashMap<&'static str, u32>,
}

impl Functions {
    /// Go's own functions.
    pub fn builtin() -> Self {
        let mut functions = Self::default();
        functions.extend(super::builtin::FUNCTIONS.iter().map(|row| Function {
            name: row.0,
            params: row.1,
            variadic: row.2,
            run: row.3,
        }));
        functions
    }

    /// Adds functions; one of a known name takes its place.
    pub fn extend(&mut self, functions: impl IntoIterator<Item = Function>) {
        for function in functions {
            if let Some(at) = self.index.get(function.name) {
                self.table[*at as usize] = function;
            } else {
                let at = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
                self.index.insert(function.name, at);
                self.table.push(function);
            }
        }
    }

    pub(super) fn get(&self, index: u32) -> &Function {
        &self.table[index as usize]
    }
}

impl Names for Functions {
    fn index(&self, name: &str) -> Option<u32> {
        self.index.get(name).copied()
    }
}
