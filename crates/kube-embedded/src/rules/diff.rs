//! The difference of two texts, as Kubernetes appends it to some refusals: a unified diff without file names.

use std::fmt::Write;

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// Above this many pairs of lines the whole text counts as changed.
const MOST_PAIRS: usize = 1 << 22;

#[derive(Clone, Copy, PartialEq)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Hunks of the form `@@ -6,7 +6,7 @@`, each line ended; empty if the texts are equal.
pub fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let lines = script(&old, &new);
    let changed: Vec<_> = (0..lines.len()).filter(|at| !matches!(lines[*at], Line::Same(_))).collect();
    let mut text = String::new();
    let mut rest = changed.as_slice();
    while let Some(&first) = rest.first() {
        // Changes whose surroundings touch are one hunk.
        let joined = rest.windows(2).take_while(|pair| pair[1] - pair[0] <= 2 * CONTEXT + 1).count();
        let last = rest[joined];
        rest = &rest[joined + 1..];
        hunk(&lines, first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(lines.len()), &mut text);
    }
    text
}

fn hunk(lines: &[Line<'_>], from: usize, to: usize, text: &mut String) {
    let in_old = |line: &&Line<'_>| !matches!(line, Line::New(_));
    let in_new = |line: &&Line<'_>| !matches!(line, Line::Old(_));
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
            Line::Same(line) => (' ', line),
            Line::Old(line) => ('-', line),
            Line::New(line) => ('+', line),
        };
        writeln!(text, "{mark}{line}").expect("writing to a String cannot fail");
    }
}

/// The shortest way from old to new, removals first.
fn script<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    if old.len().saturating_mul(new.len()) > MOST_PAIRS {
        let gone = old.iter().map(|line| Line::Old(line));
        return gone.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    // common[i][j]: how many lines of old[i..] and new[j..] can be kept.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stand_in_their_surroundings() {
        let old: Vec<_> = (1..=20).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        "x".clone_into(&mut new[9]);
        new.push("21".to_owned());
        assert_eq!(
            unified(&old.join("\n"), &new.join("\n")),
            "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+x\n 11\n 12\n 13\n@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+21\n"
        );
        assert_eq!(unified("a\nb", "a\nb"), "");
    }
}
