//! Position in a line.

pub struct Cursor<'l> {
    rest: &'l str,
}

impl<'l> Cursor<'l> {
    pub fn new(rest: &'l str) -> Self {
        Self { rest }
    }

    pub fn rest(&self) -> &'l str {
        self.rest
    }

    pub fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    /// Takes the rest of the line.
    pub fn take_all(&mut self) -> &'l str {
        std::mem::take(&mut self.rest)
    }

    /// Advances by this many bytes, at most to the end.
    pub fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Skips blanks and one comma; true if a comma or the end was reached.
    pub fn skip_blanks_and_comma(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return true;
        }
        self.rest.is_empty()
    }
}
