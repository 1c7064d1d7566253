//! A Rust file as a sequence of comparable tokens.
//!
//! Two spellings of the same code give the same sequence: comments, imports and `mod` declarations are left out,
//! `Foo { a }` becomes `Foo { a: a }`, and commas and braces are as rustfmt writes them in short code.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use super::format_string;

/// Macros with a format string and `name = value` arguments for it.
pub const FORMAT_MACROS: &[&str] = &[
    "format",
    "print",
    "println",
    "eprint",
    "eprintln",
    "write",
    "writeln",
    "panic",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "unreachable",
    "todo",
    "unimplemented",
    "format_args",
    "anyhow",
    "bail",
    "ensure",
];
/// Macros of `tracing`.
const LOG_MACROS: &[&str] = &["info", "warn", "error", "debug", "trace", "event"];

/// A token with the line that it begins on.
#[derive(Clone, Debug)]
pub struct Token {
    pub line: usize,
    pub kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Ident(String),
    /// A string or byte string literal, or the text between two captured variables of a format string.
    Text(String),
    /// A variable that a format string captures.
    Capture(String),
    /// A number or a character.
    Number(String),
    /// A punctuation mark, and whether the next mark belongs to it.
    Mark(char, bool),
    Open(char),
    Close(char),
}

/// Whether captured variables are split from format strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captures {
    Split,
    Keep,
}

/// The tokens of `source`.
pub fn tokenize(source: &str, captures: Captures) -> Result<Vec<Token>> {
    let stream = TokenStream::from_str(source).map_err(|error| anyhow!("cannot be lexed: {error}"))?;
    let mut lexer = Lexer { found: Vec::new(), captures };
    lexer.push_all(&stream.into_iter().collect::<Vec<_>>(), Surroundings::Items);
    Ok(lexer.found)
}

/// What contains a sequence of token trees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Surroundings {
    Items,
    /// Braces of a struct literal or pattern: fields may be abbreviated.
    Fields,
    /// The arguments of a format macro, or an attribute with a format string.
    Format,
    /// An attribute whose strings may be paths of functions.
    Attribute,
}

struct Lexer {
    found: Vec<Token>,
    captures: Captures,
}

impl Lexer {
    fn push(&mut self, line: usize, kind: TokenKind) {
        self.found.push(Token { line, kind });
    }

    fn push_all(&mut self, trees: &[TokenTree], surroundings: Surroundings) {
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            if let Some(skipped) = skip_len(&trees[at..]) {
                at += skipped;
                continue;
            }
            let line = tree.span().start().line;
            match tree {
                TokenTree::Ident(ident) => {
                    let name = ident.to_string();
                    if surroundings == Surroundings::Fields && is_short_field(trees, at) {
                        // `ref` and `mut` belong to the pattern.
                        let pattern = self.pop_pattern_keywords();
                        self.push(line, TokenKind::Ident(name.clone()));
                        self.push(line, TokenKind::Mark(':', false));
                        self.found.extend(pattern);
                    }
                    self.push(line, TokenKind::Ident(name));
                }
                TokenTree::Literal(literal) => self.push_literal(line, literal.to_string(), surroundings),
                TokenTree::Punct(_) if is_punct(tree, ',') && is_optional_comma(trees, at) => {}
                TokenTree::Punct(_) if is_punct(tree, ';') && is_after_jump(trees, at) => {}
                TokenTree::Punct(punct) => {
                    let is_joint = punct.spacing() == Spacing::Joint
                        && !matches!(punct.as_char(), ',' | ';' | '>' | '?');
                    self.push(line, TokenKind::Mark(punct.as_char(), is_joint));
                }
                TokenTree::Group(group) => {
                    let mut inner: Vec<_> = group.stream().into_iter().collect();
                    let is_brace = group.delimiter() == Delimiter::Brace;
                    if is_brace && is_body(trees, at) && is_expression(&inner) {
                        if inner.last().is_some_and(|last| is_punct(last, ';')) {
                            inner.pop();
                        }
                        self.push_all(&inner, Surroundings::Items);
                    } else {
                        let (open, close) = match group.delimiter() {
                            Delimiter::Parenthesis => ('(', ')'),
                            Delimiter::Brace => ('{', '}'),
                            Delimiter::Bracket => ('[', ']'),
                            Delimiter::None => (' ', ' '),
                        };
                        self.push(line, TokenKind::Open(open));
                        self.push_all(&inner, surroundings_of(trees, at, surroundings));
                        let is_single =
                            group.delimiter() == Delimiter::Parenthesis && is_tuple_of_one(trees, at, &inner);
                        if is_single {
                            self.push(line, TokenKind::Mark(',', false));
                        }
                        self.push(group.span_close().start().line, TokenKind::Close(close));
                    }
                    // A match arm with a block needs no comma.
                    let has_comma = trees.get(at + 1).is_some_and(|next| is_punct(next, ','));
                    if is_brace && is_arm(&trees[..at]) && at + 1 < trees.len() && !has_comma {
                        self.push(line, TokenKind::Mark(',', false));
                    }
                }
            }
            at += 1;
        }
    }

    fn pop_pattern_keywords(&mut self) -> Vec<Token> {
        let is_keyword =
            |token: &Token| matches!(&token.kind, TokenKind::Ident(name) if name == "ref" || name == "mut");
        let kept = self.found.iter().rposition(|token| !is_keyword(token)).map_or(0, |last| last + 1);
        self.found.split_off(kept)
    }

    fn push_literal(&mut self, line: usize, text: String, surroundings: Surroundings) {
        let is_text = text.ends_with('"') || text.ends_with("\"#") || text.ends_with("\"##");
        if !is_text {
            self.push(line, TokenKind::Number(text));
        } else if self.captures == Captures::Keep
            || surroundings == Surroundings::Items
            || surroundings == Surroundings::Fields
        {
            self.push(line, TokenKind::Text(text));
        } else if surroundings == Surroundings::Format {
            for (index, part) in format_string::split_captures(&text).into_iter().enumerate() {
                let part = part.to_owned();
                self.push(
                    line,
                    if index % 2 == 0 { TokenKind::Text(part) } else { TokenKind::Capture(part) },
                );
            }
        } else {
            self.push_path_literal(line, text);
        }
    }

    /// An attribute names functions in strings: `default = "default_port"`.
    fn push_path_literal(&mut self, line: usize, text: String) {
        const PATHS: [&str; 6] =
            ["default", "with", "serialize_with", "deserialize_with", "skip_serializing_if", "schema_with"];
        let names_path = matches!(
            self.found.as_slice(),
            [.., Token { kind: TokenKind::Ident(key), .. }, Token { kind: TokenKind::Mark('=', _), .. }] if PATHS.contains(&key.as_str())
        );
        let path = text.trim_matches('"');
        let begin = self.found.len();
        match TokenStream::from_str(path) {
            Ok(stream) if names_path => {
                self.push_all(&stream.into_iter().collect::<Vec<_>>(), Surroundings::Items);
            }
            _ => self.push(line, TokenKind::Text(text)),
        }
        // The line of a token within the string is its line in the string.
        for token in &mut self.found[begin..] {
            token.line = line;
        }
    }
}

/// Number of leading trees to skip: an import or a `mod` declaration with its attributes, or a doc comment.
fn skip_len(trees: &[TokenTree]) -> Option<usize> {
    let is_mark = |at: usize, mark: char| trees.get(at).is_some_and(|tree| is_punct(tree, mark));
    let mut at = 0;
    while is_mark(at, '#') {
        let begin = if is_mark(at + 1, '!') { at + 2 } else { at + 1 };
        let Some(TokenTree::Group(group)) = trees.get(begin) else { return None };
        let is_doc = group.stream().into_iter().next().is_some_and(|first| is_ident(Some(&first), "doc"));
        if at == 0 && is_doc {
            return Some(begin + 1);
        }
        at = begin + 1;
    }
    if is_ident(trees.get(at), "pub") {
        at += 1;
        if matches!(trees.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
        {
            at += 1;
        }
    }
    if is_ident(trees.get(at), "use") {
        let end = trees.iter().position(|tree| is_punct(tree, ';'))?;
        return Some(end + 1);
    }
    (is_ident(trees.get(at), "mod") && is_mark(at + 2, ';')).then_some(at + 3)
}

fn is_ident(tree: Option<&TokenTree>, name: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == name)
}

fn is_punct(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Whether a comma may be added or removed by rustfmt: before a closing delimiter or `>`.
fn is_optional_comma(trees: &[TokenTree], at: usize) -> bool {
    trees.get(at + 1).is_none_or(|next| is_punct(next, '>'))
}

/// Whether parentheses with `inner` are a tuple of one element: `(a,)`, which is not `(a)`.
fn is_tuple_of_one(trees: &[TokenTree], at: usize, inner: &[TokenTree]) -> bool {
    let is_call = match at.checked_sub(1).map(|before| &trees[before]) {
        Some(TokenTree::Ident(ident)) => {
            !matches!(ident.to_string().as_str(), "return" | "in" | "match" | "if" | "else" | "break")
        }
        Some(TokenTree::Group(_)) => true,
        Some(TokenTree::Punct(punct)) => matches!(punct.as_char(), '!' | '>' | '?') && !is_arm(&trees[..at]),
        _ => false,
    };
    let mut depth = 0;
    let mut commas = 0;
    for (index, tree) in inner.iter().enumerate() {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            TokenTree::Punct(punct) if punct.as_char() == '>' && !is_arrow(&inner[..index]) => depth -= 1,
            TokenTree::Punct(punct) if punct.as_char() == ',' && depth == 0 => commas += 1,
            _ => {}
        }
    }
    !is_call && commas == 1 && inner.last().is_some_and(|last| is_punct(last, ','))
}

/// Whether a `>` after these trees ends `->` or `=>`.
fn is_arrow(before: &[TokenTree]) -> bool {
    matches!(before.last(), Some(TokenTree::Punct(last)) if matches!(last.as_char(), '-' | '=') && last.spacing() == Spacing::Joint)
}

/// Whether the identifier abbreviates a field of a struct literal or pattern.
fn is_short_field(trees: &[TokenTree], at: usize) -> bool {
    let is_last = trees.get(at + 1).is_none_or(|next| is_punct(next, ','));
    let name = match &trees[at] {
        TokenTree::Ident(ident) => ident.to_string(),
        _ => return false,
    };
    let mut begin = at;
    while begin > 0 && (is_ident(Some(&trees[begin - 1]), "ref") || is_ident(Some(&trees[begin - 1]), "mut"))
    {
        begin -= 1;
    }
    let is_first = begin == 0
        || is_punct(&trees[begin - 1], ',')
        || matches!(&trees[begin - 1], TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && begin > 1 && is_punct(&trees[begin - 2], '#'));
    is_last && is_first && starts_lowercase(&name)
}

pub fn starts_lowercase(name: &str) -> bool {
    name.trim_start_matches("r#")
        .trim_start_matches('_')
        .starts_with(|first: char| first.is_lowercase() || first.is_numeric())
}

fn surroundings_of(trees: &[TokenTree], at: usize, outer: Surroundings) -> Surroundings {
    let TokenTree::Group(group) = &trees[at] else { return Surroundings::Items };
    let before = |back: usize| at.checked_sub(back).map(|index| &trees[index]);
    if before(1).is_some_and(|tree| is_punct(tree, '!'))
        && let Some(TokenTree::Ident(name)) = before(2)
    {
        let name = name.to_string();
        let is_format = FORMAT_MACROS.contains(&name.as_str()) || LOG_MACROS.contains(&name.as_str());
        return if is_format { Surroundings::Format } else { Surroundings::Items };
    }
    let is_attribute = before(1).is_some_and(|tree| is_punct(tree, '#'))
        || (before(1).is_some_and(|tree| is_punct(tree, '!'))
            && before(2).is_some_and(|tree| is_punct(tree, '#')));
    if group.delimiter() == Delimiter::Bracket && is_attribute {
        return Surroundings::Attribute;
    }
    // Within an attribute: `#[error("...")]`, `#[serde(default = "...")]`.
    if outer == Surroundings::Attribute
        && let Some(TokenTree::Ident(name)) = before(1)
    {
        return match name.to_string().as_str() {
            "error" => Surroundings::Format,
            "serde" | "schemars" => Surroundings::Attribute,
            _ => Surroundings::Items,
        };
    }
    if group.delimiter() == Delimiter::Brace && follows_type_name(trees, at) {
        return Surroundings::Fields;
    }
    Surroundings::Items
}

/// Whether braces belong to a struct literal or pattern: `a::Foo { .. }`, but not `-> Foo { .. }`.
fn follows_type_name(trees: &[TokenTree], at: usize) -> bool {
    let Some(TokenTree::Ident(name)) = at.checked_sub(1).map(|before| &trees[before]) else { return false };
    let name = name.to_string();
    if starts_lowercase(&name) || !name.contains(char::is_lowercase) {
        return false;
    }
    let mut begin = at - 1;
    while begin >= 3 && is_punct(&trees[begin - 1], ':') && is_punct(&trees[begin - 2], ':') {
        begin -= 3;
    }
    match begin.checked_sub(1).map(|before| &trees[before]) {
        // A return type, a bound, or an item.
        Some(TokenTree::Punct(punct)) if punct.as_char() == '>' => is_arm(&trees[..begin]),
        Some(TokenTree::Punct(punct)) if punct.as_char() == ':' || punct.as_char() == '+' => {
            !trees[..begin].iter().any(|tree| is_ident(Some(tree), "where") || is_ident(Some(tree), "trait"))
        }
        // `for Foo { a } in b`, but not `impl A for Foo { .. }`.
        Some(TokenTree::Ident(before)) if before == "for" => is_ident(trees.get(at + 1), "in"),
        Some(TokenTree::Ident(before)) => !matches!(
            before.to_string().as_str(),
            "impl" | "struct" | "enum" | "trait" | "union" | "mod" | "dyn"
        ),
        _ => true,
    }
}

/// Whether the next tree is the body of a match arm.
fn is_arm(before: &[TokenTree]) -> bool {
    let [.., TokenTree::Punct(first), TokenTree::Punct(second)] = before else { return false };
    first.as_char() == '=' && second.as_char() == '>'
}

/// Whether the tree is the whole body of a match arm or of a closure.
fn is_body(trees: &[TokenTree], at: usize) -> bool {
    let is_closure = at.checked_sub(1).is_some_and(|before| is_punct(&trees[before], '|'));
    let is_whole = trees.get(at + 1).is_none_or(|next| is_punct(next, ',') || is_punct(next, ';'));
    is_arm(&trees[..at]) || (is_closure && is_whole)
}

/// Whether a block contains a single expression, whose braces rustfmt may add or remove, with a semicolon if its type
/// is `()`.
fn is_expression(inner: &[TokenTree]) -> bool {
    let statements = match inner {
        [rest @ .., last] if is_punct(last, ';') => rest,
        whole => whole,
    };
    !statements.is_empty()
        && !statements.iter().any(|tree| is_punct(tree, ';'))
        && !is_ident(statements.first(), "let")
}

/// Whether the semicolon ends a block with `return`, `break` or `continue`: rustfmt adds it when the block gets lines.
fn is_after_jump(trees: &[TokenTree], at: usize) -> bool {
    let begin = trees[..at].iter().rposition(|tree| is_punct(tree, ';')).map_or(0, |last| last + 1);
    let is_jump =
        |tree: &TokenTree| ["return", "break", "continue"].iter().any(|word| is_ident(Some(tree), word));
    at + 1 == trees.len() && trees[begin..at].iter().any(is_jump)
}
