//! Syntax errors with go-yaml's messages.

use std::fmt;

/// A syntax error with the line that go-yaml reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YamlSyntaxError {
    /// The reported line; 0 omits it. The scanner counts lines from one and the parser from zero. This is a bug of go-yaml that users
    /// know from Helm's messages.
    pub line: usize,
    pub text: &'static str,
}

impl fmt::Display for YamlSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("yaml: ")?;
        if self.line != 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(self.text)
    }
}
