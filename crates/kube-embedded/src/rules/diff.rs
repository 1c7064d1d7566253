//! Unified diff of two texts without file names, as Kubernetes appends it to some errors.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

/// Context lines around a change.
const CONTEXT_LINES: usize = 3;

/// Above this many pairs of lines the whole text counts as changed.
const MAX_LINE_PAIRS: usize = 1 << 22;

/// From this many lines on, frequent lines do not start a run.
const LONG_TEXT_LINES: usize = 200;

#[derive(Clone, Copy, PartialEq)]
enum DiffLine<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Returns hunks of the form `@@ -6,7 +6,7 @@`; empty if the texts are equal.
pub fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let lines = edit_script(&old, &new);
    let changed: Vec<_> = (0..lines.len()).filter(|at| !matches!(lines[*at], DiffLine::Same(_))).collect();
    let mut text = String::new();
    let mut rest = changed.as_slice();
    while let Some(&first) = rest.first() {
        // Changes with touching context are one hunk.
        let joined = rest.windows(2).take_while(|pair| pair[1] - pair[0] <= 2 * CONTEXT_LINES + 1).count();
        let last = rest[joined];
        rest = &rest[joined + 1..];
        hunk(
            &lines,
            first.saturating_sub(CONTEXT_LINES),
            (last + CONTEXT_LINES + 1).min(lines.len()),
            &mut text,
        );
    }
    text
}

fn hunk(lines: &[DiffLine<'_>], from: usize, to: usize, text: &mut String) {
    let in_old = |line: &&DiffLine<'_>| !matches!(line, DiffLine::New(_));
    let in_new = |line: &&DiffLine<'_>| !matches!(line, DiffLine::Old(_));
    let (before, inside) = (&lines[..from], &lines[from..to]);
    let range = |count: usize, before: usize| match count {
        0 => format!("{before},0"),
        1 => format!("{}", before + 1),
        _ => format!("{},{count}", before + 1),
    };
    let old = range(inside.iter().filter(in_old).count(), before.iter().filter(in_old).count());
    let new = range(inside.iter().filter(in_new).count(), before.iter().filter(in_new).count());
    writeln!(text, "@@ -{old} +{new} @@").expect("writing to a String cannot fail");
    for line in inside {
        let (mark, line) = match line {
            DiffLine::Same(line) => (' ', line),
            DiffLine::Old(line) => ('-', line),
            DiffLine::New(line) => ('+', line),
        };
        writeln!(text, "{mark}{line}").expect("writing to a String cannot fail");
    }
}

/// The edit script, removals first. Common lines are found as in Python's `difflib`: the longest
/// common run, the first of equals, then recursively on both sides of it.
fn edit_script<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let mut kept = Vec::new();
    if old.len().saturating_mul(new.len()) <= MAX_LINE_PAIRS {
        let places = line_positions(new);
        let mut open = vec![(0..old.len(), 0..new.len())];
        while let Some((olds, news)) = open.pop() {
            let run = longest_common_run(old, new, olds.clone(), news.clone(), &places);
            if run.length > 0 {
                open.push((olds.start..run.old, news.start..run.new));
                open.push((run.old + run.length..olds.end, run.new + run.length..news.end));
                kept.push(run);
            }
        }
        kept.sort_by_key(|run| run.old);
    }
    kept.push(CommonRun { old: old.len(), new: new.len(), length: 0 });
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    for run in kept {
        lines.extend(old[i..run.old].iter().map(|line| DiffLine::Old(line)));
        lines.extend(new[j..run.new].iter().map(|line| DiffLine::New(line)));
        (i, j) = (run.old + run.length, run.new + run.length);
        lines.extend(old[run.old..i].iter().map(|line| DiffLine::Same(line)));
    }
    lines
}

/// A run of common lines, by its start in each text.
struct CommonRun {
    old: usize,
    new: usize,
    length: usize,
}

/// The positions of each line in a text. In a long text, frequent lines do not start a run.
fn line_positions<'a>(lines: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if lines.len() >= LONG_TEXT_LINES {
        places.retain(|_, at| at.len() <= lines.len() / 100 + 1);
    }
    places
}

fn longest_common_run(
    old: &[&str],
    new: &[&str],
    olds: Range<usize>,
    news: Range<usize>,
    places: &HashMap<&str, Vec<usize>>,
) -> CommonRun {
    let mut best = CommonRun { old: olds.start, new: news.start, length: 0 };
    // Lengths of the runs that end at the previous line, by their end in the new text.
    let mut ending: HashMap<usize, usize> = HashMap::new();
    for i in olds.clone() {
        let mut next = HashMap::new();
        for &j in places.get(old[i]).into_iter().flatten().filter(|j| news.contains(j)) {
            let length = j.checked_sub(1).and_then(|before| ending.get(&before)).unwrap_or(&0) + 1;
            next.insert(j, length);
            if length > best.length {
                best = CommonRun { old: i + 1 - length, new: j + 1 - length, length };
            }
        }
        ending = next;
    }
    // Frequent lines extend an adjacent run.
    while best.old > olds.start && best.new > news.start && old[best.old - 1] == new[best.new - 1] {
        best = CommonRun { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
    }
    let after = |run: &CommonRun| (run.old + run.length, run.new + run.length);
    while let (i, j) = after(&best)
        && i < olds.end
        && j < news.end
        && old[i] == new[j]
    {
        best.length += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_context_lines() {
        let old: Vec<_> = (1..=20).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        "x".clone_into(&mut new[9]);
        new.push("21".to_owned());
        assert_eq!(
            unified(&old.join("\n"), &new.join("\n")),
            "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+x\n 11\n 12\n 13\n@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+21\n"
        );
        assert_eq!(unified("a\nb", "a\nb"), "");
        // The longest run is kept, although a shorter one begins earlier.
        assert_eq!(unified("{\na\nb", "{\nc\n{\na\nb"), "@@ -1,3 +1,5 @@\n+{\n+c\n {\n a\n b\n");
    }
}
