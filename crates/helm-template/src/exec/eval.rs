//! Evaluation of pipelines, commands and expressions.

use super::values::method;
use super::walk::{CurrentNode, Frame, Slot};
use super::{ExecError, MissingKey};
use crate::go::{Number, quote};
use crate::parse::{Command, Expr, ExprKind, Pipe};
use crate::value::{Str, Type, Value};

impl<'t> Frame<'_, '_, 't> {
    /// Evaluates a pipeline and assigns the result to its variables.
    pub fn pipeline(&mut self, dot: &Slot, pipe: &'t Pipe) -> Result<Value, ExecError> {
        self.current_node = CurrentNode::Pipe(pipe);
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(dot, command, value)?.value.unboxed());
        }
        let value = value.unwrap_or_default();
        for variable in &pipe.variables {
            self.set(variable.slot, &variable.name, value.clone().into())?;
        }
        Ok(value)
    }

    /// `last` is the piped value, which becomes the last argument.
    fn command(&mut self, dot: &Slot, command: &'t Command, last: Option<Value>) -> Result<Slot, ExecError> {
        self.step()?;
        let first = &command.operands[0];
        let arguments = &command.operands[1..];
        match &first.kind {
            ExprKind::Field(_) | ExprKind::Chain { .. } => self.path(dot, first, arguments, last),
            ExprKind::Variable { fields, .. } if !fields.is_empty() => self.path(dot, first, arguments, last),
            ExprKind::Function { index, .. } => {
                self.current_node = CurrentNode::Expr(first);
                self.call(dot, *index, CurrentNode::Command(command), arguments, last).map(Slot::from)
            }
            ExprKind::Pipe(pipe) => {
                self.not_a_function(first, arguments, last.as_ref())?;
                self.pipeline(dot, pipe).map(Slot::from)
            }
            ExprKind::Variable { variable, .. } => {
                self.current_node = CurrentNode::Expr(first);
                let value = self.variable(variable.slot, &variable.name)?;
                self.not_a_function(first, arguments, last.as_ref())?;
                Ok(value)
            }
            constant => {
                self.current_node = CurrentNode::Expr(first);
                self.not_a_function(first, arguments, last.as_ref())?;
                match constant {
                    ExprKind::Bool(truth) => Ok(Value::Bool(*truth).into()),
                    ExprKind::Dot => Ok(dot.clone()),
                    ExprKind::Number { value, text } => self.constant(value, text).map(Slot::from),
                    ExprKind::String { value, .. } => Ok(Value::from(value).into()),
                    _ => Err(self.error("nil is not a command")),
                }
            }
        }
    }

    fn not_a_function(
        &self,
        first: &Expr,
        arguments: &[Expr],
        last: Option<&Value>,
    ) -> Result<(), ExecError> {
        if arguments.is_empty() && last.is_none() {
            return Ok(());
        }
        Err(self.error(format!("can't give argument to non-function {first}")))
    }

    fn variable(&self, slot: Option<u32>, name: &Str) -> Result<Slot, ExecError> {
        match slot {
            Some(slot) => Ok(self.variables[slot as usize].clone()),
            None => Err(self.error(format!("undefined variable: {name}"))),
        }
    }

    /// The value of an untyped number literal, with its default type.
    fn constant(&self, number: &Number, text: &Str) -> Result<Value, ExecError> {
        match *number {
            Number { complex: Some((re, im)), .. } => Ok(Value::Complex(re, im)),
            Number { float: Some(float), is_float_literal: true, .. } => Ok(Value::Float(float)),
            Number { int: Some(int), .. } => Ok(Value::Int(int)),
            _ => Err(self.error(format!("{text} overflows int"))),
        }
    }

    /// Evaluates `.a.b`, `$x.a.b` or `(…).a.b`. The last field may be a method with arguments.
    fn path(
        &mut self,
        dot: &Slot,
        expr: &'t Expr,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Slot, ExecError> {
        self.current_node = CurrentNode::Expr(expr);
        let (mut receiver, fields) = match &expr.kind {
            ExprKind::Field(fields) => (dot.clone(), fields),
            ExprKind::Variable { variable, fields } => {
                (self.variable(variable.slot, &variable.name)?, fields)
            }
            ExprKind::Chain { of, fields } => {
                if let ExprKind::Nil = of.kind {
                    return Err(self.error(format!("indirection through explicit nil in {expr}")));
                }
                (self.untyped(dot, of)?, fields)
            }
            _ => return Err(self.error("internal error: no fields in a path")),
        };
        let Some((end, way)) = fields.split_last() else { return Ok(receiver) };
        for field in way {
            receiver = self.field(dot, &receiver, field, expr, &[], None)?;
        }
        self.field(dot, &receiver, end, expr, arguments, last)
    }

    fn field(
        &mut self,
        dot: &Slot,
        receiver: &Slot,
        name: &Str,
        expr: &'t Expr,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Slot, ExecError> {
        let has_arguments = !arguments.is_empty() || last.is_some();
        match &receiver.value {
            Value::Nil if self.machine.missing_key == MissingKey::Error => {
                Err(self.error(format!("nil data; no entry for key {}", quote(name))))
            }
            Value::Nil => Ok(Slot::default()),
            Value::Null => Err(self.error(format!("nil pointer evaluating interface {{}}.{name}"))),
            Value::Map(map) => {
                if let Some((params, run)) = method(map, name) {
                    let signature = (params, false);
                    let run = |values: &[Value]| run(map, values);
                    return self.call_method(dot, name, signature, expr, arguments, last, |_| 0, run);
                }
                if has_arguments {
                    return Err(self.error(format!("{name} is not a method but has arguments")));
                }
                match map.get(name) {
                    Some(value) => Ok(Slot { value, is_boxed: map.is_any() }),
                    None if self.machine.missing_key == MissingKey::Error => {
                        Err(self.error(format!("map has no entry for key {}", quote(name))))
                    }
                    None => Ok(Slot { value: map.missing_value(), is_boxed: map.is_any() }),
                }
            }
            Value::Object(object) => {
                if let Some(method) = object.method(name) {
                    let signature = (method.params, method.variadic);
                    let weight = |values: &[Value]| (method.cost)(object.as_ref(), values);
                    let run = |values: &[Value]| (method.run)(object.as_ref(), values);
                    return self.call_method(dot, name, signature, expr, arguments, last, weight, run);
                }
                match object.field(name) {
                    Some(_) if has_arguments => {
                        Err(self.error(format!("{name} has arguments but cannot be invoked as function")))
                    }
                    Some(value) => Ok(value.into()),
                    None => Err(self.missing_field_error(receiver, name)),
                }
            }
            Value::List(items) => match items.method(name) {
                Some(method) => {
                    let signature = (method.params, false);
                    let weight = |_: &[Value]| items.len() * size_of::<Value>();
                    let run = |values: &[Value]| (method.run)(items, values);
                    self.call_method(dot, name, signature, expr, arguments, last, weight, run)
                }
                None => Err(self.missing_field_error(receiver, name)),
            },
            _ => Err(self.missing_field_error(receiver, name)),
        }
    }

    fn missing_field_error(&self, receiver: &Slot, name: &str) -> ExecError {
        let of = if receiver.is_boxed { "interface {}" } else { receiver.value.type_name() };
        self.error(format!("can't evaluate field {name} in type {of}"))
    }

    /// Evaluates an expression without an expected type.
    fn untyped(&mut self, dot: &Slot, expr: &'t Expr) -> Result<Slot, ExecError> {
        self.current_node = CurrentNode::Expr(expr);
        match &expr.kind {
            ExprKind::Bool(truth) => Ok(Value::Bool(*truth).into()),
            ExprKind::Dot => Ok(dot.clone()),
            ExprKind::Nil => Ok(Slot::default()),
            ExprKind::Number { value, text } => self.constant(value, text).map(Slot::from),
            ExprKind::String { value, .. } => Ok(Value::from(value).into()),
            ExprKind::Variable { variable, fields } if fields.is_empty() => {
                self.variable(variable.slot, &variable.name)
            }
            ExprKind::Field(_) | ExprKind::Variable { .. } | ExprKind::Chain { .. } => {
                self.path(dot, expr, &[], None)
            }
            ExprKind::Function { index, .. } => {
                self.call(dot, *index, CurrentNode::Expr(expr), &[], None).map(Slot::from)
            }
            ExprKind::Pipe(pipe) => self.pipeline(dot, pipe).map(Slot::from),
        }
    }

    /// Evaluates an expression as an argument of type `wanted`.
    pub fn argument(&mut self, dot: &Slot, expr: &'t Expr, wanted: Type) -> Result<Value, ExecError> {
        self.current_node = CurrentNode::Expr(expr);
        if let ExprKind::Number { value, .. } = &expr.kind
            && let Some(value) = number_as(value, wanted)
        {
            return Ok(value);
        }
        match (&expr.kind, wanted) {
            (ExprKind::Nil, wanted) if wanted.accepts_nil() => Ok(Value::Null),
            (ExprKind::Nil, wanted) => Err(self.error(format!("cannot assign nil to {}", wanted.name()))),
            (
                ExprKind::Bool(_) | ExprKind::Number { .. } | ExprKind::String { .. },
                Type::Any | Type::Reflect,
            ) => self.untyped(dot, expr).map(|slot| slot.value),
            (ExprKind::Bool(truth), Type::Bool) => Ok(Value::Bool(*truth)),
            (ExprKind::String { value, .. }, Type::String) => Ok(Value::from(value)),
            (ExprKind::Bool(_) | ExprKind::Number { .. } | ExprKind::String { .. }, wanted) => {
                let expected = match wanted {
                    Type::Bool => "bool",
                    Type::String => "string",
                    Type::Int | Type::Int64 | Type::Object("time.Duration") => "integer",
                    Type::Uint32 => "unsigned integer",
                    Type::Float64 => "float",
                    other => {
                        let why = format!("can't handle {expr} for arg of type {}", other.name());
                        return Err(self.error(why));
                    }
                };
                Err(self.error(format!("expected {expected}; found {expr}")))
            }
            _ => {
                let value = self.untyped(dot, expr)?.value;
                self.check_type(value, wanted)
            }
        }
    }

    /// Checks that the value can be assigned to this type.
    pub fn check_type(&self, value: Value, wanted: Type) -> Result<Value, ExecError> {
        match value {
            Value::Nil if wanted.accepts_nil() => Ok(Value::Null),
            Value::Nil => Err(self.error(format!("invalid value; expected {}", wanted.name()))),
            Value::Null if matches!(wanted, Type::Any | Type::Reflect) => Ok(Value::Null),
            Value::Null => {
                Err(self
                    .error(format!("wrong type for value; expected {}; got interface {{}}", wanted.name())))
            }
            value if wanted.accepts(&value) => Ok(value),
            value => {
                let (wanted, got) = (wanted.name(), value.type_name());
                Err(self.error(format!("wrong type for value; expected {wanted}; got {got}")))
            }
        }
    }
}

/// A number literal as a value of the wanted type, if it fits.
fn number_as(number: &Number, wanted: Type) -> Option<Value> {
    match wanted {
        Type::Int => number.int.map(Value::Int),
        // The kind of `time.Duration` is `int64`.
        Type::Int64 | Type::Object("time.Duration") => number.int.map(Value::Int64),
        // Go truncates values that do not fit.
        Type::Uint32 => number.uint.map(|uint| Value::Uint64(uint & u64::from(u32::MAX))),
        Type::Float64 => number.float.map(Value::Float),
        _ => None,
    }
}
