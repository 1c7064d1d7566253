//! Regular expressions in Go syntax.
//!
//! Go and the `regex` crate share most of their syntax. The differences are translated: `\d`, `\w`, `\s` and `\b` mean ASCII in Go, `[` and
//! `&&` inside a class are plain characters, and a brace that begins no repetition is literal.

use regex::{Regex, RegexBuilder};

/// Maximum weight of a compiled pattern, and of all patterns of one definition.
const MAX_WEIGHT: usize = 100_000;
pub const MAX_TOTAL_WEIGHT: usize = 1_000_000;
/// A Unicode class compiles to many byte ranges.
const CLASS_WEIGHT: usize = 10;

/// Estimates the size of a pattern with its repetitions expanded. Linear in the length of the text.
pub fn weight(pattern: &str) -> usize {
    // Per open group the sum of its parts, and the weight of the last atom, to which a repetition applies.
    let mut groups = vec![(0_usize, 0_usize)];
    let mut chars = pattern.char_indices();
    while let Some((at, c)) = chars.next() {
        let is_inside = groups.len() > 1;
        let (sum, last) = groups.last_mut().expect("the outermost group is never closed");
        match c {
            '(' => groups.push((0, 0)),
            ')' if is_inside => {
                let (inner, _) = groups.pop().unwrap_or_default();
                let (sum, last) = groups.last_mut().expect("the outermost group is never closed");
                *last = inner.max(1);
                *sum = sum.saturating_add(*last);
            }
            '{' => {
                let counts = pattern[at + 1..].split_once('}').map_or("", |(counts, _)| counts);
                let is_count = |c: char| c.is_ascii_digit() || c == ',';
                if counts.is_empty() || !counts.chars().all(is_count) {
                    *sum = sum.saturating_add(1);
                    continue;
                }
                // Skips the counts and the brace.
                chars.nth(counts.len());
                let times = counts.split(',').filter_map(|count| count.parse().ok()).max().unwrap_or(0_usize);
                *sum = sum.saturating_add(last.saturating_mul(times.saturating_sub(1)));
                *last = last.saturating_mul(times.max(1));
            }
            '\\' => {
                let is_property = matches!(chars.next(), Some((_, 'p' | 'P')));
                *last = if is_property { CLASS_WEIGHT * CLASS_WEIGHT } else { 1 };
                *sum = sum.saturating_add(*last);
            }
            '[' | '.' => {
                *last = CLASS_WEIGHT;
                *sum = sum.saturating_add(*last);
            }
            _ => {
                if !matches!(c, ']' | '}' | '*' | '+' | '?' | ')') {
                    *last = (*last).max(1);
                }
                *sum = sum.saturating_add(1);
            }
        }
    }
    groups.into_iter().fold(0, |total, (sum, _)| total.saturating_add(sum))
}

/// Compiles a Go pattern. Common errors have the wording of Go.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let fail = |reason: &str, part: &str| Err(format!("error parsing regexp: {reason}: `{part}`"));
    if weight(pattern) > MAX_WEIGHT {
        return fail("expression too large", pattern);
    }
    if let Some(operators) = nested_repetition(pattern) {
        return fail("invalid nested repetition operator", &operators);
    }
    match RegexBuilder::new(&translate(pattern)).size_limit(1 << 22).build() {
        Ok(regex) => Ok(regex),
        Err(regex::Error::CompiledTooBig(_)) => fail("expression too large", pattern),
        Err(_) => {
            let (reason, part) = go_error(pattern);
            fail(reason, part)
        }
    }
}

/// Returns the wording of Go for the most common errors, with the quoted part.
fn go_error(pattern: &str) -> (&'static str, &str) {
    let count = |wanted: char| pattern.chars().filter(|&c| c == wanted).count();
    for group in ["(?!", "(?=", "(?<!", "(?<="] {
        if let Some(at) = pattern.find(group) {
            return ("invalid or unsupported Perl syntax", &pattern[at..at + group.len()]);
        }
    }
    if count('(') > count(')') {
        ("missing closing )", pattern)
    } else if count(')') > count('(') {
        ("unexpected )", pattern)
    } else if count('[') > count(']') {
        ("missing closing ]", pattern.find('[').map_or(pattern, |at| &pattern[at..]))
    } else if pattern.starts_with(['*', '+', '?']) {
        ("missing argument to repetition operator", &pattern[..1])
    } else {
        let escape = pattern.find('\\').and_then(|at| pattern.get(at..at + 2));
        ("invalid escape sequence", escape.unwrap_or(pattern))
    }
}

/// Finds nested repetitions, `a**`, which Go refuses; a following `?` only makes a repetition lazy.
fn nested_repetition(pattern: &str) -> Option<String> {
    let (mut in_class, mut operators, mut chars) = (false, String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                operators.clear();
            }
            '[' => in_class = true,
            ']' => {
                in_class = false;
                operators.clear();
            }
            '*' | '+' | '?' if !in_class => {
                operators.push(c);
                let lazy = operators.len() == 2 && c == '?';
                if operators.len() >= 2 && !lazy {
                    return Some(operators);
                }
            }
            // Skips the `?` of `(?:`.
            '(' => {
                operators.clear();
                if chars.as_str().starts_with('?') {
                    chars.next();
                }
            }
            _ => operators.clear(),
        }
    }
    None
}

fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut in_class = false;
    let mut class_start = 0;
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        match c {
            '\\' => {
                let Some(&escaped) = chars.get(at + 1) else {
                    out.push('\\');
                    break;
                };
                out.push_str(&escape(escaped, in_class));
                at += 2;
                continue;
            }
            '[' if in_class => {
                if chars.get(at + 1) == Some(&':') {
                    // POSIX classes such as `[:alpha:]` are the same in both syntaxes.
                    if let Some(end) = (at + 2..chars.len().saturating_sub(1))
                        .find(|&i| chars[i] == ':' && chars[i + 1] == ']')
                    {
                        out.extend(&chars[at..=end + 1]);
                        at = end + 2;
                        continue;
                    }
                }
                out.push_str("\\[");
            }
            '[' => {
                in_class = true;
                out.push('[');
                if chars.get(at + 1) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                class_start = at + 1;
                if chars.get(at + 1) == Some(&']') {
                    out.push_str("\\]"); // a leading bracket is literal
                    at += 1;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && (at == class_start || chars.get(at + 1) == Some(&']')) => out.push_str("\\-"),
            '{' if !in_class && !is_repetition(&chars[at + 1..]) => out.push_str("\\{"),
            '}' if !in_class && !closes_repetition(&chars[..at]) => out.push_str("\\}"),
            _ => out.push(c),
        }
        at += 1;
    }
    out
}

fn escape(escaped: char, in_class: bool) -> String {
    let (open, close) = if in_class { ("", "") } else { ("[", "]") };
    match escaped {
        'd' => format!("{open}0-9{close}"),
        'w' => format!("{open}0-9A-Za-z_{close}"),
        's' => format!("{open}\\t\\n\\x0c\\r {close}"),
        'D' => "[^0-9]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        'S' => "[^\\t\\n\\x0c\\r ]".to_owned(),
        'b' if !in_class => "(?-u:\\b)".to_owned(),
        // `\<` is a word boundary in the `regex` crate and a plain character in Go.
        '<' | '>' => escaped.to_string(),
        _ => format!("\\{escaped}"),
    }
}

/// Whether a repetition follows: `3}`, `3,}`, `3,5}`.
fn is_repetition(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|&c| c == '}') else { return false };
    let inner: String = rest[..end].iter().collect();
    let mut parts = inner.splitn(2, ',');
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    let least = parts.next().unwrap_or_default();
    !least.is_empty() && digits(least) && parts.next().is_none_or(digits)
}

fn closes_repetition(before: &[char]) -> bool {
    before.iter().rposition(|&c| c == '{').is_some_and(|open| {
        let inner: Vec<char> = before[open + 1..].iter().copied().chain(['}']).collect();
        is_repetition(&inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_weight_counts_repetitions() {
        for (pattern, least, most) in [
            ("^[0-9a-f]{8}-[0-9a-f]{4}$", 100, 200),
            ("abc", 3, 3),
            ("(a{10}){10}", 100, 120),
            (r"((\w{100}){100}){100}", 1_000_000, 1_100_000),
            ("a{x}", 1, 10),
            ("((((", 0, 10),
        ] {
            let weight = weight(pattern);
            assert!((least..=most).contains(&weight), "{pattern}: {weight}");
        }
        assert!(compile(r"((\w{100}){100}){100}").is_err());
    }

    #[test]
    fn patterns_match_as_in_go() {
        let table = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w-]+$", "a-b_c", true),
            (r"^[[a]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]$", "]", true),
            (r"^{x}$", "{x}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^[[:alpha:]]$", "q", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "a.b-c", true),
            (r"^\$\(.+\)$", "$(x)", true),
            (r"^[^\s/]+$", "ab", true),
            (r"^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$", "1h30m", true),
        ];
        for (pattern, text, matches) in table {
            assert_eq!(compile(pattern).unwrap().is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn invalid_pattern_error_quotes_its_part() {
        let error = compile("(a").unwrap_err();
        assert_eq!(error, "error parsing regexp: missing closing ): `(a`");
    }
}
