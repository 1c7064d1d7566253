//! `.helmignore` rules: files of a folder that are not part of the chart.
//!
//! The rules resemble git's but differ: they are tried in order, the first one that ignores wins, and a negated rule
//! ignores everything that it does *not* match.

use crate::path::{self, InvalidPattern};

/// Rules of one chart.
#[derive(Clone, Debug, Default)]
pub struct HelmIgnoreRules(Vec<HelmIgnoreRule>);

#[derive(Clone, Debug)]
struct HelmIgnoreRule {
    pattern: String,
    target: MatchTarget,
    is_negated: bool,
    dirs_only: bool,
}

/// The text that a pattern is matched against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchTarget {
    /// The whole path, for patterns with a slash.
    Path,
    /// The last path segment.
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    #[error(transparent)]
    InvalidPattern(#[from] InvalidPattern),
    #[error("bufio.Scanner: token too long")]
    LineTooLong,
}

impl HelmIgnoreRules {
    /// Rules that apply to every chart.
    pub fn defaults() -> Self {
        Self(HelmIgnoreRule::parse("templates/.?*").ok().flatten().into_iter().collect())
    }

    /// Parses a `.helmignore` file and appends the default rules.
    pub fn parse(text: &[u8]) -> Result<Self, IgnoreError> {
        let text = text.strip_prefix(crate::load::BYTE_ORDER_MARK).unwrap_or(text);
        let mut rules = Vec::new();
        for line in text.split(|b| *b == b'\n') {
            // Line length limit of Go's scanner.
            if line.len() >= 64 << 10 {
                return Err(IgnoreError::LineTooLong);
            }
            rules.extend(HelmIgnoreRule::parse(&String::from_utf8_lossy(line))?);
        }
        rules.append(&mut Self::defaults().0);
        Ok(Self(rules))
    }

    /// Whether a file is ignored, or a folder with all its files.
    pub fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        if matches!(path, "" | "." | "./") {
            return false;
        }
        for rule in &self.0 {
            if rule.is_negated {
                if (rule.dirs_only && !is_folder) || !rule.matches(path) {
                    return true;
                }
            } else if (!rule.dirs_only || is_folder) && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl HelmIgnoreRule {
    /// Parses a rule; `None` for an empty line or a comment.
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
            Some(pattern) => (MatchTarget::Path, pattern),
            None if line.contains('/') => (MatchTarget::Path, line),
            None => (MatchTarget::Name, line),
        };
        Ok(Some(Self {
            pattern: pattern.to_owned(),
            target: scope,
            is_negated: negated,
            dirs_only: folders_only,
        }))
    }

    fn matches(&self, path: &str) -> bool {
        let name = match self.target {
            MatchTarget::Path => path,
            MatchTarget::Name => path.rsplit('/').next().unwrap_or(path),
        };
        // The whole pattern is valid; a part of it may be invalid and then matches nothing.
        path::matches(&self.pattern, name).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Helm 3.17.3.
    #[test]
    fn rules_ignore_files_like_helm() {
        #[rustfmt::skip]
        let rows = [
            ("*.txt", "a.txt", false, Ok(true)),
            ("*.txt", "b/a.txt", false, Ok(true)),
            ("*.txt", "a.txt", true, Ok(true)),
            ("/*.txt", "a.txt", false, Ok(true)),
            ("/*.txt", "b/a.txt", false, Ok(false)),
            ("b/*.txt", "b/a.txt", false, Ok(true)),
            ("b/*.txt", "c/b/a.txt", false, Ok(false)),
            ("cargo/", "cargo", true, Ok(true)),
            ("cargo/", "cargo", false, Ok(false)),
            ("cargo/", "a/cargo", true, Ok(true)),
            ("/cargo/", "a/cargo", true, Ok(false)),
            ("!*.txt", "a.txt", false, Ok(false)),
            ("!*.txt", "a.md", false, Ok(true)),
            ("!a/", "a", true, Ok(false)),
            ("!a/", "a", false, Ok(true)),
            ("!a/", "b", true, Ok(true)),
            ("# x\n\n  a.txt  ", "a.txt", false, Ok(true)),
            ("*", "a", false, Ok(true)),
            ("*", "templates", true, Ok(true)),
            (".*", ".git", true, Ok(true)),
            (".*", "a.b", false, Ok(false)),
            ("", "templates/.x", false, Ok(true)),
            ("", "templates/.", false, Ok(false)),
            ("", "templates/a/.x", false, Ok(false)),
            ("", "templates/..", false, Ok(true)),
            ("a[bc]d", "abd", false, Ok(true)),
            ("a[^bc]d", "abd", false, Ok(false)),
            ("a[b-d]e", "ace", false, Ok(true)),
            ("a?c", "a/c", false, Ok(false)),
            ("a?c", "aéc", false, Ok(true)),
            ("\\*", "*", false, Ok(true)),
            ("\\*", "a", false, Ok(false)),
            ("a**b", "x", false, Err("double-star (**) syntax is not supported")),
            ("a/**", "x", false, Err("double-star (**) syntax is not supported")),
            ("[", "x", false, Err("syntax error in pattern")),
            ("a[", "x", false, Err("syntax error in pattern")),
            ("a[]", "x", false, Err("syntax error in pattern")),
            ("a[b", "x", false, Err("syntax error in pattern")),
            ("a[b-]", "x", false, Err("syntax error in pattern")),
            ("[^]", "x", false, Err("syntax error in pattern")),
            ("a\\", "x", false, Err("syntax error in pattern")),
            ("\u{feff}a", "a", false, Ok(true)),
            ("a\r\nb\r\n", "b", false, Ok(true)),
            ("!", "a", false, Ok(true)),
            ("/", "a", true, Ok(false)),
            ("/a/b/", "a/b", true, Ok(true)),
            ("a/b", "a/b/c", false, Ok(false)),
            ("*.t[a-z]?", ".tgz", false, Ok(true)),
            ("é*", "éa", false, Ok(true)),
            ("a", "", true, Ok(false)),
            ("a*b*c", "aXbYbZc", false, Ok(true)),
            ("a*/b", "axx/b", false, Ok(true)),
            ("*a*", "bab", false, Ok(true)),
            ("*[", "a", false, Err("syntax error in pattern")),
            ("x*[", "a", false, Ok(false)),
            ("ab[c", "ab", false, Err("syntax error in pattern")),
            ("!**", "a", false, Err("double-star (**) syntax is not supported")),
        ];
        for (rules, path, is_folder, expected) in rows {
            let said =
                HelmIgnoreRules::parse(rules.as_bytes()).map(|rules| rules.is_ignored(path, is_folder));
            let said = said.map_err(|error| error.to_string());
            assert_eq!(said, expected.map_err(str::to_owned), "{rules:?} {path:?}");
        }
    }

    #[test]
    fn parse_rejects_long_line() {
        assert_eq!(HelmIgnoreRules::parse(&vec![b'a'; 70_000]).unwrap_err(), IgnoreError::LineTooLong);
    }
}
