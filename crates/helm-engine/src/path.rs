//! Path patterns of Go's `filepath.Match`.

/// Whether the whole path matches the pattern. A malformed pattern matches nothing.
///
/// A star is tried from the shortest match on, and only the last star is ever backtracked, so matching takes at most time
/// proportional to the product of both lengths.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let path: Vec<char> = path.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(p), path.get(n)) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            (Some('?'), Some(c)) if *c != '/' => Some(p + 1),
            (Some('['), Some(c)) => match match_class(&pattern[p + 1..], *c) {
                Some((fits, length)) => fits.then_some(p + 1 + length),
                None => return false,
            },
            (Some('\\'), Some(c)) => match pattern.get(p + 1) {
                Some(wanted) => (wanted == c).then_some(p + 2),
                None => return false,
            },
            (Some(wanted), Some(c)) if wanted == c => Some(p + 1),
            _ => None,
        };
        if let Some(next) = step {
            (p, n) = (next, n + 1);
            continue;
        }
        match star {
            Some((after, from)) if path.get(from).is_some_and(|c| *c != '/') => {
                star = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether a character is in the class that starts here, and the length of the class; `None` if it is malformed.
fn match_class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let not = pattern.first() == Some(&'^');
    let mut at = usize::from(not);
    let (mut found, mut ranges) = (false, 0);
    loop {
        if pattern.get(at) == Some(&']') && ranges > 0 {
            return Some((found != not, at + 1));
        }
        let low = next_char(pattern, &mut at)?;
        let high = if pattern.get(at) == Some(&'-') {
            at += 1;
            next_char(pattern, &mut at)?
        } else {
            low
        };
        found |= low <= c && c <= high;
        ranges += 1;
    }
}

fn next_char(pattern: &[char], at: &mut usize) -> Option<char> {
    if matches!(pattern.get(*at)?, '-' | ']') {
        return None;
    }
    if pattern.get(*at) == Some(&'\\') {
        *at += 1;
    }
    let c = *pattern.get(*at)?;
    *at += 1;
    Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_agrees_with_go() {
        let table = [
            ("templates/a.yaml", "templates/a.yaml", true),
            ("templates/*", "templates/a.yaml", true),
            ("templates/*", "templates/b/a.yaml", false),
            ("*/a.y?ml", "templates/a.yaml", true),
            ("templates/[a-c].yaml", "templates/b.yaml", true),
            ("templates/[^a-c].yaml", "templates/b.yaml", false),
            ("templates/[]a].yaml", "templates/a.yaml", false),
            ("t*s/*.yaml", "templates/a.yaml", true),
            ("t\\*", "t*", true),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("[", "[", false),
        ];
        for (pattern, path, wanted) in table {
            assert_eq!(matches(pattern, path), wanted, "{pattern} {path}");
        }
    }
}
