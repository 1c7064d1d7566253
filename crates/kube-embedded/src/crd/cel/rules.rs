//! The compiled CEL rules of a schema, and their evaluation on an object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

use super::{EvaluationError, Expression, scope, values};
use crate::crd::paths;
use crate::crd::schema::{AdditionalProperties, StructuralSchema, ValidationRule};
use crate::crd::validation::OldItemIndex;
use crate::field::{FieldError, FieldErrorType, FieldErrors, Path};

/// Time limit of all rules of one object; exceeding it refuses the object.
const EVALUATION_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The compiled rules of a schema node and its descendants. Branches without rules are absent.
#[derive(Debug, Default)]
pub struct CelRules {
    node_rules: Vec<CompiledRule>,
    properties: BTreeMap<Box<str>, CelRules>,
    values: Option<Box<CelRules>>,
    items: Option<Box<CelRules>>,
}

#[derive(Debug)]
struct CompiledRule {
    rule: ValidationRule,
    /// The compiled rule, or its error. Validation refuses such CRDs; if one was stored, its objects are refused.
    program: Result<Expression, String>,
    message: Option<Expression>,
    uses_old: bool,
    field_path: String,
}

impl CelRules {
    /// `None` if the schema has no rules.
    pub fn compile(schema: &StructuralSchema) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let properties = schema.properties.iter();
        Some(Self {
            node_rules: schema.rules.iter().map(|rule| CompiledRule::new(rule, schema)).collect(),
            properties: properties
                .filter_map(|(name, child)| Some((name.clone(), Self::compile(child)?)))
                .collect(),
            values: match &schema.additional {
                AdditionalProperties::Schema(child) => Self::compile(child).map(Box::new),
                _ => None,
            },
            items: schema.items.as_deref().and_then(Self::compile).map(Box::new),
        })
    }

    /// Evaluates the rules on an object. `old` is its state before an update; violations that the old object already had are added to
    /// `warnings`.
    pub fn check(
        &self,
        object: &Value,
        old: Option<&Value>,
        schema: &StructuralSchema,
        at: Option<&Path>,
        warnings: &mut Vec<String>,
    ) -> FieldErrors {
        let mut run = RuleEvaluator {
            largest: values::max_collection_size(object).max(old.map_or(0, values::max_collection_size)),
            deadline: Instant::now() + EVALUATION_TIMEOUT,
            exhausted: false,
            errors: FieldErrors::new(),
            warnings,
        };
        let root = RulePosition {
            value: object,
            old,
            schema,
            resource: at.is_none(),
            path: at.cloned().unwrap_or_default(),
            history: ValueHistory { current: old.map(|old| (object, old)), parent: None },
        };
        run.node(self, &root);
        run.errors
    }
}

impl CompiledRule {
    fn new(rule: &ValidationRule, schema: &StructuralSchema) -> Self {
        let program = Expression::parse(&rule.rule);
        let message = Some(rule.message_expression.as_str())
            .filter(|text| !text.is_empty())
            .and_then(|text| Expression::parse(text).ok());
        Self {
            uses_old: program.as_ref().is_ok_and(|program| program.uses_variable("oldSelf")),
            field_path: match rule.field_path.as_str() {
                "" => String::new(),
                path => paths::resolve(path, schema, true).map(|found| found.0).unwrap_or_default(),
            },
            rule: rule.clone(),
            program,
            message,
        }
    }

    /// The text that names the rule in errors.
    fn name(&self) -> &str {
        if self.rule.message.is_empty() { self.rule.rule.trim() } else { self.rule.message.trim() }
    }
}

/// Position of the walk.
struct RulePosition<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    schema: &'a StructuralSchema,
    resource: bool,
    path: Path,
    history: ValueHistory<'a>,
}

/// New and old value for comparison: of this node, or of the nearest ancestor.
#[derive(Clone, Copy)]
struct ValueHistory<'a> {
    current: Option<(&'a Value, &'a Value)>,
    parent: Option<(&'a Value, &'a Value)>,
}

impl<'a> ValueHistory<'a> {
    fn is_unchanged(&self) -> bool {
        self.current.or(self.parent).is_some_and(|(new, old)| new == old)
    }

    fn child(self, next: Option<(&'a Value, &'a Value)>) -> Self {
        match self.current {
            None => self,
            here => Self { current: next, parent: here },
        }
    }
}

struct RuleEvaluator<'w> {
    largest: usize,
    deadline: Instant,
    /// Whether the limits are exceeded and no further rules are run.
    exhausted: bool,
    errors: FieldErrors,
    warnings: &'w mut Vec<String>,
}

impl RuleEvaluator<'_> {
    fn node(&mut self, rules: &CelRules, spot: &RulePosition<'_>) {
        if self.exhausted || spot.value.is_null() {
            return;
        }
        if !rules.node_rules.is_empty() {
            self.expressions(rules, spot);
        }
        match spot.value {
            Value::Array(items) => {
                let (Some(rules), Some(schema)) = (&rules.items, &spot.schema.items) else { return };
                let old_items = spot.old.map(|old| OldItemIndex::new(old, spot.schema));
                for (at, value) in items.iter().enumerate() {
                    let old = old_items.as_ref().and_then(|items| items.find(value));
                    let history = spot.history.child(old.map(|old| (value, old)));
                    let path = spot.path.index(at);
                    self.node(
                        rules,
                        &RulePosition { value, old, schema, resource: schema.embedded, path, history },
                    );
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = spot.old.and_then(|old| old.get(name));
                    let history = spot.history.child(old.map(|old| (value, old)));
                    let (rules, path) = match (rules.properties.get(name.as_str()), &rules.values) {
                        (Some(rules), _) => (rules, spot.path.field(name)),
                        (None, Some(rules)) => (rules.as_ref(), spot.path.key(name)),
                        (None, None) => continue,
                    };
                    let Some(schema) = spot.schema.child(name) else { continue };
                    self.node(
                        rules,
                        &RulePosition { value, old, schema, resource: schema.embedded, path, history },
                    );
                }
            }
            _ => {}
        }
    }

    fn expressions(&mut self, rules: &CelRules, spot: &RulePosition<'_>) {
        let mut plain = scope();
        plain.add_variable_from_value("self", values::typed(spot.value, spot.schema, spot.resource));
        let old = spot
            .old
            .filter(|old| !old.is_null() && rules.node_rules.iter().any(|rule| rule.uses_old))
            .map(|old| values::typed(old, spot.schema, spot.resource));
        if let Some(old) = &old {
            plain.add_variable_from_value("oldSelf", old.clone());
        }
        for compiled in &rules.node_rules {
            if compiled.rule.rule.trim().is_empty() {
                continue;
            }
            let optional = compiled.rule.optional_old_self.unwrap_or_default();
            if compiled.uses_old && old.is_none() && !optional {
                continue;
            }
            if Instant::now() > self.deadline {
                return self.abort(spot, "validation failed due to running out of cost budget, no further validation rules will be run".to_owned());
            }
            let mut context = plain.new_inner_scope();
            if optional && compiled.uses_old {
                let old = old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(old)));
            }
            self.rule(compiled, &context, spot);
        }
    }

    fn rule(&mut self, compiled: &CompiledRule, context: &Context<'_>, spot: &RulePosition<'_>) {
        let program = match &compiled.program {
            Ok(program) => program,
            Err(error) => {
                return self.fail(spot, format!("rule compile error: compilation failed: {error}"));
            }
        };
        match program.evaluate(context, self.largest) {
            Ok(Cel::Bool(true)) => return,
            Ok(_) => {}
            Err(EvaluationError::TooExpensive) => {
                let text = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    compiled.name()
                );
                return self.abort(spot, text);
            }
            Err(EvaluationError::Error(error)) if error.starts_with("no such overload") => {
                let text = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    compiled.name()
                );
                return self.fail(spot, text);
            }
            Err(EvaluationError::Error(error)) => {
                return self.fail(spot, format!("{error} evaluating rule: {}", compiled.name()));
            }
        }
        let detail = compiled
            .message
            .as_ref()
            .and_then(|message| message.evaluate(context, self.largest).ok())
            .and_then(message_text)
            .unwrap_or_else(|| match compiled.rule.message.trim() {
                "" => format!("failed rule: {}", compiled.rule.rule.trim()),
                message => message.to_owned(),
            });
        let path = if compiled.field_path.is_empty() {
            spot.path.clone()
        } else {
            spot.path.field(&compiled.field_path)
        };
        let error = violation(compiled, spot, &path_or_nil(path), detail);
        if !compiled.uses_old && spot.history.is_unchanged() {
            self.warnings.push(error.to_string());
        } else {
            self.errors.push(error);
        }
    }

    fn fail(&mut self, spot: &RulePosition<'_>, text: String) {
        let path = path_or_nil(spot.path.clone());
        self.errors.push(FieldError::invalid(&path, spot.schema.ty.as_ref(), text));
    }

    fn abort(&mut self, spot: &RulePosition<'_>, text: String) {
        self.fail(spot, text);
        self.exhausted = true;
    }
}

fn violation(compiled: &CompiledRule, spot: &RulePosition<'_>, path: &Path, detail: String) -> FieldError {
    let whole = matches!(spot.schema.ty.as_ref(), "object" | "array");
    let value = (!whole).then(|| spot.value.clone());
    match compiled.rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => FieldError::required(path, detail),
        Some("FieldValueDuplicate") => FieldError {
            path: path.clone(),
            error_type: FieldErrorType::Duplicate,
            value,
            detail: String::new(),
        },
        _ => FieldError { path: path.clone(), error_type: FieldErrorType::Invalid, value, detail },
    }
}

fn message_text(value: Cel) -> Option<String> {
    let Cel::String(text) = value else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')).then(|| text.to_owned())
}

/// Formats an empty path as `<nil>`, as Go does for the root of an object.
fn path_or_nil(path: Path) -> Path {
    if path.as_str().is_empty() { Path::new("<nil>") } else { path }
}
