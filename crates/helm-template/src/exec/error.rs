//! Why nothing came out.

use std::fmt::{Display, Formatter, Result};

use crate::value::Str;

/// What went wrong, as Go words it: what failed first, and each error that holds the one before.
///
/// Templates stand in templates ten thousand deep before they are stopped: the words are put together once, at the
/// end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    first: Str,
    /// What stands before it, the outermost last.
    contexts: Vec<String>,
}

impl Error {
    pub fn new(text: impl Into<Str>) -> Self {
        Self { first: text.into(), contexts: Vec::new() }
    }

    /// This error inside another.
    #[must_use]
    pub fn within(mut self, context: String) -> Self {
        self.contexts.push(context);
        self
    }

    /// The text of this error and where in it the text of each cause begins, the nearest one first.
    pub fn with_causes(&self) -> (String, Vec<usize>) {
        let mut text =
            String::with_capacity(self.first.len() + self.contexts.iter().map(String::len).sum::<usize>());
        let mut causes = Vec::with_capacity(self.contexts.len());
        for context in self.contexts.iter().rev() {
            text.push_str(context);
            causes.push(text.len());
        }
        text.push_str(&self.first);
        (text, causes)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.contexts.iter().rev().try_for_each(|context| f.write_str(context))?;
        f.write_str(&self.first)
    }
}

impl std::error::Error for Error {}
