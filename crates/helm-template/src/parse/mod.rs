//! Template parser: from tokens to trees. One text yields the template of its own name and the templates that it defines.
//!
//! Functions and variables are resolved while parsing. Undefined ones are rejected before anything runs, with Go's message.
//!
//! Parsing draws on the budget of a rendering: steps for the text and for each part of the tree, memory for each part before it is
//! allocated. [`Cost`] is the total, so that a rendering that takes a tree from a cache is charged the same.

mod cost;
mod file;
mod lex;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cost::Meter;
use lex::{LexItem, Lexer, Token};

use crate::budget::Budget;
use crate::go::{Number, NumberSyntaxError, quote, unquote};
use crate::value::Str;

pub use cost::{Cost, ParseError};
pub use file::TemplateFile;
pub use tree::{
    At, Branch, Command, Expr, ExprKind, Node, Pipe, StringLiteral, Template, TemplateSource, Variable,
    invocation,
};

/// Maximum nesting of parentheses and blocks.
const MAX_DEPTH: usize = 200;

/// Maximum length of an `else if` chain. The links nest in the tree, which is walked and dropped recursively.
const MAX_ELSE_IF_CHAIN: usize = 1_000;

/// Maximum number of variables in scope. Each reference searches them linearly, which is charged.
const MAX_VARIABLES: usize = 2_000;

/// Resolves function names.
pub trait FunctionResolver {
    /// The index of the function in its table, and its static name.
    fn find(&self, name: &str) -> Option<(u32, &'static str)>;
}

/// Parses a trusted text without a rendering's budget. Returns the templates that it defines, then the one of its own name.
pub fn parse(name: &str, text: &str, functions: &dyn FunctionResolver) -> Result<Vec<Template>, Str> {
    parse_within(name, text, functions, &Budget::default())
        .map(|(templates, _)| templates)
        .map_err(ParseError::into_message)
}

/// Parses a text within a budget. Also returns the cost that was charged.
pub fn parse_within(
    name: &str,
    text: &str,
    functions: &dyn FunctionResolver,
    budget: &Budget<'_>,
) -> Result<(Vec<Template>, Cost), ParseError> {
    budget.allocate(text.len()).map_err(ParseError::Budget)?;
    let source = TemplateSource { name: name.into(), text: Bytes::copy_from_slice(text.as_bytes()) };
    let ParsedSource { templates, cost, .. } = parse_source(source, text, functions, budget)?;
    Ok((templates, Cost { bytes: cost.bytes.saturating_add(text.len()), ..cost }))
}

/// A parsed source.
struct ParsedSource {
    templates: Vec<Template>,
    /// Whether the source defines a template of its own name.
    defines_own_name: bool,
    cost: Cost,
}

/// Parses a source with this text.
fn parse_source(
    source: TemplateSource,
    text: &str,
    functions: &dyn FunctionResolver,
    budget: &Budget<'_>,
) -> Result<ParsedSource, ParseError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ParseError::Syntax(format!("template: {}: too large", source.name).into()));
    }
    let source = Arc::new(source);
    let mut parser = Parser {
        lexer: Lexer::new(text),
        source: source.clone(),
        functions,
        meter: Meter::new(budget),
        lookahead: Vec::new(),
        last_line: 1,
        action_line: None,
        scope: VariableScope::default(),
        ranges: 0,
        depth: 0,
        defined: Vec::new(),
        template_indexes: foldhash::HashMap::default(),
        names: NameInterner::default(),
        nodes: Vec::new(),
        exprs: Vec::new(),
        commands: Vec::new(),
        path: Vec::new(),
    };
    parser.meter.text(text)?;
    let body = parser.top_level()?;
    let name = source.name.clone();
    let own = Template { name, source, body, variables: parser.scope.max_slots };
    let names_itself = parser.template_indexes.contains_key(&own.name);
    parser.define(own)?;
    Ok(ParsedSource { templates: parser.defined, defines_own_name: names_itself, cost: parser.meter.cost() })
}

/// Variables in scope. A name that is assigned but never declared is recorded without a slot.
struct VariableScope {
    variables: Vec<ScopedVariable>,
    live_slots: u32,
    max_slots: usize,
}

/// A variable name and its slot.
struct ScopedVariable {
    name: Str,
    slot: Option<u32>,
}

impl Default for VariableScope {
    fn default() -> Self {
        Self {
            variables: vec![ScopedVariable { name: "$".into(), slot: Some(0) }],
            live_slots: 1,
            max_slots: 1,
        }
    }
}

impl VariableScope {
    fn find(&self, name: &str) -> Option<&ScopedVariable> {
        self.variables.iter().rev().find(|seen| seen.name.as_ref() == name)
    }

    fn declare(&mut self, name: &Str) -> u32 {
        let slot = self.live_slots;
        self.live_slots += 1;
        self.max_slots = self.max_slots.max(self.live_slots as usize);
        self.variables.push(ScopedVariable { name: name.clone(), slot: Some(slot) });
        slot
    }
}

/// The parser of one source.
struct Parser<'s> {
    lexer: Lexer<'s>,
    source: Arc<TemplateSource>,
    functions: &'s dyn FunctionResolver,
    meter: Meter<'s>,
    /// Tokens read ahead, in reverse order.
    lookahead: Vec<LexItem<'s>>,
    /// The line of the token that was read last, for error messages.
    last_line: usize,
    action_line: Option<usize>,
    scope: VariableScope,
    ranges: usize,
    depth: usize,
    defined: Vec<Template>,
    /// For each defined name, the index of its template and whether that is blank.
    template_indexes: foldhash::HashMap<Str, (usize, bool)>,
    names: NameInterner<'s>,
    /// Stacks of unfinished lists, commands, pipelines and paths, innermost last. Each finished part is allocated once, in its final
    /// size.
    nodes: Vec<Node>,
    exprs: Vec<Expr>,
    commands: Vec<Command>,
    path: Vec<Str>,
}

/// Interned names of a text; most occur many times. Hashes are seeded, because the text may be hostile.
#[derive(Default)]
struct NameInterner<'s>(foldhash::HashMap<&'s str, Str>);

impl<'s> NameInterner<'s> {
    fn intern(&mut self, word: &'s str, meter: &mut Meter<'_>) -> ParseResult<Str> {
        if let Some(known) = self.0.get(word) {
            return Ok(known.clone());
        }
        meter.entry::<(&str, Str)>()?;
        meter.shared_text(word)?;
        Ok(self.0.entry(word).or_insert_with(|| word.into()).clone())
    }
}

/// The action that ended a list of nodes.
enum ClosingAction {
    End,
    Else,
}

impl ClosingAction {
    fn keyword(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

/// A node, or the action that closes the list.
enum NodeOrClose {
    Node(Node),
    Close(ClosingAction),
}

type ParseResult<T> = Result<T, ParseError>;

/// The position of a token; sources are smaller than 4 GiB.
fn position(item: &LexItem<'_>) -> At {
    At::try_from(item.at).unwrap_or(At::MAX)
}

impl<'s> Parser<'s> {
    fn next(&mut self) -> LexItem<'s> {
        self.lookahead.pop().unwrap_or_else(|| {
            let item = self.lexer.next();
            self.last_line = item.line;
            item
        })
    }

    fn push_back(&mut self, item: LexItem<'s>) {
        self.lookahead.push(item);
    }

    fn peek(&mut self) -> &LexItem<'s> {
        if self.lookahead.is_empty() {
            let item = self.next();
            self.lookahead.push(item);
        }
        &self.lookahead[self.lookahead.len() - 1]
    }

    fn next_non_space(&mut self) -> LexItem<'s> {
        loop {
            let item = self.next();
            if item.token != Token::Space {
                return item;
            }
        }
    }

    fn peek_non_space(&mut self) -> &LexItem<'s> {
        while self.peek().token == Token::Space {
            self.lookahead.pop();
        }
        self.peek()
    }

    fn error<T>(&self, why: impl std::fmt::Display) -> ParseResult<T> {
        let why = format!("template: {}:{}: {why}", self.source.name, self.last_line);
        Err(ParseError::Syntax(why.into()))
    }

    fn unexpected<T>(&self, item: &LexItem<'_>, context: &str) -> ParseResult<T> {
        if item.token != Token::Error {
            return self.error(format_args!("unexpected {} in {context}", item.display()));
        }
        let started = self.action_line.filter(|line| *line != item.line);
        let extra = started.map_or(String::new(), |line| {
            let action = if item.text.ends_with(" action") { "" } else { " in action" };
            format!("{action} started at {}:{line}", self.source.name)
        });
        self.error(format_args!("{}{extra}", item.display()))
    }

    fn expect(&mut self, token: Token, context: &str) -> ParseResult<LexItem<'s>> {
        let item = self.next_non_space();
        if item.token == token { Ok(item) } else { self.unexpected(&item, context) }
    }

    fn define(&mut self, template: Template) -> ParseResult<()> {
        let is_blank = template.is_blank();
        match self.template_indexes.get_mut(&template.name) {
            None => {
                self.meter.entry::<(Str, (usize, bool))>()?;
                self.meter.template()?;
                self.template_indexes.insert(template.name.clone(), (self.defined.len(), is_blank));
                self.defined.push(template);
            }
            Some((at, blank)) if *blank => {
                *blank = is_blank;
                self.defined[*at] = template;
            }
            Some(_) if is_blank => {}
            Some(_) => {
                return self.error(format_args!(
                    "template: multiple definition of template {}",
                    quote(&template.name)
                ));
            }
        }
        Ok(())
    }

    fn push(&mut self, node: Node) -> ParseResult<()> {
        self.meter.node()?;
        self.meter.scratch(&self.nodes)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Removes and returns the nodes since `begun`.
    fn take<L: FromIterator<Node>>(&mut self, begun: usize) -> ParseResult<L> {
        self.meter.allocation()?;
        Ok(self.nodes.drain(begun..).collect())
    }

    /// Parses the top level, where definitions are allowed.
    fn top_level(&mut self) -> ParseResult<Arc<[Node]>> {
        let begun = self.nodes.len();
        loop {
            match self.peek().token {
                Token::End_ => return self.take(begun),
                Token::LeftDelim => {
                    let delim = self.next();
                    let first = self.next_non_space();
                    if first.token == Token::Define {
                        self.definition()?;
                        continue;
                    }
                    self.push_back(first);
                    self.push_back(delim);
                }
                _ => {}
            }
            match self.node_or_close()? {
                NodeOrClose::Node(node) => self.push(node)?,
                NodeOrClose::Close(close) => {
                    return self.error(format_args!("unexpected {}", close.keyword()));
                }
            }
        }
    }

    fn definition(&mut self) -> ParseResult<()> {
        const CONTEXT: &str = "define clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        self.expect(Token::RightDelim, CONTEXT)?;
        self.inner(name, CONTEXT)
    }

    /// Parses the body of a definition or block, which has its own variables.
    fn inner(&mut self, name: Str, context: &str) -> ParseResult<()> {
        let outer = (std::mem::take(&mut self.scope), std::mem::take(&mut self.ranges));
        let (body, close) = self.list::<Arc<[Node]>>()?;
        if let ClosingAction::Else = close {
            return self.error(format_args!("unexpected {} in {context}", close.keyword()));
        }
        let variables = self.scope.max_slots;
        (self.scope, self.ranges) = outer;
        self.define(Template { name, source: self.source.clone(), body, variables })
    }

    fn template_name(&mut self, item: &LexItem<'_>, context: &str) -> ParseResult<Str> {
        if !matches!(item.token, Token::String | Token::RawString) {
            return self.unexpected(item, context);
        }
        let name = unquote(&item.text).or_else(|why| self.error(why))?;
        self.meter.shared_text(&item.text)?;
        Ok(String::from_utf8_lossy(&name).into())
    }

    fn list<L: FromIterator<Node>>(&mut self) -> ParseResult<(L, ClosingAction)> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("max expression depth exceeded");
        }
        let begun = self.nodes.len();
        while self.peek_non_space().token != Token::End_ {
            match self.node_or_close()? {
                NodeOrClose::Node(node) => self.push(node)?,
                NodeOrClose::Close(close) => {
                    self.depth -= 1;
                    return Ok((self.take(begun)?, close));
                }
            }
        }
        self.error("unexpected EOF")
    }

    fn node_or_close(&mut self) -> ParseResult<NodeOrClose> {
        let item = self.next_non_space();
        match item.token {
            Token::Text => {
                let from = position(&item);
                let to = At::try_from(item.at + item.text.len()).unwrap_or(At::MAX);
                Ok(NodeOrClose::Node(Node::Text { from, to }))
            }
            Token::LeftDelim => {
                self.action_line = Some(item.line);
                let piece = self.action();
                self.action_line = None;
                piece
            }
            _ => self.unexpected(&item, "input"),
        }
    }

    fn action(&mut self) -> ParseResult<NodeOrClose> {
        let item = self.next_non_space();
        let node = match item.token {
            Token::End => {
                self.expect(Token::RightDelim, "end")?;
                return Ok(NodeOrClose::Close(ClosingAction::End));
            }
            Token::Else => {
                if !matches!(self.peek_non_space().token, Token::If | Token::With) {
                    self.expect(Token::RightDelim, "else")?;
                }
                return Ok(NodeOrClose::Close(ClosingAction::Else));
            }
            Token::Break => self.jump("{{break}}", Node::Break)?,
            Token::Continue => self.jump("{{continue}}", Node::Continue)?,
            Token::Block => self.block()?,
            Token::If => Node::If(self.branch("if")?),
            Token::With => Node::With(self.branch("with")?),
            Token::Range => Node::Range(self.branch("range")?),
            Token::Template => self.invocation()?,
            _ => {
                self.push_back(item);
                Node::Action(self.pipeline("command", Token::RightDelim)?)
            }
        };
        Ok(NodeOrClose::Node(node))
    }

    fn jump(&mut self, shown: &str, node: Node) -> ParseResult<Node> {
        let item = self.next_non_space();
        if item.token != Token::RightDelim {
            return self.unexpected(&item, shown);
        }
        if self.ranges == 0 {
            return self.error(format_args!("{shown} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    /// Parses `if`, `with` or `range`. A chain of `else if` is parsed in a loop; each link becomes the only node in the else branch of
    /// the previous link.
    fn branch(&mut self, context: &'static str) -> ParseResult<Box<Branch>> {
        let (seen, living) = (self.scope.variables.len(), self.scope.live_slots);
        let mut links = Vec::new();
        let mut otherwise: Box<[Node]> = Box::default();
        loop {
            let pipe = self.pipeline(context, Token::RightDelim)?;
            let is_range = context == "range";
            self.ranges += usize::from(is_range);
            let (body, close) = self.list::<Box<[Node]>>()?;
            self.ranges -= usize::from(is_range);
            self.meter.boxed::<Branch>()?;
            self.meter.scratch(&links)?;
            links.push((pipe, body));
            if links.len() > MAX_ELSE_IF_CHAIN {
                return self.error("max expression depth exceeded");
            }
            if let ClosingAction::End = close {
                break;
            }
            let next = self.peek().token;
            if (context == "if" && next == Token::If) || (context == "with" && next == Token::With) {
                self.meter.boxed::<Node>()?;
                self.next();
                continue;
            }
            let (nodes, close) = self.list::<Box<[Node]>>()?;
            if let ClosingAction::Else = close {
                return self.error(format_args!("expected end; found {}", close.keyword()));
            }
            otherwise = nodes;
            break;
        }
        self.scope.variables.truncate(seen);
        self.scope.live_slots = living;
        let mut whole = None;
        for (pipe, body) in links.into_iter().rev() {
            if let Some(next) = whole.take() {
                otherwise = Box::new([if context == "with" { Node::With(next) } else { Node::If(next) }]);
            }
            let branch = Branch { pipe, body, else_body: std::mem::take(&mut otherwise) };
            whole = Some(Box::new(branch));
        }
        whole.map_or_else(|| self.error("unexpected EOF"), Ok)
    }

    fn block(&mut self) -> ParseResult<Node> {
        const CONTEXT: &str = "block clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Token::RightDelim)?;
        self.inner(name.clone(), CONTEXT)?;
        self.meter.boxed::<Pipe>()?;
        Ok(Node::Template { at: position(&item), name, argument: Some(Box::new(pipe)) })
    }

    fn invocation(&mut self) -> ParseResult<Node> {
        const CONTEXT: &str = "template clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        let next = self.next_non_space();
        let argument = if next.token == Token::RightDelim {
            None
        } else {
            self.push_back(next);
            self.meter.boxed::<Pipe>()?;
            Some(Box::new(self.pipeline(CONTEXT, Token::RightDelim)?))
        };
        Ok(Node::Template { at: position(&item), name, argument })
    }

    fn pipeline(&mut self, context: &str, end: Token) -> ParseResult<Pipe> {
        let at = position(self.peek_non_space());
        let mut assigns = false;
        let mut seen = Vec::new();
        while self.peek_non_space().token == Token::Variable {
            let variable = self.next();
            let space = (self.peek().token == Token::Space).then(|| self.next());
            let sign = self.next_non_space();
            match (sign.token, sign.text.as_ref()) {
                (Token::Assign | Token::Declare, _) => {
                    assigns = sign.token == Token::Assign;
                    seen.push(Str::from(variable.text));
                    break;
                }
                (Token::Char, ",") => {
                    seen.push(Str::from(variable.text));
                    if context != "range" || seen.len() >= 2 {
                        return self.error(format_args!("too many declarations in {context}"));
                    }
                    let next = self.peek_non_space().token;
                    if !matches!(next, Token::Variable | Token::RightDelim | Token::RightParen) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    self.push_back(sign);
                    if let Some(space) = space {
                        self.push_back(space);
                    }
                    self.push_back(variable);
                    break;
                }
            }
        }
        // Go declares the names before it parses the value, in which they still refer to earlier variables of that name, if any.
        for name in &seen {
            self.meter.variable(name, self.scope.variables.len())?;
        }
        let mut variables: Box<[_]> = seen
            .into_iter()
            .map(|name| Variable { slot: self.scope.find(&name).and_then(|seen| seen.slot), name })
            .collect();
        for Variable { name, .. } in &variables {
            if self.scope.find(name).is_none() {
                self.scope.variables.push(ScopedVariable { name: name.clone(), slot: None });
            }
        }
        if self.scope.variables.len() > MAX_VARIABLES {
            return self.error(format!("more than {MAX_VARIABLES} variables"));
        }
        let begun = self.commands.len();
        loop {
            let item = self.next_non_space();
            match item.token {
                token if token == end => {
                    for Variable { name, slot } in variables.iter_mut().filter(|_| !assigns) {
                        *slot = Some(self.scope.declare(name));
                    }
                    self.meter.allocation()?;
                    let commands = self.commands.drain(begun..).collect();
                    return self.checked(Pipe { at, variables, is_assignment: assigns, commands }, context);
                }
                Token::Bool
                | Token::CharConstant
                | Token::Complex
                | Token::Dot
                | Token::Field
                | Token::Identifier
                | Token::Number
                | Token::Nil
                | Token::RawString
                | Token::String
                | Token::Variable
                | Token::LeftParen => {
                    self.push_back(item);
                    let command = self.command()?;
                    self.meter.part::<Command>()?;
                    self.meter.scratch(&self.commands)?;
                    self.commands.push(command);
                }
                _ => return self.unexpected(&item, context),
            }
        }
    }

    fn checked(&self, pipe: Pipe, context: &str) -> ParseResult<Pipe> {
        if pipe.commands.is_empty() {
            return self.error(format_args!("missing value for {context}"));
        }
        for (stage, command) in pipe.commands.iter().enumerate().skip(1) {
            use ExprKind::{Bool, Dot, Nil, Number, String};
            if matches!(command.operands[0].kind, Bool(_) | Dot | Nil | Number { .. } | String { .. }) {
                return self.error(format_args!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        Ok(pipe)
    }

    fn command(&mut self) -> ParseResult<Command> {
        let at = position(self.peek_non_space());
        let begun = self.exprs.len();
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                self.meter.part::<Expr>()?;
                self.meter.scratch(&self.exprs)?;
                self.exprs.push(operand);
            }
            let item = self.next();
            match item.token {
                Token::Space => {}
                Token::RightDelim | Token::RightParen => {
                    self.push_back(item);
                    break;
                }
                Token::Pipe => break,
                _ => return self.unexpected(&item, "operand"),
            }
        }
        if self.exprs.len() == begun {
            return self.error("empty command");
        }
        self.meter.allocation()?;
        Ok(Command { at, operands: self.exprs.drain(begun..).collect() })
    }

    fn operand(&mut self) -> ParseResult<Option<Expr>> {
        let Some(term) = self.term()? else { return Ok(None) };
        if self.peek().token != Token::Field {
            return Ok(Some(term));
        }
        if let ExprKind::Bool(_)
        | ExprKind::String { .. }
        | ExprKind::Number { .. }
        | ExprKind::Nil
        | ExprKind::Dot = term.kind
        {
            return self.error(format_args!("unexpected . after term {}", quote(&term.to_string())));
        }
        let (at, fields) = self.fields(term.at, None)?;
        self.meter.boxed::<Expr>()?;
        Ok(Some(Expr { at, kind: ExprKind::Chain { of: Box::new(term), fields } }))
    }

    /// Parses a path of fields. Also returns its position: that of the first field parsed here, if there is one.
    fn fields(&mut self, mut at: At, first: Option<Str>) -> ParseResult<(At, Box<[Str]>)> {
        self.meter.allocation()?;
        if let Some(name) = first {
            self.meter.part::<Str>()?;
            self.path.push(name);
        }
        let mut is_first = true;
        while self.peek().token == Token::Field {
            let item = self.next();
            if std::mem::take(&mut is_first) {
                at = position(&item);
            }
            let name = self.field(item)?;
            self.meter.part::<Str>()?;
            self.meter.scratch(&self.path)?;
            self.path.push(name);
        }
        Ok((at, self.path.drain(..).collect()))
    }

    fn field(&mut self, item: LexItem<'s>) -> ParseResult<Str> {
        match item.text {
            Cow::Borrowed(text) => self.names.intern(&text[1..], &mut self.meter),
            Cow::Owned(text) => {
                self.meter.shared_text(&text)?;
                Ok(text[1..].into())
            }
        }
    }

    fn term(&mut self) -> ParseResult<Option<Expr>> {
        let item = self.next_non_space();
        let kind = match item.token {
            Token::Identifier => match self.functions.find(&item.text) {
                Some((index, name)) => ExprKind::Function { index, name },
                None => return self.error(format_args!("function {} not defined", quote(&item.text))),
            },
            Token::Dot => ExprKind::Dot,
            Token::Nil => ExprKind::Nil,
            Token::Variable => {
                self.meter.search(self.scope.variables.len())?;
                let Some(seen) = self.scope.find(&item.text) else {
                    return self.error(format_args!("undefined variable {}", quote(&item.text)));
                };
                let variable = Variable { name: seen.name.clone(), slot: seen.slot };
                let (at, fields) = self.fields(position(&item), None)?;
                return Ok(Some(Expr { at, kind: ExprKind::Variable { variable, fields } }));
            }
            Token::Field => {
                let at = position(&item);
                let first = self.field(item)?;
                let (at, fields) = self.fields(at, Some(first))?;
                return Ok(Some(Expr { at, kind: ExprKind::Field(fields) }));
            }
            Token::Bool => ExprKind::Bool(item.text == "true"),
            Token::CharConstant | Token::Complex | Token::Number => match Number::parse(&item.text) {
                Ok(value) => {
                    self.meter.boxed::<Number>()?;
                    self.meter.shared_text(&item.text)?;
                    ExprKind::Number { value: Box::new(value), text: (*item.text).into() }
                }
                Err(why) => return self.error(number_error(&item.text, &why)),
            },
            Token::LeftParen => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return self.error("max expression depth exceeded");
                }
                let pipe = self.pipeline("parenthesized pipeline", Token::RightParen)?;
                self.depth -= 1;
                self.meter.boxed::<Pipe>()?;
                return Ok(Some(Expr { at: pipe.at, kind: ExprKind::Pipe(Box::new(pipe)) }));
            }
            Token::String | Token::RawString => match unquote(&item.text) {
                Ok(value) => {
                    let is_plain = item.token == Token::String
                        && matches!(value, Cow::Borrowed(_))
                        && value.iter().all(|byte| matches!(byte, b' '..=b'~'));
                    self.meter.shared_text(&item.text)?;
                    if !is_plain {
                        self.meter.shared_text(&item.text)?;
                    }
                    let literal = (!is_plain).then(|| (*item.text).into());
                    ExprKind::String { value: StringLiteral::new(value.into_owned()), literal }
                }
                Err(why) => return self.error(why),
            },
            _ => {
                self.push_back(item);
                return Ok(None);
            }
        };
        Ok(Some(Expr { at: position(&item), kind }))
    }
}

fn number_error(text: &str, why: &NumberSyntaxError) -> Cow<'static, str> {
    match why {
        _ if text.starts_with('\'') => format!("malformed character constant: {text}").into(),
        NumberSyntaxError::Overflow => format!("integer overflow: {}", quote(text)).into(),
        NumberSyntaxError::Syntax => format!("illegal number syntax: {}", quote(text)).into(),
    }
}

#[cfg(test)]
mod tests;
