//! A Rust file as a sequence of comparable tokens.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A token with the line that it begins on.
#[derive(Clone, Debug)]
pub struct Token {
    pub line: usize,
    pub kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Ident(String),
    /// A string or byte string literal.
    Text(String),
    /// A number, a character, a punctuation mark or a delimiter.
    Other(String),
}

/// The tokens of `source` without comments, imports and `mod` declarations, in the form that rustfmt chooses.
pub fn tokenize(source: &str) -> Result<Vec<Token>> {
    // A shebang is no token.
    let stream = TokenStream::from_str(source).map_err(|error| anyhow!("cannot be lexed: {error}"))?;
    let mut found = Vec::new();
    push_all(&stream.into_iter().collect::<Vec<_>>(), &mut found);
    Ok(found)
}

fn push_all(trees: &[TokenTree], found: &mut Vec<Token>) {
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        if let Some(skipped) = skip_len(&trees[at..]) {
            at += skipped;
            continue;
        }
        let line = tree.span().start().line;
        let other = |text: String| Token { line, kind: TokenKind::Other(text) };
        match tree {
            TokenTree::Ident(ident) => found.push(Token { line, kind: TokenKind::Ident(ident.to_string()) }),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let is_text = text.ends_with('"') || text.ends_with("\"#") || text.ends_with("\"##");
                found.push(if is_text { Token { line, kind: TokenKind::Text(text) } } else { other(text) });
            }
            // rustfmt adds and removes a comma before a closing delimiter.
            TokenTree::Punct(punct) if punct.as_char() == ',' && at + 1 == trees.len() => {}
            TokenTree::Punct(punct) => {
                let joint = if punct.spacing() == Spacing::Joint { "+" } else { "" };
                found.push(other(format!("{}{joint}", punct.as_char())));
            }
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                if group.delimiter() == Delimiter::Brace && is_body(&trees[..at]) && is_expression(&inner) {
                    push_all(&inner, found);
                    // A match arm without braces ends with a comma.
                    let next_is_comma =
                        matches!(trees.get(at + 1), Some(TokenTree::Punct(next)) if next.as_char() == ',');
                    if is_arm(&trees[..at]) && at + 1 < trees.len() && !next_is_comma {
                        found.push(other(",".to_owned()));
                    }
                } else {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    found.push(other(open.to_owned()));
                    push_all(&inner, found);
                    found.push(Token {
                        line: group.span_close().start().line,
                        kind: TokenKind::Other(close.to_owned()),
                    });
                    // A match arm with a block needs no comma.
                    let next_is_comma =
                        matches!(trees.get(at + 1), Some(TokenTree::Punct(next)) if next.as_char() == ',');
                    if group.delimiter() == Delimiter::Brace
                        && is_arm(&trees[..at])
                        && at + 1 < trees.len()
                        && !next_is_comma
                    {
                        found.push(other(",".to_owned()));
                    }
                }
            }
        }
        at += 1;
    }
}

/// Number of leading trees to skip: an import, a `mod` declaration or a doc comment.
fn skip_len(trees: &[TokenTree]) -> Option<usize> {
    let is_punct =
        |at: usize, mark: char| matches!(trees.get(at), Some(TokenTree::Punct(p)) if p.as_char() == mark);
    if is_punct(0, '#') {
        let at = if is_punct(1, '!') { 2 } else { 1 };
        if let Some(TokenTree::Group(group)) = trees.get(at)
            && matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
        {
            return Some(at + 1);
        }
    }
    let mut at = 0;
    if is_ident(trees.first(), "pub") {
        at = 1;
        if matches!(trees.get(1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
        {
            at = 2;
        }
    }
    if is_ident(trees.get(at), "use") {
        let end = trees.iter().position(|tree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ';'))?;
        return Some(end + 1);
    }
    let is_declaration = is_ident(trees.get(at), "mod") && is_punct(at + 2, ';');
    is_declaration.then_some(at + 3)
}

fn is_ident(tree: Option<&TokenTree>, name: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == name)
}

/// Whether the next tree is the body of a match arm.
fn is_arm(before: &[TokenTree]) -> bool {
    let [.., TokenTree::Punct(first), TokenTree::Punct(second)] = before else { return false };
    first.as_char() == '=' && second.as_char() == '>'
}

/// Whether the next tree is the body of a match arm or of a closure.
fn is_body(before: &[TokenTree]) -> bool {
    is_arm(before) || matches!(before.last(), Some(TokenTree::Punct(last)) if last.as_char() == '|')
}

/// Whether a block contains a single expression, whose braces rustfmt may add or remove.
fn is_expression(inner: &[TokenTree]) -> bool {
    let has_statement = inner.iter().any(|tree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ';'));
    !inner.is_empty() && !has_statement
}
