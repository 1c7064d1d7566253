//! Field selectors: `metadata.name=a,status.phase!=Running`.
//!
//! Used by lists and watches; routing and RBAC read the required name or namespace. Each kind supports few fields: [`KINDS`] lists the
//! fields beyond metadata, and custom resources define their own. Grammar and errors match Kubernetes.
//!
//! Invariant: a selector returned by [`FieldSelector::resolve`] contains only fields of [`fields_of`], under the names of the stored
//! version, with name and namespace first.

use std::cell::OnceCell;

use serde_json::Value;

use super::MAX_SELECTOR_BYTES;
use crate::store::{Fields, Object};

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// Error text of an unsupported field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnsupportedFieldFormat {
    /// `field label not supported: x`
    Default,
    /// `field label "x" not supported for Job`
    Job,
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x`
    ResourceSlice,
}

/// A kind with selectable fields beyond metadata.
struct SelectableKind {
    group: &'static str,
    kind: &'static str,
    /// Whether `metadata.namespace` is supported.
    namespaced: bool,
    error_format: UnsupportedFieldFormat,
    fields: &'static [SelectableField],
}

/// A selectable field: its name in selectors, its stored name, the paths of which the first with a value counts, and the default.
struct SelectableField(&'static str, &'static str, &'static [&'static str], &'static str);

const fn same_name(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField(name, name, path, "")
}

/// Events of both groups are stored as core Events, with the field names of the core group.
#[rustfmt::skip]
const KINDS: &[SelectableKind] = &[
    SelectableKind { group: "", kind: "Pod", namespaced: true, error_format: UnsupportedFieldFormat::Default, fields: &[
        same_name("spec.nodeName", &["spec.nodeName"]), SelectableField("spec.host", "spec.nodeName", &["spec.nodeName"], ""),
        same_name("spec.restartPolicy", &["spec.restartPolicy"]), same_name("spec.schedulerName", &["spec.schedulerName"]),
        same_name("spec.serviceAccountName", &["spec.serviceAccountName"]),
        SelectableField("spec.hostNetwork", "spec.hostNetwork", &["spec.hostNetwork"], "false"),
        same_name("status.phase", &["status.phase"]), same_name("status.podIP", &["status.podIPs.0.ip", "status.podIP"]),
        same_name("status.podIPs", &[]), same_name("status.nominatedNodeName", &["status.nominatedNodeName"]),
    ] },
    SelectableKind { group: "", kind: "Node", namespaced: false, error_format: UnsupportedFieldFormat::Default, fields: &[
        SelectableField("spec.unschedulable", "spec.unschedulable", &["spec.unschedulable"], "false"),
    ] },
    SelectableKind { group: "", kind: "ReplicationController", namespaced: true, error_format: UnsupportedFieldFormat::Default, fields: &[
        SelectableField("status.replicas", "status.replicas", &["status.replicas"], "0"),
    ] },
    SelectableKind { group: "", kind: "Event", namespaced: true, error_format: UnsupportedFieldFormat::Default, fields: &[
        same_name("involvedObject.kind", &["involvedObject.kind", "regarding.kind"]),
        same_name("involvedObject.namespace", &["involvedObject.namespace", "regarding.namespace"]),
        same_name("involvedObject.name", &["involvedObject.name", "regarding.name"]),
        same_name("involvedObject.uid", &["involvedObject.uid", "regarding.uid"]),
        same_name("involvedObject.apiVersion", &["involvedObject.apiVersion", "regarding.apiVersion"]),
        same_name("involvedObject.resourceVersion", &["involvedObject.resourceVersion", "regarding.resourceVersion"]),
        same_name("involvedObject.fieldPath", &["involvedObject.fieldPath", "regarding.fieldPath"]),
        same_name("reason", &["reason"]), same_name("type", &["type"]),
        same_name("reportingComponent", &["reportingComponent", "reportingController"]),
        same_name("source", &["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"]),
    ] },
    SelectableKind { group: "events.k8s.io", kind: "Event", namespaced: true, error_format: UnsupportedFieldFormat::Default, fields: &[
        SelectableField("regarding.kind", "involvedObject.kind", &["involvedObject.kind", "regarding.kind"], ""),
        SelectableField("regarding.namespace", "involvedObject.namespace", &["involvedObject.namespace", "regarding.namespace"], ""),
        SelectableField("regarding.name", "involvedObject.name", &["involvedObject.name", "regarding.name"], ""),
        SelectableField("regarding.uid", "involvedObject.uid", &["involvedObject.uid", "regarding.uid"], ""),
        SelectableField("regarding.apiVersion", "involvedObject.apiVersion", &["involvedObject.apiVersion", "regarding.apiVersion"], ""),
        SelectableField("regarding.resourceVersion", "involvedObject.resourceVersion", &["involvedObject.resourceVersion", "regarding.resourceVersion"], ""),
        SelectableField("regarding.fieldPath", "involvedObject.fieldPath", &["involvedObject.fieldPath", "regarding.fieldPath"], ""),
        same_name("reason", &["reason"]), same_name("type", &["type"]),
        SelectableField("reportingController", "reportingComponent", &["reportingComponent", "reportingController"], ""),
    ] },
    SelectableKind { group: "", kind: "Namespace", namespaced: false, error_format: UnsupportedFieldFormat::Default, fields: &[
        same_name("status.phase", &["status.phase"]),
    ] },
    SelectableKind { group: "", kind: "Secret", namespaced: true, error_format: UnsupportedFieldFormat::Default, fields: &[same_name("type", &["type"])] },
    SelectableKind { group: "", kind: "Service", namespaced: true, error_format: UnsupportedFieldFormat::Default, fields: &[
        same_name("spec.clusterIP", &["spec.clusterIP"]), same_name("spec.type", &["spec.type"]),
    ] },
    SelectableKind { group: "batch", kind: "Job", namespaced: true, error_format: UnsupportedFieldFormat::Job, fields: &[
        SelectableField("status.successful", "status.successful", &["status.succeeded"], "0"),
    ] },
    SelectableKind { group: "certificates.k8s.io", kind: "CertificateSigningRequest", namespaced: false, error_format: UnsupportedFieldFormat::Default, fields: &[
        same_name("spec.signerName", &["spec.signerName"]),
    ] },
    SelectableKind { group: "resource.k8s.io", kind: "ResourceSlice", namespaced: false, error_format: UnsupportedFieldFormat::ResourceSlice, fields: &[
        same_name("spec.nodeName", &["spec.nodeName"]), same_name("spec.driver", &["spec.driver"]),
    ] },
];

fn selectable_kind(group: &str, kind: &str) -> Option<&'static SelectableKind> {
    KINDS.iter().find(|row| (row.group, row.kind) == (group, kind))
}

/// The kind that a selector applies to.
#[derive(Clone, Copy, Debug)]
pub enum SelectorTarget<'a> {
    Builtin {
        group: &'a str,
        kind: &'a str,
    },
    /// The paths of `selectableFields`, without the leading dot.
    Custom {
        namespaced: bool,
        fields: &'a [&'a str],
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: Box<str>,
    value: Box<str>,
    is_equal: bool,
}

/// A conjunction of requirements; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses a `fieldSelector` parameter for a kind.
    pub fn parse(text: &str, kind: SelectorTarget<'_>) -> Result<Self, String> {
        Self::parse_terms(text)?.resolve(kind)
    }

    /// Parses the grammar only.
    pub fn parse_terms(text: &str) -> Result<Self, String> {
        super::check_length("fieldSelector", text)?;
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let misunderstood = || format!("invalid selector: '{text}'; can't understand '{part}'");
            let at = part.find(['!', '=']).and_then(|first| split_at_operator(part, first));
            let (field, operator, value) = at.ok_or_else(misunderstood)?;
            let value = unescape(value)?;
            if !(field.is_empty() && value.is_empty()) {
                terms.push(FieldRequirement {
                    field: field.into(),
                    value: value.into(),
                    is_equal: operator != "!=",
                });
            }
        }
        super::check_count("fieldSelector", "requirements", terms.len())?;
        Ok(Self { terms })
    }

    /// Checks the fields for a kind, and replaces them by their stored names.
    pub fn resolve(mut self, selected: SelectorTarget<'_>) -> Result<Self, String> {
        for term in &mut self.terms {
            let field = term.field.as_ref();
            let known = match selected {
                SelectorTarget::Custom { namespaced, fields } => {
                    let known = field == NAME || field == NAMESPACE && namespaced || fields.contains(&field);
                    known.then_some(field).ok_or_else(|| format!("field label not supported: {field}"))
                }
                SelectorTarget::Builtin { group, kind } => builtin_field(group, kind, field),
            }?;
            term.field = known.into();
        }
        self.terms.sort_by_key(|term| !is_metadata_field(&term.field));
        Ok(self)
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Number of requirements.
    pub fn requirement_count(&self) -> usize {
        self.terms.len()
    }

    /// Whether matching needs more than name and namespace of an object.
    pub fn reads_objects(&self) -> bool {
        self.terms.iter().any(|term| !is_metadata_field(&term.field))
    }

    /// Returns the value that the selector requires of a field.
    pub fn required(&self, field: &str) -> Option<&str> {
        let mut terms = self.terms.iter().filter(|term| term.is_equal && term.field.as_ref() == field);
        terms.next().map(|term| term.value.as_ref())
    }

    /// Returns the required name, for RBAC and watches of a single object.
    pub fn name(&self) -> Option<&str> {
        self.required(NAME)
    }

    pub fn namespace(&self) -> Option<&str> {
        self.required(NAMESPACE)
    }

    /// Whether the fields match; an absent field is empty.
    pub fn matches<'f>(&self, lookup: impl Fn(&str) -> &'f str) -> bool {
        self.terms.iter().all(|term| (lookup(&term.field) == term.value.as_ref()) == term.is_equal)
    }

    /// Whether a stored object matches. `compute` returns its [`fields_of`]; it is called at most once, on demand.
    pub fn matches_object(&self, object: &Object, compute: impl Fn(&Value) -> Fields) -> bool {
        self.matches(|field| match field {
            NAME => &object.name,
            NAMESPACE => &object.namespace,
            other => value_of(object.fields(&compute), other),
        })
    }

    /// Like [`Self::matches_object`], for a custom resource with these `selectableFields` (without the leading dot).
    pub fn matches_custom(&self, object: &Object, paths: &[impl AsRef<str>]) -> bool {
        let compute = |value: &Value| custom_fields_of(paths, value);
        let present = OnceCell::new();
        self.matches(|field| match field {
            NAME => &object.name,
            NAMESPACE => &object.namespace,
            other => {
                let kept = object.fields(compute);
                let is_kept = kept.iter().any(|(known, _)| known.as_ref() == other);
                // The CRD may define other selectable fields since they were computed.
                value_of(if is_kept { kept } else { present.get_or_init(|| compute(&object.value())) }, other)
            }
        })
    }
}

fn is_metadata_field(field: &str) -> bool {
    matches!(field, NAME | NAMESPACE)
}

fn value_of<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.iter().find(|(field, _)| field.as_ref() == name).map_or("", |(_, value)| value)
}

fn builtin_field<'f>(group: &str, kind: &str, field: &'f str) -> Result<&'f str, String> {
    let Some(row) = selectable_kind(group, kind) else {
        return if matches!(field, NAME | NAMESPACE) {
            Ok(field)
        } else {
            Err(format!("{field:?} is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\""))
        };
    };
    if field == NAME || field == NAMESPACE && row.namespaced {
        return Ok(field);
    }
    if let Some(SelectableField(_, kept, ..)) = row.fields.iter().find(|selectable| selectable.0 == field) {
        return Ok(kept);
    }
    Err(match row.error_format {
        UnsupportedFieldFormat::Default => format!("field label not supported: {field}"),
        UnsupportedFieldFormat::Job => format!("field label {field:?} not supported for Job"),
        UnsupportedFieldFormat::ResourceSlice => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
        }
    })
}

/// Returns the selectable fields of an object, beyond name and namespace.
pub fn fields_of(group: &str, kind: &str, object: &Value) -> Fields {
    let rows = selectable_kind(group, kind).map_or(&[][..], |row| row.fields);
    let value = |selectable: &SelectableField| {
        let found = selectable.2.iter().map(|path| text_at(object, path)).find(|text| !text.is_empty());
        (selectable.1.into(), found.unwrap_or_else(|| selectable.3.to_owned()).into())
    };
    rows.iter()
        .filter(|selectable| selectable.0 == selectable.1 || group == "events.k8s.io")
        .map(value)
        .collect()
}

/// Returns the selectable fields of a custom resource with these `selectableFields` (without the leading dot).
fn custom_fields_of(fields: &[impl AsRef<str>], object: &Value) -> Fields {
    let fields = fields.iter().map(AsRef::as_ref);
    fields.map(|field| (field.into(), text_at(object, field).into())).collect()
}

/// Returns the value at a dotted path as text; empty if absent. Text longer than any selector is truncated.
fn text_at(object: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(object, |value, step| match value {
        Value::Array(elements) => step.parse::<usize>().ok().and_then(|at| elements.get(at)),
        other => other.get(step),
    });
    match found {
        Some(Value::String(text)) => {
            let end = (MAX_SELECTOR_BYTES..text.len()).find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(text.len())].to_owned()
        }
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        _ => String::new(),
    }
}

/// Splits at commas without a preceding backslash. The parts are sorted, so that of several errors the same one is reported as in
/// Kubernetes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.sort_unstable();
    parts
}

/// Splits a term at the first operator from `first` on into field, operator and value; a lone `!` is part of the field.
fn split_at_operator(part: &str, first: usize) -> Option<(&str, &'static str, &str)> {
    let (mut at, mut rest) = (first, &part[first..]);
    loop {
        if let Some(operator) = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator)) {
            return Some((&part[..at], operator, &rest[operator.len()..]));
        }
        let next = rest[1..].find(['!', '='])? + 1;
        at += next;
        rest = &rest[next..];
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut value = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
            },
            ',' | '=' => {
                let code = u32::from(letter);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            plain => value.push(plain),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CONFIG_MAP: SelectorTarget<'_> = SelectorTarget::Builtin { group: "", kind: "ConfigMap" };

    fn builtin<'a>(group: &'a str, kind: &'a str) -> SelectorTarget<'a> {
        SelectorTarget::Builtin { group, kind }
    }

    #[test]
    fn unsupported_field_errors_depend_on_kind() {
        let custom = SelectorTarget::Custom { namespaced: false, fields: &["spec.color"] };
        #[rustfmt::skip]
        let table = [
            (CONFIG_MAP, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            (CONFIG_MAP, "metadata.name!a", "invalid selector: 'metadata.name!a'; can't understand 'metadata.name!a'"),
            (CONFIG_MAP, "metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x"),
            (CONFIG_MAP, "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
            (CONFIG_MAP, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
            (CONFIG_MAP, "data.k=1", "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
            (builtin("", "Pod"), "x=1", "field label not supported: x"), (builtin("batch", "Job"), "x=1", "field label \"x\" not supported for Job"),
            (builtin("", "Node"), "metadata.namespace=x", "field label not supported: metadata.namespace"),
            (builtin("resource.k8s.io", "ResourceSlice"), "x=1", "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x"),
            (custom, "spec.size=1", "field label not supported: spec.size"), (custom, "metadata.namespace=a", "field label not supported: metadata.namespace"),
        ];
        for (kind, text, error) in table {
            assert_eq!(FieldSelector::parse(text, kind), Err(error.to_owned()), "{text}");
        }
        for text in
            ["", ",", "=", "metadata.name=a,", "metadata.name==a", "metadata.name=a\\,b", "metadata.name="]
        {
            assert!(FieldSelector::parse(text, CONFIG_MAP).is_ok(), "{text}");
        }
    }

    #[test]
    fn field_selector_matches_stored_objects() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x"},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}});
        let pod = Object::new(pod, 1);
        #[rustfmt::skip]
        let table = [
            ("spec.nodeName=x,status.phase!=Failed", true), ("spec.host=x", true), ("spec.hostNetwork=false", true),
            ("status.podIP=10.0.0.1", true), ("status.podIPs=", true), ("metadata.name!=a", false),
            ("metadata.namespace=n,metadata.name=a", true), ("metadata.name=a,metadata.name=b", false),
        ];
        for (text, selected) in table {
            let selector = FieldSelector::parse(text, builtin("", "Pod")).unwrap();
            assert_eq!(
                selector.matches_object(&pod, |value| fields_of("", "Pod", value)),
                selected,
                "{text}"
            );
        }
        let event = json!({"regarding": {"kind": "Pod"}, "reportingController": "me"});
        let selector = FieldSelector::parse(
            "regarding.kind=Pod,reportingController=me",
            builtin("events.k8s.io", "Event"),
        );
        for group in ["", "events.k8s.io"] {
            let fields = fields_of(group, "Event", &event);
            assert!(selector.as_ref().unwrap().matches(|field| value_of(&fields, field)));
        }
        let thing = custom_fields_of(&["spec.size", "spec.on"], &json!({"spec": {"size": 3, "on": true}}));
        assert_eq!((value_of(&thing, "spec.size"), value_of(&thing, "spec.on")), ("3", "true"));
    }

    #[test]
    fn required_name_and_namespace_are_extracted() {
        let selector = FieldSelector::parse("metadata.name=a\\=b,metadata.namespace!=n", CONFIG_MAP).unwrap();
        assert_eq!((selector.name(), selector.namespace()), (Some("a=b"), None));
    }

    proptest! {
        #[test]
        fn selection_agrees_with_a_naive_one(name in "[a-c,=\\\\]{0,3}", wanted in "[a-c,=\\\\]{0,3}", equal: bool) {
            let escaped = wanted.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            let text = format!("metadata.name{}{escaped}", if equal { "=" } else { "!=" });
            let selector = FieldSelector::parse(&text, CONFIG_MAP).unwrap();
            prop_assert_eq!(selector.matches(|_| name.as_str()), (name == wanted) == equal);
        }

        #[test]
        fn no_text_stops_it(text in "\\PC*", near in "[a=!\\\\,é]{0,12}") {
            let _ = (FieldSelector::parse_terms(&text), FieldSelector::parse_terms(&near));
        }
    }
}
