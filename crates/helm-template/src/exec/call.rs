//! Function and method calls: argument count, argument types, and error context.

use std::borrow::Cow;

use super::walk::{CurrentNode, Frame, Slot};
use super::{CYCLIC_VALUE_ERROR, ExecError, Function, FunctionBody, Machine};
use crate::parse::{Expr, ExprKind};
use crate::value::{MAX_PRINTED, Str, Type, Value};

/// Bytes of arguments that a method processes per step.
const BYTES_PER_STEP: u64 = 16;

/// Minimum number of steps to print one list element or map entry.
const STEPS_TO_PRINT: u64 = 10;

impl Machine<'_> {
    /// Charges a call by the size of its arguments. Functions that print whole values also need memory for the text.
    fn charge_call(&mut self, function: &Function, values: &[Value]) -> Result<(), Str> {
        let width = values.iter().fold(0_usize, |width, value| width.saturating_add(value.width()));
        self.charge(function.steps + width as u64 / function.bytes_per_step)?;
        if !function.prints_arguments {
            return Ok(());
        }
        let (extent, looked) = Value::extent_of_all(values);
        self.charge(looked.saturating_sub(values.len() as u64) * STEPS_TO_PRINT)?;
        if extent == usize::MAX {
            return Err(CYCLIC_VALUE_ERROR.into());
        }
        self.check_memory(extent)?;
        // The printer would replace an endless value by a marker that is easily missed, so it is an error here.
        if extent > MAX_PRINTED && values.iter().any(Value::is_cyclic_or_too_deep) {
            return Err(CYCLIC_VALUE_ERROR.into());
        }
        Ok(())
    }
}

impl<'t> Frame<'_, '_, 't> {
    /// `whole` is the location that errors inside the function refer to.
    pub fn call(
        &mut self,
        dot: &Slot,
        index: u32,
        whole: CurrentNode<'t>,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Value, ExecError> {
        self.step()?;
        let functions = self.machine.functions;
        let function = functions.get(index);
        self.count(function.name, function.params, function.variadic, arguments.len(), last.is_some())?;
        let run = match function.body {
            FunctionBody::And => return self.first_with(dot, false, arguments, last),
            FunctionBody::Or => return self.first_with(dot, true, arguments, last),
            run => run,
        };
        let values = self.arguments(dot, function.params, function.variadic, arguments, last)?;
        let machine = &mut *self.machine;
        let done = machine.charge_call(function, &values).map_err(ExecError::new).and_then(|()| match run {
            FunctionBody::Plain(run) => run(&values).map_err(ExecError::new),
            FunctionBody::Machine(run) => run(machine, &values).map_err(ExecError::new),
            FunctionBody::Template(run) => run(machine, &values),
            FunctionBody::Call => Err(ExecError::new(not_callable(&values, arguments))),
            FunctionBody::And | FunctionBody::Or => Ok(Value::Nil),
        });
        let counted = done.and_then(|value| match self.machine.charge_bytes(value.allocated_bytes()) {
            Ok(()) => Ok(value),
            Err(why) => Err(ExecError::new(why)),
        });
        counted.map_err(|why| {
            self.current_node = whole;
            self.error_within(&format!("error calling {}: ", function.name), why)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "a method call has all of these")]
    pub fn call_method(
        &mut self,
        dot: &Slot,
        name: &Str,
        (params, variadic): (&'static [Type], bool),
        expr: &'t Expr,
        arguments: &'t [Expr],
        last: Option<Value>,
        weight: impl FnOnce(&[Value]) -> usize,
        run: impl FnOnce(&[Value]) -> Result<Value, Str>,
    ) -> Result<Slot, ExecError> {
        self.step()?;
        self.count(name, params, variadic, arguments.len(), last.is_some())?;
        let values = self.arguments(dot, params, variadic, arguments, last)?;
        let weighed = self.machine.charge(weight(&values) as u64 / BYTES_PER_STEP);
        let done = weighed.and_then(|()| run(&values));
        let counted =
            done.and_then(|value| self.machine.charge_bytes(value.allocated_bytes()).map(|()| value));
        counted.map(Slot::from).map_err(|why| {
            self.current_node = CurrentNode::Expr(expr);
            self.error_within(&format!("error calling {name}: "), ExecError::new(why))
        })
    }

    fn count(
        &self,
        name: &str,
        params: &[Type],
        variadic: bool,
        given: usize,
        piped: bool,
    ) -> Result<(), ExecError> {
        let all = given + usize::from(piped);
        if variadic {
            let fixed = params.len() - 1;
            if all < fixed {
                let why = format!("wrong number of args for {name}: want at least {fixed} got {given}");
                return Err(self.error(why));
            }
        } else if all != params.len() {
            return Err(
                self.error(format!("wrong number of args for {name}: want {} got {all}", params.len()))
            );
        }
        Ok(())
    }

    fn arguments(
        &mut self,
        dot: &Slot,
        params: &[Type],
        variadic: bool,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Vec<Value>, ExecError> {
        let wanted = |at: usize| match params.get(at) {
            Some(wanted) => *wanted,
            None if variadic => params[params.len() - 1],
            None => Type::Any,
        };
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for (at, argument) in arguments.iter().enumerate() {
            values.push(self.argument(dot, argument, wanted(at))?);
        }
        if let Some(last) = last {
            values.push(self.check_type(last, wanted(arguments.len()))?);
        }
        Ok(values)
    }

    /// `and` and `or`: the first argument whose truth is `truth`, or the last one. Later arguments are not evaluated.
    fn first_with(
        &mut self,
        dot: &Slot,
        truth: bool,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Value, ExecError> {
        let mut value = Value::Nil;
        for argument in arguments {
            value = self.argument(dot, argument, Type::Reflect)?;
            if value.is_true() == truth {
                return Ok(value);
            }
        }
        match last {
            Some(last) => self.check_type(last, Type::Reflect),
            None => Ok(value),
        }
    }
}

/// Error message for `call`, which never has a callable argument. The value is named as in the template source.
fn not_callable(values: &[Value], arguments: &[Expr]) -> String {
    match values.first().filter(|value| value.is_some()) {
        None => "call of nil".to_owned(),
        Some(value) => {
            let of = value.type_name();
            let piped = || value.text().map_or_else(|| format!("<{of} Value>"), Cow::into_owned);
            let name = arguments.first().map_or_else(piped, |argument| match &argument.kind {
                ExprKind::Pipe(pipe) => pipe.to_string(),
                _ => argument.to_string(),
            });
            format!("non-function {name} of type {of}")
        }
    }
}
