//! The syntax tree of a template. Every node has its position and can be printed as Go prints it, because error messages show both.
//!
//! A large chart has a hundred thousand nodes, most of which are never executed, so rare data is boxed to keep nodes small.

use std::fmt::{Display, Formatter, Result, Write};
use std::sync::Arc;

use bytes::Bytes;

use crate::go::{Number, quote, quote_bytes};
use crate::value::{Str, Value};

/// Position of a node: byte offset in its source.
pub type At = u32;

/// The text that templates were parsed from.
#[derive(Debug)]
pub struct TemplateSource {
    /// The name of the file.
    pub name: Str,
    /// UTF-8. Shared with the chart's data if the text is a whole file.
    pub text: Bytes,
}

impl TemplateSource {
    /// `name:line:column`, counted as in Go.
    pub fn location(&self, at: At) -> String {
        let before = self.slice(0, at);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column =
            memchr::memrchr(b'\n', before).map_or(before.len(), |newline| before.len() - newline - 1);
        format!("{}:{line}:{column}", self.name)
    }

    /// The text between two positions.
    pub fn slice(&self, from: At, to: At) -> &[u8] {
        &self.text[from as usize..to as usize]
    }
}

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    pub name: Str,
    pub source: Arc<TemplateSource>,
    /// Shared with the same template in other files of identical text.
    pub body: Arc<[Node]>,
    /// Maximum number of live variables, including `$`.
    pub variables: usize,
}

impl Template {
    /// Whether the template contains only white space. Such a template does not replace another of the same name.
    pub fn is_blank(&self) -> bool {
        self.body.iter().all(|node| match node {
            Node::Text { from, to } => {
                std::str::from_utf8(self.source.slice(*from, *to)).is_ok_and(|text| text.trim().is_empty())
            }
            _ => false,
        })
    }
}

/// A node of a template body.
#[derive(Debug)]
pub enum Node {
    /// A range of the source text.
    Text {
        from: At,
        to: At,
    },
    Action(Pipe),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template {
        at: At,
        name: Str,
        argument: Option<Box<Pipe>>,
    },
    Break,
    Continue,
}

/// The pipeline and bodies of `if`, `with` or `range`.
#[derive(Debug)]
pub struct Branch {
    pub pipe: Pipe,
    pub body: Box<[Node]>,
    pub else_body: Box<[Node]>,
}

/// A pipeline with its variable declarations or assignments.
#[derive(Debug)]
pub struct Pipe {
    pub at: At,
    pub variables: Box<[Variable]>,
    /// Whether this is an assignment (`=`) and not a declaration (`:=`).
    pub is_assignment: bool,
    pub commands: Box<[Command]>,
}

/// A reference to a variable.
#[derive(Debug)]
pub struct Variable {
    pub name: Str,
    /// The variable's slot; `None` if it is assigned but was never declared.
    pub slot: Option<u32>,
}

/// A value, field or function with its arguments.
#[derive(Debug)]
pub struct Command {
    pub at: At,
    /// Never empty.
    pub operands: Box<[Expr]>,
}

/// An expression with its position.
#[derive(Debug)]
pub struct Expr {
    pub at: At,
    pub kind: ExprKind,
}

/// The value of a string literal. Escapes can denote invalid UTF-8.
#[derive(Debug)]
pub enum StringLiteral {
    Characters(Str),
    Bytes(Arc<[u8]>),
}

impl StringLiteral {
    pub fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Characters(text.into()),
            Err(not) => Self::Bytes(not.into_bytes().into()),
        }
    }
}

impl From<&StringLiteral> for Value {
    fn from(text: &StringLiteral) -> Self {
        match text {
            StringLiteral::Characters(text) => Self::String(text.clone()),
            StringLiteral::Bytes(bytes) => Self::Raw(bytes.clone()),
        }
    }
}

/// The kind of an expression.
#[derive(Debug)]
pub enum ExprKind {
    Bool(bool),
    Dot,
    Nil,
    Number {
        value: Box<Number>,
        text: Str,
    },
    String {
        value: StringLiteral,
        /// The literal as written, if Go would print it differently.
        literal: Option<Str>,
    },
    /// `.a.b`
    Field(Box<[Str]>),
    /// `$x.a.b`
    Variable {
        variable: Variable,
        fields: Box<[Str]>,
    },
    /// A function, by its index in the function table.
    Function {
        index: u32,
        name: &'static str,
    },
    /// `(…).a.b`
    Chain {
        of: Box<Expr>,
        fields: Box<[Str]>,
    },
    Pipe(Box<Pipe>),
}

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (n, variable) in self.variables.iter().enumerate() {
            write!(f, "{}{}", if n > 0 { ", " } else { "" }, variable.name)?;
        }
        if !self.variables.is_empty() {
            f.write_str(if self.is_assignment { " = " } else { " := " })?;
        }
        for (n, command) in self.commands.iter().enumerate() {
            write!(f, "{}{command}", if n > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (n, word) in self.operands.iter().enumerate() {
            if n > 0 {
                f.write_char(' ')?;
            }
            match &word.kind {
                ExprKind::Pipe(pipe) => write!(f, "({pipe})")?,
                _ => write!(f, "{word}")?,
            }
        }
        Ok(())
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let path =
            |f: &mut Formatter<'_>, fields: &[Str]| fields.iter().try_for_each(|field| write!(f, ".{field}"));
        match &self.kind {
            ExprKind::Bool(truth) => write!(f, "{truth}"),
            ExprKind::Dot => f.write_char('.'),
            ExprKind::Nil => f.write_str("nil"),
            ExprKind::Number { text, .. } => f.write_str(text),
            ExprKind::String { literal: Some(literal), .. } => f.write_str(literal),
            ExprKind::String { value: StringLiteral::Characters(text), .. } => f.write_str(&quote(text)),
            ExprKind::String { value: StringLiteral::Bytes(bytes), .. } => f.write_str(&quote_bytes(bytes)),
            ExprKind::Field(fields) => path(f, fields),
            ExprKind::Variable { variable, fields } => {
                f.write_str(&variable.name)?;
                path(f, fields)
            }
            ExprKind::Function { name, .. } => f.write_str(name),
            ExprKind::Chain { of, fields } => {
                match &of.kind {
                    ExprKind::Pipe(pipe) => write!(f, "({pipe})")?,
                    _ => write!(f, "{of}")?,
                }
                path(f, fields)
            }
            ExprKind::Pipe(pipe) => write!(f, "{pipe}"),
        }
    }
}

/// Formats a template call: `{{template "name" pipe}}`.
pub fn invocation(name: &str, argument: Option<&Pipe>) -> String {
    match argument {
        Some(pipe) => format!("{{{{template {} {pipe}}}}}", quote(name)),
        None => format!("{{{{template {}}}}}", quote(name)),
    }
}
