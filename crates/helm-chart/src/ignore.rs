//! `.helmignore`: which files of a folder are no part of its chart.
//!
//! The rules look like those of git and are not: they are tried in order, the first that says "ignore" wins, and a
//! negated rule ignores everything that it does *not* match.

use crate::path::{self, BadPattern};

/// The rules of one chart.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    pattern: String,
    scope: Scope,
    negated: bool,
    folders_only: bool,
}

/// What a pattern is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The whole path, because the pattern has a slash.
    Path,
    /// The last part of it.
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    #[error("bufio.Scanner: token too long")]
    LongLine,
}

impl Rules {
    /// What is ignored in every chart.
    pub fn defaults() -> Self {
        Self(Rule::parse("templates/.?*").ok().flatten().into_iter().collect())
    }

    /// The rules of a `.helmignore`, and after them those of every chart.
    pub fn parse(text: &[u8]) -> Result<Self, IgnoreError> {
        let text = text.strip_prefix(crate::load::BYTE_ORDER_MARK).unwrap_or(text);
        let mut rules = Vec::new();
        for line in text.split(|b| *b == b'\n') {
            // The longest line that Go's scanner takes.
            if line.len() >= 64 << 10 {
                return Err(IgnoreError::LongLine);
            }
            rules.extend(Rule::parse(&String::from_utf8_lossy(line))?);
        }
        rules.append(&mut Self::defaults().0);
        Ok(Self(rules))
    }

    /// Whether a file or folder is left out; of a folder, all that is in it.
    pub fn ignore(&self, path: &str, is_folder: bool) -> bool {
        if matches!(path, "" | "." | "./") {
            return false;
        }
        for rule in &self.0 {
            if rule.negated {
                if (rule.folders_only && !is_folder) || !rule.matches(path) {
                    return true;
                }
            } else if (!rule.folders_only || is_folder) && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    /// Nothing: an empty line or a comment.
    fn parse(line: &str) -> Result<Option<Self>, IgnoreError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        path::matches(line, "abc")?;
        let (negated, line) = line.strip_prefix('!').map_or((false, line), |line| (true, line));
        let (folders_only, line) = line.strip_suffix('/').map_or((false, line), |line| (true, line));
        let (scope, pattern) = match line.strip_prefix('/') {
            Some(pattern) => (Scope::Path, pattern),
            None if line.contains('/') => (Scope::Path, line),
            None => (Scope::Name, line),
        };
        Ok(Some(Self { pattern: pattern.to_owned(), scope, negated, folders_only }))
    }

    fn matches(&self, path: &str) -> bool {
        let name = match self.scope {
            Scope::Path => path,
            Scope::Name => path.rsplit('/').next().unwrap_or(path),
        };
        // The whole pattern was found good; a part of it may still be none, and then matches nothing.
        path::matches(&self.pattern, name).unwrap_or(false)
    }
}
