//! `ValidatingAdmissionPolicies`: evaluation of CEL expressions on writes.
//!
//! Called once for every write, after mutating admission and validation. Policies and their
//! bindings are read from the store each time and compiled once per version of a policy; deleted ones are evicted by the next write.
//! Evaluation errors follow the policy's `failurePolicy`; `authorizer` is not supported, so expressions that use it
//! fail.

mod check;
mod compile;
mod matching;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube_cel::cel::{Context, Value as Cel};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::check::check_policy;
use self::compile::{CompiledAdmissionPolicy, CompiledValidation};
use self::matching::{label_selector_matches, matches};
use crate::admission::{AdmissionRequest, Operation};
use crate::crd::cel::{EvaluationError, Expression, scope, values};
use crate::error::{ApiError, Result};
use crate::store::{Object, Store};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The storage of a kind that policies take parameters from.
#[derive(Clone, Debug)]
pub struct ParamSource {
    pub storage: Arc<str>,
    pub namespaced: bool,
}

/// Finds the storage of a kind by its apiVersion and kind.
pub type FindKind<'a> = &'a dyn Fn(&str, &str) -> Option<ParamSource>;

type VersionedPolicy = (u64, Arc<CompiledAdmissionPolicy>);

/// Cache of compiled policies. It holds no more than the stored ones.
#[derive(Default)]
pub struct Policies(Mutex<CompiledPolicies>);

#[derive(Default)]
struct CompiledPolicies {
    /// By uid, each with its version.
    by_uid: HashMap<Box<str>, VersionedPolicy>,
    /// The storage version of the policies when deleted ones were last evicted.
    evicted_at: u64,
}

/// Why a request is denied.
struct Denial {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: &'static str,
}

impl Policies {
    /// Admits the request, with warnings for the client, or denies it. `object` is the state to
    /// store; `None` for a delete.
    pub fn evaluate(
        &self,
        store: &Store,
        request: &AdmissionRequest<'_>,
        object: Option<&Value>,
        find: FindKind<'_>,
    ) -> Result<Vec<String>> {
        // Read before the policies: at worst the next write evicts again.
        let version = store.storage_version(POLICIES);
        let policies = store.list(POLICIES, None).objects;
        self.evict_deleted(version, &policies);
        if policies.is_empty() || request.resource.group.as_ref() == "admissionregistration.k8s.io" {
            return Ok(Vec::new());
        }
        let bindings: Vec<Value> =
            store.list(BINDINGS, None).objects.iter().map(|binding| binding.value()).collect();
        let namespace = namespace_of(store, request)?;
        let mut run = PolicyEvaluation {
            store,
            request,
            object,
            find,
            namespace: namespace.as_ref(),
            denials: Vec::new(),
            warnings: Vec::new(),
        };
        for policy in &policies {
            let bound: Vec<&Value> = bindings
                .iter()
                .filter(|binding| binding["spec"]["policyName"] == policy.name.as_ref())
                .collect();
            if bound.is_empty() {
                continue;
            }
            let compiled = self.compiled(policy, version);
            if matches(&compiled.document["spec"]["matchConstraints"], request, object, run.namespace) {
                run.policy(&compiled, &bound);
            }
        }
        match run.denials.into_iter().next() {
            None => Ok(run.warnings),
            Some(denial) => Err(denial_error(&denial, request, object)),
        }
    }

    /// Evicts the policies that are not in `stored`, the policies at the storage version `version`.
    fn evict_deleted(&self, version: u64, stored: &[Arc<Object>]) {
        let mut cache = self.0.lock();
        if cache.evicted_at == version {
            return;
        }
        let uids: HashSet<&str> = stored.iter().map(|policy| policy.uid.as_ref()).collect();
        cache.by_uid.retain(|uid, _| uids.contains(uid.as_ref()));
        cache.evicted_at = version;
    }

    /// Returns a policy that was read at the storage version `at`.
    fn compiled(&self, policy: &Object, at: u64) -> Arc<CompiledAdmissionPolicy> {
        let mut cache = self.0.lock();
        if let Some((version, compiled)) = cache.by_uid.get(&policy.uid)
            && *version == policy.version
        {
            return compiled.clone();
        }
        let compiled = Arc::new(CompiledAdmissionPolicy::new(policy.value()));
        // If others have evicted since, this policy may have been deleted.
        if cache.evicted_at == at {
            cache.by_uid.insert(policy.uid.clone(), (policy.version, compiled.clone()));
        }
        compiled
    }
}

/// The namespace object of the request; `None` for Namespaces and cluster-scoped objects.
fn namespace_of(store: &Store, request: &AdmissionRequest<'_>) -> Result<Option<Value>> {
    if request.namespace.is_empty() || matching::is_namespace(request) {
        return Ok(None);
    }
    match store.get("namespaces", "", request.namespace) {
        Some(namespace) => Ok(Some(namespace.value())),
        None => Err(ApiError::not_found("", "namespaces", request.namespace)),
    }
}

fn denial_error(denial: &Denial, request: &AdmissionRequest<'_>, object: Option<&Value>) -> ApiError {
    let message = match &denial.binding {
        Some(binding) => format!(
            "ValidatingAdmissionPolicy '{}' with binding '{binding}' denied request: {}",
            denial.policy, denial.message
        ),
        None => format!("ValidatingAdmissionPolicy '{}' denied request: {}", denial.policy, denial.message),
    };
    let generated =
        || object.and_then(|object| object["metadata"]["generateName"].as_str()).unwrap_or_default();
    let name = if request.name.is_empty() { generated() } else { request.name };
    let mut error = ApiError::forbidden(&request.resource.group, &request.resource.name, name, &message)
        .with_cause("", &message, "");
    error.reason = denial.reason;
    error.code = match denial.reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    error
}

/// The evaluation of all policies for one request.
struct PolicyEvaluation<'a> {
    store: &'a Store,
    request: &'a AdmissionRequest<'a>,
    object: Option<&'a Value>,
    find: FindKind<'a>,
    namespace: Option<&'a Value>,
    denials: Vec<Denial>,
    warnings: Vec<String>,
}

/// The result of one expression.
enum ValidationDecision {
    Admit,
    Deny { message: String, reason: &'static str },
}

impl PolicyEvaluation<'_> {
    fn policy(&mut self, policy: &CompiledAdmissionPolicy, bindings: &[&Value]) {
        let kind = &policy.document["spec"]["paramKind"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind_name) = (text(&kind["apiVersion"]), text(&kind["kind"]));
        let source = if kind.is_null() { None } else { (self.find)(&api_version, &kind_name) };
        if !kind.is_null() && source.is_none() {
            if !policy.ignores_failures {
                let message = format!(
                    "failed to configure policy: failed to find resource referenced by paramKind: \
                     '{api_version}, Kind={kind_name}'"
                );
                self.denials.push(Denial {
                    policy: policy.name.clone(),
                    binding: None,
                    message,
                    reason: "Invalid",
                });
            }
            return;
        }
        for binding in bindings {
            let limits = &binding["spec"]["matchResources"];
            if !limits.is_null() && !matches(limits, self.request, self.object, self.namespace) {
                continue;
            }
            let params = match self.params(source.as_ref(), binding) {
                Ok(params) => params,
                Err(why) => {
                    if !policy.ignores_failures {
                        let message = format!("failed to configure binding: {why}");
                        self.deny(policy, binding, message, "Invalid");
                    }
                    continue;
                }
            };
            for param in params {
                for decision in self.evaluate_validations(policy, param.as_ref()) {
                    if let ValidationDecision::Deny { message, reason } = decision {
                        self.apply_validation_actions(policy, binding, &message, reason);
                    }
                }
            }
        }
    }

    fn deny(
        &mut self,
        policy: &CompiledAdmissionPolicy,
        binding: &Value,
        message: String,
        reason: &'static str,
    ) {
        let binding = binding["metadata"]["name"].as_str().map(ToOwned::to_owned);
        self.denials.push(Denial { policy: policy.name.clone(), binding, message, reason });
    }

    fn apply_validation_actions(
        &mut self,
        policy: &CompiledAdmissionPolicy,
        binding: &Value,
        message: &str,
        reason: &'static str,
    ) {
        let actions = binding["spec"]["validationActions"].as_array().into_iter().flatten();
        for action in actions.filter_map(Value::as_str) {
            match action {
                "Deny" => self.deny(policy, binding, message.to_owned(), reason),
                "Warn" => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name,
                    binding["metadata"]["name"].as_str().unwrap_or_default()
                )),
                _ => {} // there is no audit log
            }
        }
    }

    /// The parameters to evaluate with; one `None` if the policy has none.
    fn params(&self, source: Option<&ParamSource>, binding: &Value) -> Result<Vec<Option<Value>>, String> {
        let reference = &binding["spec"]["paramRef"];
        let Some(source) = source.filter(|_| !reference.is_null()) else { return Ok(vec![None]) };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let given = text(&reference["namespace"]);
        let namespace = if source.namespaced {
            let own = if given.is_empty() { self.request.namespace.to_owned() } else { given };
            if own.is_empty() {
                let why =
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.to_owned());
            }
            own
        } else if given.is_empty() {
            given
        } else {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        };
        let name = text(&reference["name"]);
        let found: Vec<Option<Value>> = if !name.is_empty() {
            let param = self.store.get(&source.storage, &namespace, &name);
            param.map(|param| Some(param.value())).into_iter().collect()
        } else if reference["selector"].is_object() {
            let all = self.store.list(&source.storage, source.namespaced.then_some(namespace.as_str()));
            let selected =
                |param: &Value| label_selector_matches(&reference["selector"], &param["metadata"]["labels"]);
            all.objects.iter().map(|param| param.value()).filter(selected).map(Some).collect()
        } else {
            return Err("one of name or selector must be provided".to_owned());
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.to_owned());
        }
        Ok(found)
    }

    fn evaluate_validations(
        &self,
        policy: &CompiledAdmissionPolicy,
        param: Option<&Value>,
    ) -> Vec<ValidationDecision> {
        let failed = |message: String| {
            if policy.ignores_failures {
                ValidationDecision::Admit
            } else {
                ValidationDecision::Deny { message, reason: "Invalid" }
            }
        };
        if let Some(error) = &policy.error {
            return vec![failed(error.clone())];
        }
        let inputs = self.inputs(policy, param);
        let mut errors = Vec::new();
        for condition in &policy.conditions {
            // `namespaceObject` is not available in match conditions.
            match inputs.evaluate(condition) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => return Vec::new(),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => {}
            _ if policy.ignores_failures => return Vec::new(),
            [only] => return vec![failed(only.clone())],
            many => return vec![failed(format!("[{}]", many.join(", ")))],
        }
        let mut decisions: Vec<ValidationDecision> = policy
            .validations
            .iter()
            .map(|validation| match inputs.evaluate(&validation.expression) {
                Ok(Cel::Bool(true)) => ValidationDecision::Admit,
                Ok(_) => ValidationDecision::Deny {
                    message: denial_message(validation, &inputs),
                    reason: validation.reason,
                },
                Err(error) => failed(error),
            })
            .collect();
        for annotation in &policy.annotations {
            match inputs.evaluate(annotation) {
                Ok(Cel::String(_) | Cel::Null) => {}
                Ok(_) => decisions.push(failed("valueExpression must return a string or null".to_owned())),
                Err(error) => decisions.push(failed(error)),
            }
        }
        decisions
    }

    /// The variables of all expressions of a policy.
    fn inputs<'p>(&self, policy: &'p CompiledAdmissionPolicy, param: Option<&Value>) -> PolicyVariables<'p> {
        let cel = |value: Option<&Value>| value.map_or(Cel::Null, values::untyped);
        let mut base = scope();
        base.add_variable_from_value("object", cel(self.object));
        base.add_variable_from_value("oldObject", cel(self.request.old));
        base.add_variable_from_value("request", values::untyped(&request_value(self.request)));
        base.add_variable_from_value("namespaceObject", cel(self.namespace));
        base.add_variable_from_value("params", cel(param));
        let largest = |inputs: &[Option<&Value>]| {
            inputs.iter().flatten().map(|value| values::max_collection_size(value)).max().unwrap_or_default()
        };
        let objects = largest(&[self.object, self.request.old, self.namespace]);
        PolicyVariables {
            base,
            max_object_collection: objects,
            max_param_collection: largest(&[param]),
            policy,
        }
    }
}

/// The variables of expressions, except `variables`, which are computed for each expression that reads them.
struct PolicyVariables<'p> {
    base: Context<'static>,
    /// The size of the largest list or map in the objects.
    max_object_collection: usize,
    max_param_collection: usize,
    policy: &'p CompiledAdmissionPolicy,
}

impl PolicyVariables<'_> {
    /// The size of the largest list or map that an expression can loop over. Parameters count only where they are read: a long list of
    /// names would otherwise make each loop over the object too expensive.
    fn max_collection_size(&self, expression: &Expression, variables: usize) -> usize {
        let params = if expression.uses_variable("params") { self.max_param_collection } else { 0 };
        self.max_object_collection.max(params).max(variables)
    }

    fn evaluate(&self, expression: &Expression) -> Result<Cel, String> {
        let failed = |why: &str| format!("expression '{}' resulted in error: {why}", expression.source);
        if expression.uses_variable("authorizer") {
            return Err(failed("kube-embedded does not offer the variable authorizer"));
        }
        let mut context = self.base.new_inner_scope();
        let mut broken = Vec::new();
        let mut largest_variable = 0;
        if expression.uses_variable("variables") {
            let variables = self.variables(expression, &mut broken);
            largest_variable = values::max_computed_size(&variables);
            context.add_variable_from_value("variables", variables);
        }
        match expression.evaluate(&context, self.max_collection_size(expression, largest_variable)) {
            Ok(value) => Ok(value),
            Err(EvaluationError::TooExpensive) => {
                Err("validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned())
            }
            Err(EvaluationError::Error(error)) => {
                let cause = broken.iter().find(|(name, _)| error == format!("no such key: {name}"));
                match cause {
                    Some((name, why)) => {
                        Err(failed(&format!("composited variable {name:?} fails to evaluate: {why}")))
                    }
                    None => Err(failed(&error)),
                }
            }
        }
    }

    /// The policy's variables that this expression needs, in order. A variable that fails is
    /// omitted, so that the expression fails only if it really reads it.
    fn variables(&self, expression: &Expression, broken: &mut Vec<(String, String)>) -> Cel {
        let needed = self.policy.required_variables(expression);
        let mut known = empty_map();
        for (name, expression) in self.policy.variables.iter().filter(|(name, _)| needed.contains(name)) {
            let mut context = self.base.new_inner_scope();
            context.add_variable_from_value("variables", known.clone());
            let result = if expression.uses_variable("authorizer") {
                Err(EvaluationError::Error("kube-embedded does not offer the variable authorizer".to_owned()))
            } else {
                expression.evaluate(
                    &context,
                    self.max_collection_size(expression, values::max_computed_size(&known)),
                )
            };
            match result {
                Ok(value) => insert_variable(&mut known, name, value),
                Err(EvaluationError::Error(why)) => broken.push((name.clone(), why)),
                Err(EvaluationError::TooExpensive) => {
                    broken.push((name.clone(), "running out of cost budget".to_owned()));
                }
            }
        }
        known
    }
}

fn empty_map() -> Cel {
    values::untyped(&json!({}))
}

fn insert_variable(map: &mut Cel, name: &str, value: Cel) {
    if let Cel::Map(map) = map {
        let key = kube_cel::cel::objects::Key::String(Arc::new(name.to_owned()));
        Arc::make_mut(&mut map.map).insert(key, value);
    }
}

fn denial_message(validation: &CompiledValidation, inputs: &PolicyVariables<'_>) -> String {
    let computed = validation.message_expression.as_ref().and_then(|expression| {
        let Ok(Cel::String(text)) = inputs.evaluate(expression) else { return None };
        let text = text.trim();
        (!text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')).then(|| text.to_owned())
    });
    computed.unwrap_or_else(|| match validation.message.trim() {
        "" => format!("failed expression: {}", validation.expression.source.trim()),
        message => message.to_owned(),
    })
}

/// The variable `request`.
fn request_value(request: &AdmissionRequest<'_>) -> Value {
    let resource = request.resource;
    let kind = match (resource.group.as_ref(), resource.name.as_ref(), request.subresource) {
        ("", "serviceaccounts", "token") => {
            json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"})
        }
        _ => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
    };
    let plural = json!({"group": resource.group, "version": resource.version, "resource": resource.name});
    let user = request.user;
    let mut value = json!({
        "kind": kind, "resource": plural, "requestKind": kind, "requestResource": plural,
        "operation": operation_name(request.operation), "dryRun": request.dry_run,
        "userInfo": {"username": user.name, "groups": user.groups, "uid": user.uid, "extra": user.extra},
        "subResource": request.subresource, "requestSubResource": request.subresource,
        "name": request.name, "namespace": request.namespace, "options": {},
    });
    // Empty strings are omitted, as in the AdmissionReview of webhooks.
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| value != "");
    }
    value
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

#[cfg(test)]
mod tests;
