//! Finds what each identifier refers to: a local variable by the position of its binding, or a name.
//!
//! This is an approximation of Rust's scopes on tokens, because the contents of macros count as well. It knows `let`
//! with conditions and chains, `match`, `for`, closures, parameters, and the macros `matches!` and `select!`. What it
//! does not recognise as a variable is a name, and stricter rules apply to names.

use super::tokens::{FORMAT_MACROS, Token, TokenKind, starts_lowercase};

/// What the identifier at one position is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// No identifier, or a keyword.
    Fixed,
    /// Introduces a variable.
    Binding,
    /// The variable bound at this position.
    Variable(usize),
    Name(Name),
}

/// A name that is no variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub class: Class,
    pub definition: Definition,
    /// What qualifies the name: the path segment or the receiver before it, or the type that it belongs to. Two names
    /// with different qualifiers may be different things.
    pub qualifier: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A module, type, variant, constant, function or macro.
    Item,
    Field,
    Method,
    Lifetime,
}

/// Whether a name is defined here, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    None,
    Item,
    Field,
    /// A function may be called as an item or as a method.
    Function,
}

pub struct Resolved {
    pub references: Vec<Reference>,
    /// For each token the position of the smallest enclosing function, type, trait or `impl`.
    pub items: Vec<usize>,
}

pub fn resolve(tokens: &[Token]) -> Resolved {
    let mut ends = vec![0; tokens.len()];
    let mut parents = vec![None; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token.kind, TokenKind::Close(_)) {
            let begin: usize = open.pop().expect("the lexer balances delimiters");
            ends[begin] = at;
        }
        parents[at] = open.last().copied();
        if matches!(token.kind, TokenKind::Open(_)) {
            open.push(at);
        }
    }
    let mut resolver = Resolver {
        tokens,
        ends,
        parents,
        variables: Vec::new(),
        item: 0,
        found: Resolved { references: vec![Reference::Fixed; tokens.len()], items: vec![0; tokens.len()] },
    };
    resolver.walk(0, tokens.len());
    resolver.found
}

pub fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
        "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref",
        "return", "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe", "where",
        "while", "_",
    ];
    KEYWORDS.contains(&name)
}

struct Resolver<'a> {
    tokens: &'a [Token],
    /// The closing delimiter of each opening one.
    ends: Vec<usize>,
    /// The enclosing opening delimiter of each token.
    parents: Vec<Option<usize>>,
    /// Visible variables, the innermost last.
    variables: Vec<(&'a str, usize)>,
    item: usize,
    found: Resolved,
}

impl<'a> Resolver<'a> {
    fn ident(&self, at: usize) -> Option<&'a str> {
        match &self.tokens.get(at)?.kind {
            TokenKind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// A keyword is no name, unless it is raw.
    fn name(&self, at: usize) -> Option<&'a str> {
        self.ident(at).filter(|name| !is_keyword(name))
    }

    fn is_mark(&self, at: usize, mark: char) -> bool {
        matches!(self.tokens.get(at), Some(Token { kind: TokenKind::Mark(found, _), .. }) if *found == mark)
    }

    fn is_joint(&self, at: usize, mark: char) -> bool {
        matches!(self.tokens.get(at), Some(Token { kind: TokenKind::Mark(found, true), .. }) if *found == mark)
    }

    fn is_open(&self, at: usize, delimiter: char) -> bool {
        matches!(self.tokens.get(at), Some(Token { kind: TokenKind::Open(found), .. }) if *found == delimiter)
    }

    /// Whether `::` begins here.
    fn is_path(&self, at: usize) -> bool {
        self.is_joint(at, ':') && self.is_mark(at + 1, ':')
    }

    fn follows(&self, at: usize, mark: char) -> bool {
        at > 0 && self.is_mark(at - 1, mark)
    }

    fn follows_path(&self, at: usize) -> bool {
        at >= 2 && self.is_path(at - 2)
    }

    /// Whether `=>` begins here.
    fn is_arrow(&self, at: usize) -> bool {
        self.is_joint(at, '=') && self.is_mark(at + 1, '>')
    }

    /// A single `=`: no comparison, no range, no arrow.
    fn is_assignment(&self, at: usize) -> bool {
        let compound = at > 0
            && matches!(
                self.tokens[at - 1].kind,
                TokenKind::Mark(
                    '=' | '<' | '>' | '!' | '.' | '+' | '-' | '*' | '/' | '|' | '&' | '^' | '%',
                    true
                )
            );
        let is_comparison = self.is_joint(at, '=') && self.is_mark(at + 1, '=');
        self.is_mark(at, '=') && !compound && !is_comparison && !self.is_arrow(at)
    }

    /// A single `:`.
    fn is_colon(&self, at: usize) -> bool {
        self.is_mark(at, ':') && !self.is_path(at) && !(at > 0 && self.is_path(at - 1))
    }

    /// The first position in `at..end` outside of inner delimiters that fulfils `is_it`, or `end`.
    fn find(&self, at: usize, end: usize, is_it: impl Fn(usize) -> bool) -> usize {
        let mut at = at;
        while at < end && !is_it(at) {
            at = self.after(at);
        }
        at.min(end)
    }

    /// Like `find`, outside of generic arguments: in types, and after `::`.
    fn find_outside_generics(
        &self,
        at: usize,
        end: usize,
        is_type: bool,
        is_it: impl Fn(usize) -> bool,
    ) -> usize {
        let (mut at, mut depth) = (at, 0_usize);
        while at < end {
            let is_generic = is_type || depth > 0 || self.follows_path(at);
            if depth == 0 && is_it(at) {
                return at;
            }
            if self.is_mark(at, '<') && is_generic {
                depth += 1;
            } else if self.is_mark(at, '>')
                && !(at > 0 && (self.is_joint(at - 1, '-') || self.is_joint(at - 1, '=')))
            {
                depth = depth.saturating_sub(1);
            }
            at = self.after(at);
        }
        end
    }

    /// The position after a token or a delimited group.
    fn after(&self, at: usize) -> usize {
        if matches!(self.tokens[at].kind, TokenKind::Open(_)) { self.ends[at] + 1 } else { at + 1 }
    }

    fn set(&mut self, at: usize, reference: Reference) {
        self.found.references[at] = reference;
        self.found.items[at] = self.item;
    }

    fn set_name(&mut self, at: usize, class: Class, definition: Definition) {
        let qualifier = self.qualifier(at, class);
        self.set(at, Reference::Name(Name { class, definition, qualifier }));
    }

    fn qualifier(&self, at: usize, class: Class) -> Option<String> {
        match class {
            Class::Item if self.follows_path(at) => Some(self.describe(at.checked_sub(3)?)),
            // A module or type.
            Class::Item if self.is_path(at + 1) => Some("::".to_owned()),
            Class::Field | Class::Method if self.follows(at, '.') => Some(self.receiver(at - 1)),
            // `Type { field: .. }`
            Class::Field => Some(self.describe(self.parents[at]?.checked_sub(1)?)),
            _ => None,
        }
    }

    /// The receiver before a dot, such as `a.b`. Other expressions are described by their position.
    fn receiver(&self, dot: usize) -> String {
        let mut begin = dot - 1;
        while begin >= 2
            && self.ident(begin).is_some()
            && self.is_mark(begin - 1, '.')
            && !self.is_mark(begin - 2, '.')
        {
            begin -= 2;
        }
        let parts: Vec<String> = (begin..dot).step_by(2).map(|at| self.describe(at)).collect();
        parts.join(".")
    }

    fn describe(&self, at: usize) -> String {
        match (&self.found.references[at], self.ident(at)) {
            (Reference::Variable(binding), _) => format!("variable {binding}"),
            (_, Some(name)) => name.to_owned(),
            _ => format!("expression {at}"),
        }
    }

    /// Resolves an expression, statements, types or items. Variables that they bind stay visible.
    fn walk(&mut self, begin: usize, end: usize) {
        let mut at = begin;
        while at < end {
            self.found.items[at] = self.item;
            at = match &self.tokens[at].kind {
                TokenKind::Open(_) => self.group(at),
                TokenKind::Capture(name) => {
                    self.variable_or_item(at, name);
                    at + 1
                }
                TokenKind::Ident(name) if is_keyword(name) => self.keyword(at, end, name),
                TokenKind::Ident(name) => self.identifier(at, name),
                TokenKind::Mark('|', _) if self.is_prefix(at) => self.closure(at, end),
                TokenKind::Mark('#', _) if self.is_open(at + 1, '[') || self.is_open(at + 2, '[') => {
                    self.attribute(at)
                }
                _ => at + 1,
            };
        }
    }

    /// Resolves a delimited group; variables bound in it end with it.
    fn group(&mut self, open: usize) -> usize {
        let visible = self.variables.len();
        let end = self.ends[open];
        self.walk(open + 1, end);
        self.variables.truncate(visible);
        end + 1
    }

    fn keyword(&mut self, at: usize, end: usize, name: &str) -> usize {
        let is_definition = self.name(at + 1).is_some();
        match name {
            // `'static` is a lifetime.
            _ if self.follows(at, '\'') => at + 1,
            "let" => self.let_statement(at, end),
            "if" | "while" => {
                // `if let a = { .. } { .. }`
                let body = self.find(at + 1, end, |at| self.is_open(at, '{') && !self.follows(at, '='));
                self.conditional(at + 1, body, end)
            }
            "for" if !self.is_mark(at + 1, '<') => {
                let keyword = self.find(at + 1, end, |at| self.ident(at) == Some("in"));
                // `impl A for B`
                if keyword == end {
                    return at + 1;
                }
                let body = self.find(keyword + 1, end, |at| self.is_open(at, '{'));
                let bound = self.pattern(at + 1, keyword);
                let visible = self.variables.len();
                self.walk(keyword + 1, body);
                self.variables.extend(bound);
                let after = if body < end { self.group(body) } else { end };
                self.variables.truncate(visible);
                after
            }
            "match" => {
                let body = self.find(at + 1, end, |at| self.is_open(at, '{'));
                let visible = self.variables.len();
                self.walk(at + 1, body);
                self.variables.truncate(visible);
                if body == end {
                    return end;
                }
                self.arms(body + 1, self.ends[body]);
                self.ends[body] + 1
            }
            "fn" if is_definition => self.function(at, end),
            "struct" | "enum" if is_definition => self.type_definition(at, end, name == "enum"),
            "trait" | "impl" if self.is_item_start(at) => {
                let outer = std::mem::replace(&mut self.item, at);
                if is_definition && name == "trait" {
                    self.set_name(at + 1, Class::Item, Definition::Item);
                }
                let body = self.find(at + 1, end, |at| self.is_open(at, '{'));
                self.walk(if name == "trait" { at + 2 } else { at + 1 }, body);
                let after = if body < end { self.group(body) } else { end };
                self.item = outer;
                after
            }
            "type" | "static" | "mod" | "const" if is_definition && !self.follows(at, '*') => {
                self.set_name(at + 1, Class::Item, Definition::Item);
                at + 2
            }
            _ => at + 1,
        }
    }

    /// Whether an `impl` or `trait` keyword begins an item instead of a type.
    fn is_item_start(&self, at: usize) -> bool {
        match at.checked_sub(1).map(|before| &self.tokens[before].kind) {
            None
            | Some(TokenKind::Close('}' | ']' | ')') | TokenKind::Open('{') | TokenKind::Mark(';', _)) => {
                true
            }
            Some(TokenKind::Ident(before)) => before == "pub" || before == "unsafe",
            _ => false,
        }
    }

    /// A condition, which may bind variables, and the block in which they are visible.
    fn conditional(&mut self, begin: usize, body: usize, end: usize) -> usize {
        let visible = self.variables.len();
        self.walk(begin, body);
        let after = if body < end { self.group(body) } else { end };
        self.variables.truncate(visible);
        after
    }

    fn let_statement(&mut self, at: usize, end: usize) -> usize {
        let is_condition = at > 0
            && (matches!(self.ident(at - 1), Some("if" | "while"))
                || self.is_mark(at - 1, '&')
                || self.is_mark(at - 1, '|'));
        let pattern_end =
            self.find(at + 1, end, |at| self.is_assignment(at) || self.is_colon(at) || self.is_mark(at, ';'));
        let mut assignment = pattern_end;
        if self.is_colon(pattern_end) {
            assignment = self.find_outside_generics(pattern_end, end, true, |at| {
                self.is_assignment(at) || self.is_mark(at, ';')
            });
            self.walk(pattern_end, assignment);
        }
        let bound = self.pattern(at + 1, pattern_end);
        let mut after = assignment;
        if self.is_assignment(assignment) {
            after = self.find(assignment + 1, end, |at| {
                if is_condition {
                    self.is_joint(at, '&') && self.is_mark(at + 1, '&')
                } else {
                    self.is_mark(at, ';')
                }
            });
            let visible = self.variables.len();
            self.walk(assignment + 1, after);
            self.variables.truncate(visible);
        }
        self.variables.extend(bound);
        after
    }

    /// Resolves the patterns `begin..end` and returns the variables that they bind.
    fn pattern(&mut self, begin: usize, end: usize) -> Vec<(&'a str, usize)> {
        let mut bound: Vec<(&'a str, usize)> = Vec::new();
        for at in begin..end {
            self.found.items[at] = self.item;
            let Some(name) = self.name(at) else { continue };
            if self.follows(at, '\'') {
                self.set_name(at, Class::Lifetime, Definition::None);
            } else if at + 1 < end && self.is_field(at) {
                self.set_name(at, Class::Field, Definition::None);
            } else if self.follows_path(at)
                || self.is_path(at + 1)
                || self.is_open(at + 1, '(')
                || self.is_open(at + 1, '{')
                || self.is_mark(at + 1, '!')
                || !starts_lowercase(name)
            {
                self.set_name(at, Class::Item, Definition::None);
            } else if let Some((_, position)) = bound.iter().find(|(other, _)| *other == name) {
                // The alternatives of a pattern bind the same variables.
                self.set(at, Reference::Variable(*position));
            } else {
                self.set(at, Reference::Binding);
                bound.push((name, at));
            }
        }
        bound
    }

    /// Whether a field is named here: `name:` in braces, after `{`, a comma, an attribute or a visibility.
    fn is_field(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1) else { return false };
        let is_first = match &self.tokens[before].kind {
            TokenKind::Open('{') | TokenKind::Mark(',', _) | TokenKind::Close(']' | ')') => true,
            TokenKind::Ident(before) => before == "pub",
            _ => false,
        };
        let is_lowercase = self.ident(at).is_some_and(starts_lowercase);
        is_first
            && is_lowercase
            && self.is_colon(at + 1)
            && self.parents[at].is_some_and(|open| self.is_open(open, '{'))
    }

    fn arms(&mut self, begin: usize, end: usize) {
        let mut at = begin;
        while at < end {
            if self.is_mark(at, ',') {
                at += 1;
                continue;
            }
            if self.is_mark(at, '#') {
                at = self.attribute(at);
                continue;
            }
            let arrow = self.find(at, end, |at| self.is_arrow(at));
            let guard = self.find(at, arrow, |at| self.ident(at) == Some("if"));
            let visible = self.variables.len();
            let bound = self.pattern(at, guard);
            self.variables.extend(bound);
            if guard < arrow {
                self.walk(guard + 1, arrow);
            }
            let body = (arrow + 2).min(end);
            let comma = self.find_outside_generics(body, end, false, |at| self.is_mark(at, ','));
            self.walk(body, comma);
            self.variables.truncate(visible);
            at = comma;
        }
    }

    /// Whether `|` begins a closure.
    fn is_prefix(&self, at: usize) -> bool {
        match at.checked_sub(1).map(|before| &self.tokens[before].kind) {
            None | Some(TokenKind::Open(_)) => true,
            Some(TokenKind::Mark('>', _)) => at >= 2 && self.is_arrow(at - 2),
            Some(TokenKind::Mark(mark, _)) => !matches!(mark, '?' | '|'),
            Some(TokenKind::Ident(name)) => {
                is_keyword(name) && !matches!(name.as_str(), "self" | "Self" | "true" | "false")
            }
            Some(_) => false,
        }
    }

    fn closure(&mut self, at: usize, end: usize) -> usize {
        let visible = self.variables.len();
        let mut bound = Vec::new();
        let close = if self.is_joint(at, '|') && self.is_mark(at + 1, '|') {
            at + 1
        } else {
            let close = self.find(at + 1, end, |at| self.is_mark(at, '|'));
            bound = self.parameters(at + 1, close);
            close
        };
        let body = (close + 1).min(end);
        let after =
            self.find_outside_generics(body, end, false, |at| self.is_mark(at, ',') || self.is_mark(at, ';'));
        self.variables.extend(bound);
        self.walk(body, after);
        self.variables.truncate(visible);
        after
    }

    fn parameters(&mut self, begin: usize, end: usize) -> Vec<(&'a str, usize)> {
        let mut bound = Vec::new();
        let mut at = begin;
        while at < end {
            if self.is_mark(at, '#') {
                at = self.attribute(at);
                continue;
            }
            let pattern_end = self.find(at, end, |at| self.is_colon(at) || self.is_mark(at, ','));
            bound.extend(self.pattern(at, pattern_end));
            let comma = self.find_outside_generics(pattern_end, end, true, |at| self.is_mark(at, ','));
            self.walk(pattern_end, comma);
            at = comma + 1;
        }
        bound
    }

    fn function(&mut self, at: usize, end: usize) -> usize {
        let outer = std::mem::replace(&mut self.item, at);
        // A method may call a function of its own name.
        let qualifier = Some("definition".to_owned());
        self.set(
            at + 1,
            Reference::Name(Name { class: Class::Item, definition: Definition::Function, qualifier }),
        );
        let generics_end = self.after_generics(at + 2);
        self.walk(at + 2, generics_end);
        let list = self.find(generics_end, end, |at| self.is_open(at, '('));
        // An item sees no variables of the function around it.
        let visible = std::mem::take(&mut self.variables);
        let mut after = end;
        if list < end {
            let bound = self.parameters(list + 1, self.ends[list]);
            let signature = self.ends[list] + 1;
            let body = self.find(signature, end, |at| self.is_open(at, '{') || self.is_mark(at, ';'));
            self.walk(signature, body);
            self.variables = bound;
            after = if self.is_open(body, '{') { self.group(body) } else { body };
        }
        self.variables = visible;
        self.item = outer;
        after
    }

    /// The position after generic parameters, if there are any.
    fn after_generics(&self, at: usize) -> usize {
        if !self.is_mark(at, '<') {
            return at;
        }
        let is_end =
            |at: usize| self.is_mark(at, '>') && !self.is_joint(at - 1, '-') && !self.is_joint(at - 1, '=');
        self.find_outside_generics(at + 1, self.tokens.len(), true, is_end) + 1
    }

    fn type_definition(&mut self, at: usize, end: usize, is_enum: bool) -> usize {
        let outer = std::mem::replace(&mut self.item, at);
        self.set_name(at + 1, Class::Item, Definition::Item);
        let body = self.find(at + 2, end, |at| self.is_open(at, '{') || self.is_mark(at, ';'));
        self.walk(at + 2, body);
        let mut after = body;
        if self.is_open(body, '{') {
            after = self.group(body);
            self.define_members(body, is_enum);
        }
        self.item = outer;
        after
    }

    /// Marks the fields of a struct, or the variants of an enum and their fields, as definitions.
    fn define_members(&mut self, open: usize, is_enum: bool) {
        let mut at = open + 1;
        while at < self.ends[open] {
            let is_first = at == open + 1
                || self.is_mark(at - 1, ',')
                || matches!(self.tokens[at - 1].kind, TokenKind::Close(']'));
            if is_enum && is_first && self.name(at).is_some() {
                let qualifier = Some("variant".to_owned());
                self.set(
                    at,
                    Reference::Name(Name { class: Class::Item, definition: Definition::Item, qualifier }),
                );
            } else if is_enum && self.is_open(at, '{') {
                self.define_members(at, false);
            } else if !is_enum && self.name(at).is_some() && self.is_field(at) {
                self.set_name(at, Class::Field, Definition::Field);
            }
            at = self.after(at);
        }
    }

    /// An attribute mentions items and fields, never variables.
    fn attribute(&mut self, at: usize) -> usize {
        let open = if self.is_open(at + 1, '[') { at + 1 } else { at + 2 };
        if !self.is_open(open, '[') {
            return at + 1;
        }
        for at in open + 1..self.ends[open] {
            self.found.items[at] = self.item;
            match &self.tokens[at].kind {
                TokenKind::Capture(name) if starts_lowercase(name) => {
                    self.set_name(at, Class::Field, Definition::None);
                }
                TokenKind::Capture(_) => self.set_name(at, Class::Item, Definition::None),
                TokenKind::Ident(name) if !is_keyword(name) && self.follows(at, '.') => {
                    self.set_name(at, Class::Field, Definition::None);
                }
                TokenKind::Ident(name) if !is_keyword(name) => {
                    self.set_name(at, Class::Item, Definition::None);
                }
                _ => {}
            }
        }
        self.ends[open] + 1
    }

    fn identifier(&mut self, at: usize, name: &str) -> usize {
        let is_range = at >= 2 && self.is_mark(at - 2, '.');
        if self.follows(at, '\'') {
            self.set_name(at, Class::Lifetime, Definition::None);
        } else if (self.follows(at, '.') && !is_range) || self.is_field(at) {
            let is_call = self.is_open(at + 1, '(') || (self.is_path(at + 1) && self.is_mark(at + 3, '<'));
            let is_method = is_call && !self.is_field(at);
            self.set_name(at, if is_method { Class::Method } else { Class::Field }, Definition::None);
        } else if self.is_mark(at + 1, '!')
            && matches!(self.tokens.get(at + 2), Some(Token { kind: TokenKind::Open(_), .. }))
        {
            self.set_name(at, Class::Item, Definition::None);
            return self.macro_call(at + 2, name);
        } else if self.is_mark(at + 1, '!') && name == "macro_rules" && self.name(at + 2).is_some() {
            self.set_name(at, Class::Item, Definition::None);
            self.set_name(at + 2, Class::Item, Definition::Item);
            return at + 3;
        } else if self.follows_path(at) || self.is_path(at + 1) {
            self.set_name(at, Class::Item, Definition::None);
        } else {
            self.variable_or_item(at, name);
        }
        at + 1
    }

    fn variable_or_item(&mut self, at: usize, name: &str) {
        match self.variables.iter().rev().find(|(other, _)| *other == name) {
            Some((_, position)) => self.set(at, Reference::Variable(*position)),
            None => self.set_name(at, Class::Item, Definition::None),
        }
    }

    fn macro_call(&mut self, open: usize, name: &str) -> usize {
        let end = self.ends[open];
        let visible = self.variables.len();
        match name {
            "matches" | "assert_matches" => {
                let comma = self.find_outside_generics(open + 1, end, false, |at| self.is_mark(at, ','));
                self.walk(open + 1, comma);
                let guard = self.find(comma, end, |at| self.ident(at) == Some("if"));
                let bound = self.pattern(comma, guard);
                self.variables.extend(bound);
                self.walk(guard, end);
            }
            "select" => self.select(open + 1, end),
            _ => self.macro_arguments(open + 1, end, name),
        }
        self.variables.truncate(visible);
        end + 1
    }

    /// `name = value` in a format macro is a variable of its format string. In other macros, such as those of `tracing`,
    /// it is a name.
    fn macro_arguments(&mut self, begin: usize, end: usize, name: &str) {
        let is_named = |resolver: &Self, at: usize| {
            resolver.name(at).is_some()
                && resolver.is_assignment(at + 1)
                && matches!(resolver.tokens[at - 1].kind, TokenKind::Open(_) | TokenKind::Mark(',' | '.', _))
        };
        let mut at = begin;
        while at < end {
            let named = self.find(at, end, |at| is_named(self, at));
            if FORMAT_MACROS.contains(&name) {
                if named < end {
                    let variable = self.name(named).expect("it has a name");
                    self.variables.push((variable, named));
                }
            } else {
                self.walk(at, named);
                if named < end {
                    self.set_name(named, Class::Item, Definition::None);
                }
            }
            at = named + 1;
        }
        if FORMAT_MACROS.contains(&name) {
            self.walk(begin, end);
        }
    }

    /// `PATTERN = FUTURE => BODY` of `tokio::select!`.
    fn select(&mut self, begin: usize, end: usize) {
        let mut at = begin;
        while at < end {
            if self.is_mark(at, ',') || self.is_mark(at, ';') || self.ident(at) == Some("biased") {
                at += 1;
                continue;
            }
            let arrow = self.find(at, end, |at| self.is_arrow(at));
            let assignment = self.find(at, arrow, |at| self.is_assignment(at));
            let visible = self.variables.len();
            let bound = if assignment < arrow { self.pattern(at, assignment) } else { Vec::new() };
            self.walk(if assignment < arrow { assignment + 1 } else { at }, arrow);
            self.variables.truncate(visible);
            self.variables.extend(bound);
            let body = (arrow + 2).min(end);
            let comma = self.find_outside_generics(body, end, false, |at| self.is_mark(at, ','));
            self.walk(body, comma);
            self.variables.truncate(visible);
            at = comma;
        }
    }
}
