//! Errors of template execution.

use std::fmt::{Display, Formatter, Result};

use crate::value::Str;

/// An execution error with Go's message: the first failure and the context added by each caller.
///
/// Templates can be nested ten thousand deep before they are stopped, so the message is assembled once, when it is displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError {
    message: Str,
    /// Prefixes of the message, outermost last.
    contexts: Vec<String>,
}

impl ExecError {
    pub fn new(text: impl Into<Str>) -> Self {
        Self { message: text.into(), contexts: Vec::new() }
    }

    /// Adds the context of an enclosing call.
    #[must_use]
    pub fn with_context(mut self, context: String) -> Self {
        self.contexts.push(context);
        self
    }

    /// The message, and the offsets in it at which the message of each cause starts, outermost first.
    pub fn with_causes(&self) -> (String, Vec<usize>) {
        let mut text =
            String::with_capacity(self.message.len() + self.contexts.iter().map(String::len).sum::<usize>());
        let mut causes = Vec::with_capacity(self.contexts.len());
        for context in self.contexts.iter().rev() {
            text.push_str(context);
            causes.push(text.len());
        }
        text.push_str(&self.message);
        (text, causes)
    }
}

impl Display for ExecError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.contexts.iter().rev().try_for_each(|context| f.write_str(context))?;
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExecError {}
