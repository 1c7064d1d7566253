//! Execution of template nodes.

use std::sync::Arc;

use super::{CYCLIC_VALUE_ERROR, ExecError, Machine};
use crate::go::{print, quote, write_printed};
use crate::parse::{At, Branch, Command, Expr, Node, Pipe, Template, invocation};
use crate::stack;
use crate::value::{Str, Value};

/// Printed by an action whose value is nil.
pub(super) const NO_VALUE: &str = "<no value>";

/// Maximum number of extra stack segments. The stack that a template needs depends on the nesting of its blocks, and is larger
/// without optimisation.
const MAX_STACK_SEGMENTS: usize = if cfg!(debug_assertions) { 96 } else { 24 };

/// The content of a variable or of the dot.
#[derive(Clone, Default)]
pub(super) struct Slot {
    pub value: Value,
    /// Whether the value came from an `interface {}` location; errors then name that type.
    pub is_boxed: bool,
}

impl From<Value> for Slot {
    fn from(value: Value) -> Self {
        Self { value, is_boxed: false }
    }
}

/// The syntax node being evaluated, for error messages.
#[derive(Clone, Copy)]
pub(super) enum CurrentNode<'t> {
    Start,
    Pipe(&'t Pipe),
    Command(&'t Command),
    Expr(&'t Expr),
    Invocation(At, &'t Str, Option<&'t Pipe>),
}

/// The state of one running template.
pub(super) struct Frame<'m, 'f, 't> {
    pub machine: &'f mut Machine<'m>,
    pub template: &'t Template,
    pub variables: Vec<Slot>,
    pub current_node: CurrentNode<'t>,
    out: &'f mut Vec<u8>,
}

/// Why execution of a list of nodes stopped early.
enum ExecStop {
    Break,
    Continue,
    Failed(ExecError),
}

impl From<ExecError> for ExecStop {
    fn from(error: ExecError) -> Self {
        Self::Failed(error)
    }
}

/// Runs a template, on a new stack segment if little stack is left. Template depth is limited by
/// [`RenderLimits::depth`](super::RenderLimits::depth), not by the stack of the rendering thread.
pub(super) fn run(
    machine: &mut Machine<'_>,
    template: &Arc<Template>,
    data: Value,
    out: &mut Vec<u8>,
) -> Result<(), ExecError> {
    let (variables, more_stack) = check_can_enter(machine, template)
        .map_err(|why| ExecError::new(format!("template: {}: {why}", template.name)))?;
    machine.charge_bytes(variables).map_err(ExecError::new)?;
    machine.depth += 1;
    machine.stack_segments += usize::from(more_stack);
    let done = stack::grow_for_template(|| {
        let mut variables = vec![Slot::default(); template.variables];
        variables[0] = data.clone().into();
        let mut frame = Frame { machine, template, variables, current_node: CurrentNode::Start, out };
        match frame.list(&data.into(), &template.body) {
            Err(ExecStop::Failed(error)) => Err(error),
            // The parser rejects `break` and `continue` outside of a range.
            Ok(()) | Err(ExecStop::Break | ExecStop::Continue) => Ok(()),
        }
    });
    machine.depth -= 1;
    machine.stack_segments -= usize::from(more_stack);
    done
}

/// Checks whether another template may be entered. Returns the bytes that its variables take and whether it needs a new stack
/// segment.
fn check_can_enter(machine: &Machine<'_>, template: &Template) -> Result<(usize, bool), Str> {
    if machine.depth >= machine.budget.limits().depth {
        return Err(format!("exceeded maximum template depth ({})", machine.budget.limits().depth).into());
    }
    let more_stack = stack::is_short_for_template();
    if more_stack && machine.stack_segments == MAX_STACK_SEGMENTS {
        let why = format!("exceeded maximum template depth ({} take all the stack)", machine.depth);
        return Err(why.into());
    }
    let variables = template.variables.saturating_mul(size_of::<Slot>());
    machine.check_memory(variables)?;
    Ok((variables, more_stack))
}

impl<'t> Frame<'_, '_, 't> {
    /// An error at the current location, with Go's message prefix.
    pub fn error(&self, why: impl std::fmt::Display) -> ExecError {
        ExecError::new(format!("{}{why}", self.location()))
    }

    /// An error at the current location, caused by another.
    pub fn error_within(&self, context: &str, cause: ExecError) -> ExecError {
        cause.with_context(format!("{}{context}", self.location()))
    }

    fn location(&self) -> String {
        let (at, shown) = match self.current_node {
            CurrentNode::Start => return format!("template: {}: ", self.template.name),
            CurrentNode::Pipe(pipe) => (pipe.at, pipe.to_string()),
            CurrentNode::Command(command) => (command.at, command.to_string()),
            CurrentNode::Expr(expr) => (expr.at, expr.to_string()),
            CurrentNode::Invocation(at, name, argument) => (at, invocation(name, argument)),
        };
        let (place, name) = (self.template.source.location(at), quote(&self.template.name));
        format!("template: {place}: executing {name} at <{shown}>: ")
    }

    pub fn step(&mut self) -> Result<(), ExecError> {
        self.machine.step().map_err(|why| self.error(why))
    }

    fn write(&mut self, text: impl AsRef<[u8]>) -> Result<(), ExecError> {
        let text = text.as_ref();
        self.machine.charge_bytes(text.len()).map_err(|why| self.error(why))?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn list(&mut self, dot: &Slot, nodes: &'t [Node]) -> Result<(), ExecStop> {
        nodes.iter().try_for_each(|node| self.node(dot, node))
    }

    fn node(&mut self, dot: &Slot, node: &'t Node) -> Result<(), ExecStop> {
        self.step()?;
        match node {
            Node::Text { from, to } => {
                let template = self.template;
                self.write(template.source.slice(*from, *to))?;
            }
            Node::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.variables.is_empty() {
                    self.print(&value)?;
                }
            }
            Node::If(branch) => return self.if_or_with(dot, branch, false),
            Node::With(branch) => return self.if_or_with(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template { at, name, argument } => self.invoke(dot, *at, name, argument.as_deref())?,
            Node::Break => return Err(ExecStop::Break),
            Node::Continue => return Err(ExecStop::Continue),
        }
        Ok(())
    }

    fn print(&mut self, value: &Value) -> Result<(), ExecError> {
        match value {
            Value::Nil | Value::Null => self.write(NO_VALUE),
            Value::String(text) => self.write(text.as_bytes()),
            Value::Raw(bytes) => self.write(bytes),
            Value::Object(object) => {
                self.machine.check_memory(object.extent()).map_err(|why| self.error(why))?;
                self.write(object.show().as_bytes())
            }
            value if value.is_cyclic_or_too_deep() => Err(self.error(CYCLIC_VALUE_ERROR)),
            value => {
                let mut shown = Vec::new();
                write_printed(&mut shown, value);
                self.write(shown)
            }
        }
    }

    /// Executes `if` or `with`. Chains of `else if` are a loop, not recursion.
    fn if_or_with(&mut self, dot: &Slot, mut branch: &'t Branch, with: bool) -> Result<(), ExecStop> {
        loop {
            let value = self.pipeline(dot, &branch.pipe)?;
            if value.is_true() {
                return if with {
                    self.list(&value.into(), &branch.body)
                } else {
                    self.list(dot, &branch.body)
                };
            }
            match &*branch.else_body {
                [Node::If(next)] if !with => branch = next,
                [Node::With(next)] if with => branch = next,
                nodes => return self.list(dot, nodes),
            }
            self.step()?;
        }
    }

    fn range(&mut self, dot: &Slot, branch: &'t Branch) -> Result<(), ExecStop> {
        let value = self.pipeline(dot, &branch.pipe)?;
        let any = match &value {
            Value::Nil | Value::Null => false,
            Value::List(list) => {
                let boxed = list.is_any();
                let items = list.iter().enumerate();
                self.iterate_pairs(
                    branch,
                    items.map(|(at, item)| (index(at), Slot { value: item.clone(), is_boxed: boxed })),
                )?
            }
            Value::Map(map) => {
                let boxed = map.is_any();
                // The entries are copied first.
                self.machine.charge(map.len() as u64).map_err(|why| self.error(why))?;
                let entries = map.snapshot().into_iter();
                self.iterate_pairs(
                    branch,
                    entries.map(|(key, value)| (Value::String(key), Slot { value, is_boxed: boxed })),
                )?
            }
            Value::Bytes(bytes) => {
                let items = bytes.iter().enumerate();
                self.iterate_pairs(branch, items.map(|(at, byte)| (index(at), Value::Uint8(*byte).into())))?
            }
            Value::Int(_) | Value::Int64(_) | Value::Uint8(_) | Value::Uint64(_)
                if self.machine.ranges_over_integers =>
            {
                if branch.pipe.variables.len() > 1 {
                    let why = format!("can't use {} to iterate over more than one variable", print(&value));
                    return Err(self.error(why).into());
                }
                match value {
                    Value::Int64(n) => self.iterate_numbers(branch, 0..n, Value::Int64)?,
                    Value::Uint8(n) => self.iterate_numbers(branch, 0..n, Value::Uint8)?,
                    Value::Uint64(n) => self.iterate_numbers(branch, 0..n, Value::Uint64)?,
                    Value::Int(n) => self.iterate_numbers(branch, 0..n, Value::Int)?,
                    _ => false,
                }
            }
            Value::Object(object) => {
                let Some(entries) = object.entries() else {
                    // Go prints the pointee, without the `&` of a pointer.
                    let shown = object.print();
                    let shown = shown.strip_prefix('&').unwrap_or(&shown);
                    return Err(self.error(format!("range can't iterate over {shown}")).into());
                };
                self.machine.charge(entries.len() as u64).map_err(|why| self.error(why))?;
                self.iterate_pairs(branch, entries.into_iter().map(|(key, value)| (key, value.into())))?
            }
            other => return Err(self.error(format!("range can't iterate over {}", print(other))).into()),
        };
        if any { Ok(()) } else { self.list(dot, &branch.else_body) }
    }

    /// Runs the body once per number, for `range` over an integer (one variable only).
    fn iterate_numbers<N>(
        &mut self,
        branch: &'t Branch,
        numbers: impl Iterator<Item = N>,
        make: fn(N) -> Value,
    ) -> Result<bool, ExecStop> {
        self.iterate_pairs(branch, numbers.map(|n| (Value::Nil, make(n).into())))
    }

    /// Runs the body once per pair. Returns whether there was any pair.
    fn iterate_pairs(
        &mut self,
        branch: &'t Branch,
        pairs: impl Iterator<Item = (Value, Slot)>,
    ) -> Result<bool, ExecStop> {
        let mut any = false;
        for (key, element) in pairs {
            any = true;
            self.step()?;
            match &*branch.pipe.variables {
                [] => {}
                [only] => self.set(only.slot, &only.name, element.clone())?,
                [first, second, ..] => {
                    self.set(first.slot, &first.name, key.into())?;
                    self.set(second.slot, &second.name, element.clone())?;
                }
            }
            match self.list(&element, &branch.body) {
                Ok(()) | Err(ExecStop::Continue) => {}
                Err(ExecStop::Break) => break,
                Err(failed) => return Err(failed),
            }
        }
        Ok(any)
    }

    fn invoke(
        &mut self,
        dot: &Slot,
        at: At,
        name: &'t Str,
        argument: Option<&'t Pipe>,
    ) -> Result<(), ExecError> {
        self.current_node = CurrentNode::Invocation(at, name, argument);
        let Some(template) = self.machine.templates.get(name) else {
            return Err(self.error(format!("template {} not defined", quote(name))));
        };
        check_can_enter(self.machine, &template).map_err(|why| self.error(why))?;
        let data = match argument {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Nil,
        };
        run(self.machine, &template, data, self.out)
    }

    /// Declares or assigns to a variable.
    pub fn set(&mut self, slot: Option<u32>, name: &Str, value: Slot) -> Result<(), ExecError> {
        match slot {
            Some(slot) => {
                self.variables[slot as usize] = value;
                Ok(())
            }
            None => Err(self.error(format!("undefined variable: {name}"))),
        }
    }
}

fn index(at: usize) -> Value {
    Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
}
