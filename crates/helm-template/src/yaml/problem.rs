//! What is wrong with a text, in go-yaml's words.

use std::fmt;

/// An error of the grammar, with the line that go-yaml would name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// As it is named: 0 is not named at all. For the scanner's errors it counts from one, for the parser's from
    /// zero, which is go-yaml's mistake and known to every reader of Helm's messages.
    pub line: usize,
    pub text: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("yaml: ")?;
        if self.line != 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(self.text)
    }
}
