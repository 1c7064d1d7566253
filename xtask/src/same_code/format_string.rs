//! Variables captured by format strings.

/// Splits a format string literal into text, captured name, text, and so on.
pub fn split_captures(literal: &str) -> Vec<&str> {
    let bytes = literal.as_bytes();
    let name_len = |from: usize| {
        let begins = bytes.get(from).is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_');
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        if begins { bytes[from..].iter().take_while(is_name).count() } else { 0 }
    };
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    let mut in_argument = false;
    while at < bytes.len() {
        let is_escape = !in_argument && bytes[at] == b'{' && bytes.get(at + 1) == Some(&b'{');
        let len = match bytes[at] {
            b'{' if !is_escape => name_len(at + 1),
            // Width and precision are captured as `width$`.
            _ if in_argument => {
                let len = name_len(at + 1);
                if len > 0 && bytes.get(at + 1 + len) == Some(&b'$') { len } else { 0 }
            }
            _ => 0,
        };
        in_argument = match bytes[at] {
            b'{' => !is_escape,
            b'}' => false,
            _ => in_argument,
        };
        if len > 0 {
            parts.extend([&literal[begin..=at], &literal[at + 1..at + 1 + len]]);
            (begin, at) = (at + 1 + len, at + len);
        }
        at += if is_escape { 2 } else { 1 };
    }
    parts.push(&literal[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::split_captures;

    #[test]
    fn captures_are_split_from_text() {
        let table: [(&str, &[&str]); 6] = [
            (r#""a {b} c""#, &[r#""a {"#, "b", r#"} c""#]),
            (r#""{{a}} {} {0} {:?}""#, &[r#""{{a}} {} {0} {:?}""#]),
            (r#""{a:>width$}""#, &[r#""{"#, "a", ":>", "width", r#"$}""#]),
            (r#""{a:.prec$?}{b}""#, &[r#""{"#, "a", ":.", "prec", "$?}{", "b", r#"}""#]),
            (r#""ä{a}ö""#, &["\"ä{", "a", "}ö\""]),
            (r#""{a:x}""#, &[r#""{"#, "a", r#":x}""#]),
        ];
        for (literal, parts) in table {
            assert_eq!(split_captures(literal), parts, "{literal}");
        }
    }
}
