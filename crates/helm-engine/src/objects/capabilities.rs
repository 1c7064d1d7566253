//! `.Capabilities`.

use std::rc::Rc;

use helm_template::profile::Profile;
use helm_template::value::{
    Field, Json, List, ListMethod, Method, NamedList, Object, Type, Value, negligible_cost,
};

use super::record::StructValue;
use crate::capabilities::{Capabilities, KubeVersion};

pub fn capabilities(capabilities: &Capabilities, profile: Profile) -> Value {
    let (name, versions) = match profile {
        Profile::Helm3 => ("*chartutil.Capabilities", &VERSIONS_HELM3),
        Profile::Helm4 => ("*common.Capabilities", &VERSIONS_HELM4),
    };
    let api_versions = capabilities.api_versions.iter().cloned().map(Value::String);
    let fields = vec![
        json_field("KubeVersion", kube_version(&capabilities.kube_version, profile)),
        json_field("APIVersions", List::named(versions, api_versions).into()),
        json_field("HelmVersion", helm_version(profile)),
    ];
    let record = StructValue {
        method: |name| (name == "Copy").then_some(COPY),
        ..StructValue::new(name, fields).pointer()
    };
    Value::Object(Rc::new(record))
}

fn json_field(name: &'static str, value: Value) -> Field {
    Field { name, json: Json::Always(name), value }
}

const COPY: Method = Method {
    params: &[],
    variadic: false,
    cost: negligible_cost,
    run: |object, _| {
        let Some(record) = object.as_any().downcast_ref::<StructValue>() else { return Ok(Value::Nil) };
        let fields = record.fields.iter().map(|field| json_field(field.name, field.value.clone())).collect();
        Ok(Value::Object(Rc::new(StructValue {
            method: record.method,
            ..StructValue::new(record.type_name, fields).pointer()
        })))
    },
};

fn kube_version(version: &KubeVersion, profile: Profile) -> Value {
    let mut fields = vec![json_field("Version", Value::String(version.version.clone()))];
    let name = match profile {
        Profile::Helm3 => "chartutil.KubeVersion",
        Profile::Helm4 => {
            let value = Value::String(version.without_suffix.clone());
            fields.push(Field { name: "normalizedVersion", json: Json::Private, value });
            "common.KubeVersion"
        }
    };
    fields.push(json_field("Major", Value::String(version.major.clone())));
    fields.push(json_field("Minor", Value::String(version.minor.clone())));
    let shown = Some(version.without_suffix.clone());
    Value::Object(Rc::new(StructValue {
        method: version_method,
        display: shown,
        ..StructValue::new(name, fields)
    }))
}

fn version_method(name: &str) -> Option<Method> {
    let run = match name {
        "String" => |object: &dyn Object, _: &[Value]| Ok(Value::from(object.show().as_ref())),
        "GitVersion" => |object: &dyn Object, _: &[Value]| Ok(object.field("Version").unwrap_or_default()),
        _ => return None,
    };
    Some(Method { params: &[], variadic: false, cost: negligible_cost, run })
}

/// Build information of the Helm version that is followed.
fn helm_version(profile: Profile) -> Value {
    let filled = |name, json, value: &str| Field { name, json: Json::OmitEmpty(json), value: value.into() };
    let fields = match profile {
        Profile::Helm3 => vec![
            filled("Version", "version", "v3.17.3"),
            filled("GitCommit", "git_commit", "e4da49785aa6e6ee2b86efd5dd9e43400318262b"),
            filled("GitTreeState", "git_tree_state", "clean"),
            filled("GoVersion", "go_version", "go1.23.7"),
        ],
        Profile::Helm4 => vec![
            filled("Version", "version", "v4.3.1"),
            filled("GitCommit", "git_commit", ""),
            filled("GitTreeState", "git_tree_state", ""),
            filled("GoVersion", "go_version", "go1.26.8"),
            filled("KubeClientVersion", "kube_client_version", "v1.37"),
        ],
    };
    Value::Object(Rc::new(StructValue::new("version.BuildInfo", fields)))
}

static VERSIONS_HELM3: NamedList = NamedList { name: "chartutil.VersionSet", method: versions_method };
static VERSIONS_HELM4: NamedList = NamedList { name: "common.VersionSet", method: versions_method };

fn versions_method(name: &str) -> Option<ListMethod> {
    (name == "Has").then_some(ListMethod { params: &[Type::String], run: has })
}

#[expect(clippy::unnecessary_wraps, reason = "methods may fail")]
fn has(list: &List, values: &[Value]) -> Result<Value, helm_template::value::Str> {
    let wanted = values.first().and_then(Value::as_str);
    Ok(Value::Bool(wanted.is_some() && list.iter().any(|version| version.as_str() == wanted)))
}
