//! Live objects of a release by kind, with the pods of its workloads.

use std::fmt::Write as _;

use helm_release::{Helm, Record};
use http::Request;
use http::header::ACCEPT;
use kube::core::DynamicObject;
use kube::{Client, Resource as _};
use kube_apply::Object;
use serde_json::Value;

/// `Accept` header for server-side printing.
const ACCEPT_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Spaces between columns.
const COLUMN_GAP: usize = 3;

/// Objects of one kind, or their tables printed by the server.
pub struct ResourceGroup {
    /// `v1/Deployment`
    pub title: String,
    pub objects: Vec<Value>,
}

/// Live objects of a release; missing ones are skipped.
pub async fn collect(helm: &Helm, record: &Record, as_tables: bool) -> Result<Vec<ResourceGroup>, String> {
    let objects = Object::parse_all(&record.manifest).map_err(|error| error.to_string())?;
    let mut groups: Vec<ResourceGroup> = Vec::new();
    let mut pods = Vec::new();
    let mut asked = Vec::new();
    for object in &objects {
        let found = helm.discovery.find(&helm.objects, object.api_version(), object.kind()).await;
        // A kind that the cluster no longer serves has no objects.
        let Ok(kind) = found else { continue };
        let namespace = object.namespace().unwrap_or(&record.namespace);
        let path = DynamicObject::url_path(&kind.resource, kind.is_namespaced.then_some(namespace));
        let Some(seen) = get_opt(&helm.objects, &format!("{path}/{}", object.name()), as_tables).await?
        else {
            continue;
        };
        let version = object.api_version().rsplit('/').next().unwrap_or_default();
        push_object(&mut groups, format!("{version}/{}", object.kind()), seen);
        if let Some(selector) = pod_selector(object).filter(|selector| !asked.contains(selector)) {
            let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
            pods.extend(get_opt(&helm.objects, &path, as_tables).await?);
            asked.push(selector);
        }
    }
    let related = pods.into_iter().flat_map(|found| match found {
        Value::Object(mut list) if !as_tables => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        table => vec![table],
    });
    for found in related {
        push_object(&mut groups, "v1/Pod(related)".to_owned(), found);
    }
    Ok(groups)
}

fn push_object(groups: &mut Vec<ResourceGroup>, title: String, object: Value) {
    match groups.iter_mut().find(|group| group.title == title) {
        Some(group) => group.objects.push(object),
        None => groups.push(ResourceGroup { title, objects: vec![object] }),
    }
}

async fn get_opt(client: &Client, path: &str, as_table: bool) -> Result<Option<Value>, String> {
    let accept = if as_table { ACCEPT_TABLE } else { "application/json" };
    let request = Request::get(path).header(ACCEPT, accept).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    match client.request::<Value>(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Label selector of a workload's pods, encoded for a query.
fn pod_selector(object: &Object) -> Option<String> {
    let workloads = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];
    let labels = object.value()["spec"]["selector"]["matchLabels"].as_object()?;
    let terms = labels.iter().filter_map(|(key, value)| {
        // Label keys and values need no other encoding.
        Some(format!("{}%3D{}", key.replace('/', "%2F"), value.as_str()?))
    });
    let terms: Vec<String> = terms.collect();
    (workloads.contains(&object.kind()) && !terms.is_empty()).then(|| terms.join("%2C"))
}

/// Tables in kubectl's format.
pub fn tables(groups: &[ResourceGroup]) -> String {
    let mut text = String::new();
    for group in groups {
        let rows = table_rows(&group.objects);
        if rows.len() < 2 {
            continue;
        }
        let _ = writeln!(text, "==> {}\n{}", group.title, align_columns(&rows));
    }
    text
}

/// Header and rows of the columns with priority 0.
fn table_rows(tables: &[Value]) -> Vec<Vec<String>> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let Some(first) = tables.first() else { return Vec::new() };
    let columns = items(&first["columnDefinitions"]);
    let shown: Vec<usize> = (0..columns.len()).filter(|&at| columns[at]["priority"] == 0).collect();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let header = shown.iter().map(|&at| text(&columns[at]["name"]).to_uppercase()).collect();
    let mut rows = vec![header];
    for row in tables.iter().flat_map(|table| items(&table["rows"])) {
        let cells = items(&row["cells"]);
        rows.push(shown.iter().map(|&at| cells.get(at).map(text).unwrap_or_default()).collect());
    }
    rows
}

fn align_columns(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default() + COLUMN_GAP
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_of_same_kind_are_merged() {
        let table = |name: &str, age: &str| {
            json!({
                "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Data", "priority": 0}, {"name": "More", "priority": 1}],
                "rows": [{"cells": [name, 2, age]}],
            })
        };
        let group = |title: &str, objects| ResourceGroup { title: title.to_owned(), objects };
        let groups = [
            group("v1/ConfigMap", vec![table("a", "1s"), table("longer", "2s")]),
            group("v1/Secret", Vec::new()),
        ];
        assert_eq!(tables(&groups), "==> v1/ConfigMap\nNAME     DATA\na        2\nlonger   2\n\n");
    }
}
