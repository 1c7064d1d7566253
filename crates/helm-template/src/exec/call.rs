//! Calling functions and methods: how many arguments, of which types, and what an error in them is called.

use super::walk::{Frame, Slot, Spot};
use super::{Error, Run};
use crate::parse::{Expr, ExprKind};
use crate::value::{Str, Type, Value};

impl<'t> Frame<'_, '_, 't> {
    /// `whole` is what an error inside the function is blamed on.
    pub fn call(
        &mut self,
        dot: &Slot,
        index: u32,
        whole: Spot<'t>,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Value, Error> {
        self.step()?;
        let functions = self.machine.functions;
        let function = functions.get(index);
        self.count(function.name, function.params, function.variadic, arguments.len(), last.is_some())?;
        let run = match function.run {
            Run::And => return self.first_with(dot, false, arguments, last),
            Run::Or => return self.first_with(dot, true, arguments, last),
            run => run,
        };
        let values = self.arguments(dot, function.params, function.variadic, arguments, last)?;
        let done = match run {
            Run::Plain(run) => run(&values).map_err(Error::new),
            Run::Machine(run) => run(self.machine, &values).map_err(Error::new),
            Run::Template(run) => run(self.machine, &values),
            Run::Call => Err(Error::new(not_callable(&values, arguments))),
            Run::And | Run::Or => Ok(Value::Nil),
        };
        done.map_err(|why| {
            self.spot = whole;
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
        run: impl FnOnce(&[Value]) -> Result<Value, Str>,
    ) -> Result<Slot, Error> {
        self.step()?;
        self.count(name, params, variadic, arguments.len(), last.is_some())?;
        let values = self.arguments(dot, params, variadic, arguments, last)?;
        run(&values).map(Slot::from).map_err(|why| {
            self.spot = Spot::Expr(expr);
            self.error_within(&format!("error calling {name}: "), Error::new(why))
        })
    }

    fn count(
        &self,
        name: &str,
        params: &[Type],
        variadic: bool,
        given: usize,
        piped: bool,
    ) -> Result<(), Error> {
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
    ) -> Result<Vec<Value>, Error> {
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
            values.push(self.fit(last, wanted(arguments.len()))?);
        }
        Ok(values)
    }

    /// `and` and `or`: the first argument whose truth is `truth`, or the last one. What comes after is not looked at.
    fn first_with(
        &mut self,
        dot: &Slot,
        truth: bool,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Value, Error> {
        let mut value = Value::Nil;
        for argument in arguments {
            value = self.argument(dot, argument, Type::Reflect)?;
            if value.is_true() == truth {
                return Ok(value);
            }
        }
        match last {
            Some(last) => self.fit(last, Type::Reflect),
            None => Ok(value),
        }
    }
}

/// Why `call` does not call this. It is named as the template names it.
fn not_callable(values: &[Value], arguments: &[Expr]) -> String {
    match values.first().filter(|value| value.is_some()) {
        None => "call of nil".to_owned(),
        Some(value) => {
            let of = value.type_name();
            let piped = || value.text().map_or_else(|| format!("<{of} Value>"), |text| text.into_owned());
            let name = arguments.first().map_or_else(piped, |argument| match &argument.kind {
                ExprKind::Pipe(pipe) => pipe.to_string(),
                _ => argument.to_string(),
            });
            format!("non-function {name} of type {of}")
        }
    }
}
