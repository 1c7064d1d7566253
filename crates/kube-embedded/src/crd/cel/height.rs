//! Upper bound of the height of an expression's syntax tree, estimated from its text: the parser recurses and must not get a deeper one.

/// An open bracket, or the whole text.
#[derive(Default)]
struct BracketLevel {
    /// Operators since the last separator.
    operators: usize,
    /// Selections, calls and brackets in the current operand.
    operand: usize,
    max_operand: usize,
    /// The greatest height of a part that ended with a separator.
    max_part: usize,
}

impl BracketLevel {
    fn end_operand(&mut self) {
        self.max_operand = self.max_operand.max(self.operand);
        self.operand = 0;
    }

    fn end_part(&mut self) {
        self.end_operand();
        self.max_part = self.max_part.max(self.operators.saturating_add(self.max_operand));
        (self.operators, self.max_operand) = (0, 0);
    }

    fn height(mut self) -> usize {
        self.end_part();
        self.max_part
    }
}

/// Returns an upper bound of the height, except for conditionals and logical operators, whose operands are siblings.
pub(super) fn height(source: &str) -> usize {
    let bytes = source.as_bytes();
    let mut levels = Vec::new();
    let mut level = BracketLevel::default();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\'' | b'"' => at = after_string(bytes, at - 1),
            b'/' if bytes.get(at) == Some(&b'/') => {
                at = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |line| at + line);
            }
            b'(' | b'[' | b'{' => levels.push(std::mem::take(&mut level)),
            b')' | b']' | b'}' => {
                let inner = std::mem::replace(&mut level, levels.pop().unwrap_or_default()).height();
                level.operand = level.operand.max(inner).saturating_add(1);
            }
            b'.' => level.operand = level.operand.saturating_add(1),
            b'&' | b'|' | b',' | b':' | b'?' => level.end_part(),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' => {
                level.end_operand();
                level.operators = level.operators.saturating_add(1);
                at += usize::from(bytes.get(at) == Some(&b'='));
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'0'..=b'9' => {
                let word = &bytes[at - 1..];
                let end = word.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'));
                let word = &word[..end.unwrap_or(word.len())];
                if word == b"in" {
                    level.end_operand();
                    level.operators = level.operators.saturating_add(1);
                }
                let is_raw = matches!(
                    word,
                    b"r" | b"R" | b"br" | b"bR" | b"Br" | b"BR" | b"rb" | b"Rb" | b"rB" | b"RB"
                );
                at += word.len() - 1;
                if is_raw && matches!(bytes.get(at), Some(b'\'' | b'"')) {
                    at = after_raw_string(bytes, at);
                }
            }
            _ => {}
        }
    }
    while let Some(outer) = levels.pop() {
        let inner = std::mem::replace(&mut level, outer).height();
        level.operand = level.operand.max(inner).saturating_add(1);
    }
    level.height()
}

/// Returns the quotes that delimit a string.
fn quotes(bytes: &[u8], at: usize) -> &[u8] {
    let three = &bytes[at..bytes.len().min(at + 3)];
    if three.len() == 3 && three.iter().all(|byte| *byte == bytes[at]) { three } else { &bytes[at..=at] }
}

fn after_string(bytes: &[u8], at: usize) -> usize {
    let quotes = quotes(bytes, at);
    let mut at = at + quotes.len();
    while at < bytes.len() && !bytes[at..].starts_with(quotes) {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.saturating_add(quotes.len()).min(bytes.len())
}

fn after_raw_string(bytes: &[u8], at: usize) -> usize {
    let quotes = quotes(bytes, at);
    let mut at = at + quotes.len();
    while at < bytes.len() && !bytes[at..].starts_with(quotes) {
        at += 1;
    }
    at.saturating_add(quotes.len()).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn height_grows_with_chains_and_brackets_and_not_with_lists() {
        let table = [
            ("a", 0),
            ("a.b.c", 2),
            ("1 + 2 + 3", 2),
            ("a.b + c.d.e", 3),
            ("((1))", 2),
            ("f(g(h(1)))", 3),
            ("[1, 2, 3, 4]", 1),
            ("a == 1 && b == 2 && c == 3", 1),
            ("a in b in c", 2),
            ("--1", 2),
            ("'a.b.c.d((((' + r'\\' + \"\"\"\".\".\"\"\"", 2),
            ("a // .b.c.d", 0),
            ("index + inner", 1),
        ];
        for (source, expected) in table {
            assert_eq!(height(source), expected, "{source}");
        }
    }
}
