//! A place in a line.

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

    /// All that is left.
    pub fn take_all(&mut self) -> &'l str {
        std::mem::take(&mut self.rest)
    }

    /// Goes on by so many bytes, to the end at most.
    pub fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Goes over blanks and one comma; true where that or the end came before anything else.
    pub fn skip_blanks_and_comma(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return true;
        }
        self.rest.is_empty()
    }
}
