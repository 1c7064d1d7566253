//! Glob patterns of `.Files.Glob`: `*` and `?` do not match `/`, `**` does; also `[a-z]`, `[!abc]`, `{one,other}` and `\` escapes.
//!
//! A pattern compiles to a small program whose states are simulated in parallel, so matching takes at most time proportional to the
//! product of both lengths.

use std::iter::Peekable;
use std::str::Chars;

/// A compiled glob pattern.
pub struct Glob(Vec<GlobOp>);

/// An instruction of a compiled pattern.
enum GlobOp {
    Char(char),
    /// `?`
    AnyChar,
    /// `*`
    Star,
    /// `**`
    DoubleStar,
    CharSet {
        not: bool,
        chars: Vec<char>,
    },
    CharRange {
        not: bool,
        from: char,
        to: char,
    },
    /// Continues at each of these steps.
    Fork(Vec<usize>),
    Jump(usize),
}

/// An alternative while it is compiled: its fork, the start of each branch, and the ends of the branches.
struct Alternation {
    fork: usize,
    starts: Vec<usize>,
    ends: Vec<usize>,
}

impl Glob {
    /// Compiles a pattern; `None` if it is malformed.
    pub fn new(pattern: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut open: Vec<Alternation> = Vec::new();
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                // The library that Helm uses treats NUL as the end of the pattern.
                '\0' => break,
                '\u{fffd}' => return None,
                '{' => {
                    open.push(Alternation {
                        fork: steps.len(),
                        starts: vec![steps.len() + 1],
                        ends: Vec::new(),
                    });
                    steps.push(GlobOp::Fork(Vec::new()));
                }
                ',' if !open.is_empty() => {
                    if let Some(terms) = open.last_mut() {
                        terms.ends.push(steps.len());
                        steps.push(GlobOp::Jump(0));
                        terms.starts.push(steps.len());
                    }
                }
                '}' if !open.is_empty() => close_alternation(&mut steps, open.pop()),
                '[' => steps.push(parse_class(&mut rest)?),
                '?' => steps.push(GlobOp::AnyChar),
                '*' if rest.next_if_eq(&'*').is_some() => steps.push(GlobOp::DoubleStar),
                '*' => steps.push(GlobOp::Star),
                '\\' => steps.extend(rest.next().map(GlobOp::Char)),
                c => steps.push(GlobOp::Char(c)),
            }
        }
        while let Some(terms) = open.pop() {
            close_alternation(&mut steps, Some(terms));
        }
        Some(Self(steps))
    }

    /// Whether the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        let steps = &self.0;
        let mut now = ActiveStates::new(steps.len());
        now.enter(steps, 0);
        for c in name.chars() {
            let mut next = ActiveStates::new(steps.len());
            for &at in &now.list {
                let Some(step) = steps.get(at) else { continue };
                let (takes, stays) = match step {
                    GlobOp::Char(wanted) => (c == *wanted, false),
                    GlobOp::AnyChar => (c != '/', false),
                    GlobOp::Star => (c != '/', true),
                    GlobOp::DoubleStar => (true, true),
                    GlobOp::CharSet { not, chars } => (chars.contains(&c) != *not, false),
                    GlobOp::CharRange { not, from, to } => ((*from <= c && c <= *to) != *not, false),
                    GlobOp::Fork(_) | GlobOp::Jump(_) => (false, false),
                };
                if takes {
                    next.enter(steps, if stays { at } else { at + 1 });
                }
            }
            now = next;
        }
        now.is_active.last().is_some_and(|end| *end)
    }
}

/// The active states of a match.
struct ActiveStates {
    is_active: Vec<bool>,
    list: Vec<usize>,
}

impl ActiveStates {
    fn new(steps: usize) -> Self {
        Self { is_active: vec![false; steps + 1], list: Vec::new() }
    }

    fn enter(&mut self, steps: &[GlobOp], at: usize) {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            if self.is_active.get(at).is_none_or(|seen| *seen) {
                continue;
            }
            self.is_active[at] = true;
            match steps.get(at) {
                Some(GlobOp::Fork(ways)) => open.extend(ways),
                Some(GlobOp::Jump(to)) => open.push(*to),
                // A star also matches the empty string.
                Some(GlobOp::Star | GlobOp::DoubleStar) => {
                    self.list.push(at);
                    open.push(at + 1);
                }
                _ => self.list.push(at),
            }
        }
    }
}

fn close_alternation(steps: &mut [GlobOp], terms: Option<Alternation>) {
    let Some(terms) = terms else { return };
    let after = steps.len();
    for end in terms.ends {
        steps[end] = GlobOp::Jump(after);
    }
    steps[terms.fork] = GlobOp::Fork(terms.starts);
}

/// Parses the content of brackets: one range, or a set of characters.
fn parse_class(rest: &mut Peekable<Chars<'_>>) -> Option<GlobOp> {
    let not = rest.next_if_eq(&'!').is_some();
    let mut ahead = rest.clone();
    let from = ahead.next()?;
    if ahead.next() == Some('-') {
        let to = ahead.next()?;
        if ahead.next() != Some(']') || to < from {
            return None;
        }
        *rest = ahead;
        return Some(GlobOp::CharRange { not, from, to });
    }
    let mut chars = Vec::new();
    loop {
        match rest.next()? {
            ']' if chars.is_empty() => return None,
            ']' => return Some(GlobOp::CharSet { not, chars }),
            '\\' => chars.push(rest.next()?),
            c => chars.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_agrees_with_helm() {
        let names = ["a.txt", "b.txt", "d/a.txt", "d/e/a.json", "ab", "a-b", "d/", "ä.txt", "x,y", "}"];
        let table = [
            ("*.txt", "a.txt b.txt ä.txt"),
            ("**.txt", "a.txt b.txt d/a.txt ä.txt"),
            ("d/*", "d/a.txt d/"),
            ("d/**", "d/a.txt d/e/a.json d/"),
            ("?.txt", "a.txt b.txt ä.txt"),
            ("[ab].txt", "a.txt b.txt"),
            ("[!a].txt", "b.txt ä.txt"),
            ("[b-z].txt", "b.txt"),
            ("{a,b}.txt", "a.txt b.txt"),
            ("{d/**,a*}", "a.txt d/a.txt d/e/a.json ab a-b d/"),
            ("d/{e/{a,b},a}.*", "d/a.txt d/e/a.json"),
            ("{a.txt,ab", "a.txt ab"),
            ("x,y", "x,y"),
            ("}", "}"),
            ("a\\.txt", "a.txt"),
            ("", ""),
            ("**", "a.txt b.txt d/a.txt d/e/a.json ab a-b d/ ä.txt x,y }"),
        ];
        for (pattern, wanted) in table {
            let glob = Glob::new(pattern).unwrap();
            let got: Vec<_> = names.into_iter().filter(|name| glob.matches(name)).collect();
            assert_eq!(got.join(" "), wanted, "{pattern}");
        }
        for pattern in ["[", "[]", "[!]", "[a", "[z-a]", "[a-z0]"] {
            assert!(Glob::new(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn matches_takes_polynomial_time() {
        let glob = Glob::new(&"{*a,**}".repeat(200)).unwrap();
        assert!(glob.matches(&"a".repeat(2_000)));
    }
}
