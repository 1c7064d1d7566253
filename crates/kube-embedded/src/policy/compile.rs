//! Compiled policies.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use serde_json::Value;

use crate::crd::cel::Expression;

pub struct CompiledAdmissionPolicy {
    pub name: String,
    pub document: Value,
    /// `failurePolicy: Ignore`
    pub ignores_failures: bool,
    pub conditions: Vec<Expression>,
    pub variables: Vec<(String, Expression)>,
    pub validations: Vec<CompiledValidation>,
    pub annotations: Vec<Expression>,
    /// Why it cannot be evaluated. Creation rejects such policies.
    pub error: Option<String>,
}

pub struct CompiledValidation {
    pub expression: Expression,
    pub message: String,
    pub message_expression: Option<Expression>,
    pub reason: &'static str,
}

impl CompiledAdmissionPolicy {
    pub fn new(document: Value) -> Self {
        let mut compiled = Self {
            name: document["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            ignores_failures: document["spec"]["failurePolicy"] == "Ignore",
            conditions: Vec::new(),
            variables: Vec::new(),
            validations: Vec::new(),
            annotations: Vec::new(),
            error: None,
            document: Value::Null,
        };
        if let Err(why) = compiled.compile(&document["spec"]) {
            compiled.error = Some(format!("compilation error: compilation failed: {why}"));
        }
        compiled.document = document;
        compiled
    }

    fn compile(&mut self, spec: &Value) -> Result<(), String> {
        let list = |key: &str| spec[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for condition in list("matchConditions") {
            self.conditions.push(Expression::parse(text(&condition["expression"]).trim())?);
        }
        for variable in list("variables") {
            let expression = Expression::parse(&text(&variable["expression"]))?;
            self.variables.push((text(&variable["name"]), expression));
        }
        for validation in list("validations") {
            let message = text(&validation["messageExpression"]);
            self.validations.push(CompiledValidation {
                expression: Expression::parse(&text(&validation["expression"]))?,
                message: text(&validation["message"]),
                message_expression: match message.trim() {
                    "" => None,
                    _ => Some(Expression::parse(&message)?),
                },
                reason: match validation["reason"].as_str() {
                    Some("Unauthorized") => "Unauthorized",
                    Some("Forbidden") => "Forbidden",
                    Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
                    _ => "Invalid",
                },
            });
        }
        for annotation in list("auditAnnotations") {
            self.annotations.push(Expression::parse(&text(&annotation["valueExpression"]))?);
        }
        Ok(())
    }

    /// The variables that an expression reads, directly or through other variables.
    pub fn required_variables(&self, expression: &Expression) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        collect_variable_names(expression.root(), &mut needed);
        // A variable can only refer to those before it.
        for (name, expression) in self.variables.iter().rev() {
            if needed.contains(name) {
                collect_variable_names(expression.root(), &mut needed);
            }
        }
        needed
    }
}

/// Collects every `x` of `variables.x`.
fn collect_variable_names(node: &IdedExpr, found: &mut BTreeSet<String>) {
    match &node.expr {
        Expr::Select(select) => {
            if matches!(&select.operand.expr, Expr::Ident(name) if name == "variables") {
                found.insert(select.field.clone());
            }
            collect_variable_names(&select.operand, found);
        }
        Expr::Call(call) => {
            call.target
                .as_deref()
                .into_iter()
                .chain(&call.args)
                .for_each(|node| collect_variable_names(node, found));
        }
        Expr::List(list) => list.elements.iter().for_each(|node| collect_variable_names(node, found)),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    collect_variable_names(&entry.key, found);
                    collect_variable_names(&entry.value, found);
                }
            }
        }
        Expr::Comprehension(loops) => {
            let parts =
                [&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result];
            for node in parts {
                collect_variable_names(node, found);
            }
        }
        _ => {}
    }
}
