//! Lint rules for templates and rendered manifests.

use helm_template::data::Data;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

use super::Severity::{Error, Warning};
use super::{LintReport, deprecations, names};
use crate::chart::File;
use crate::metadata::{get_items, get_text};
use crate::path;
use crate::typed::{self, KeyMode, Shape, Struct, structure};

/// Target Kubernetes version: major and minor.
pub type KubeMinorVersion = (u32, u32);

/// Fields of a manifest that the rules check.
#[derive(Clone, Debug, Default)]
pub struct LintedManifest {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
}

static METADATA: Struct = structure! {Rules "k8sYamlMetadata" {
    "Namespace": Shape::Text,
    "Name": Shape::Text,
}};

static HELM3: Struct = structure! {Rules "K8sYamlStruct" {
    "apiVersion": Shape::Text,
    "Kind": Shape::Text,
    "Metadata": Shape::Struct(&METADATA),
}};

static HELM4: Struct = structure! {Rules "k8sYamlStruct" {
    "apiVersion": Shape::Text,
    "Kind": Shape::Text,
    "Metadata": Shape::Struct(&METADATA),
}};

static ITEM_METADATA: Struct = structure! {Rules "" {
    "Annotations": Shape::Map(&Shape::Text),
}};

static ITEM: Struct = structure! {Rules "" {
    "Metadata": Shape::Struct(&ITEM_METADATA),
}};

static LIST: Struct = structure! {Rules "" {
    "Items": Shape::Named(
        "[]struct { Metadata struct { Annotations map[string]string } }",
        &Shape::List(&Shape::Struct(&ITEM)),
    ),
}};

/// Reads one document; `None` if it is empty.
pub(super) fn read_document(document: &[u8], profile: Profile) -> Result<Option<LintedManifest>, Str> {
    let of = match profile {
        Profile::Helm3 => &HELM3,
        Profile::Helm4 => &HELM4,
    };
    let data = typed::read(document, of, profile, KeyMode::Any)?;
    if data == Data::Null {
        return Ok(None);
    }
    let name = data.get("Metadata").map(|metadata| get_text(metadata, "Name")).unwrap_or_default();
    Ok(Some(LintedManifest {
        api_version: get_text(&data, "apiVersion"),
        kind: get_text(&data, "Kind"),
        name,
    }))
}

/// Checks a template and its rendered manifests. Returns whether to continue; output that is not YAML stops the
/// check.
pub fn check(
    template: &File,
    rendered: &[u8],
    kubernetes: KubeMinorVersion,
    profile: Profile,
    report: &mut LintReport,
) -> bool {
    let name = &template.name;
    report.record(Error, name, extension(name));
    if profile == Profile::Helm3 {
        report.record(Warning, name, check_no_crd_hook(&template.data));
        report.record(Error, name, check_no_release_time(&template.data));
    }
    if !is_yaml(name, profile) {
        return true;
    }
    let text = String::from_utf8_lossy(rendered);
    if text.trim().is_empty() {
        return true;
    }
    report.record(Warning, name, check_top_indent(&text));
    for document in yaml::documents(rendered) {
        let head = match document.and_then(|document| read_document(&document, profile)) {
            Ok(Some(head)) => head,
            Ok(None) => continue,
            Err(why) => return report.record(Error, name, Err(format!("unable to parse YAML: {why}"))),
        };
        report.record(Warning, name, names::check(&head.kind, &head.name));
        let deprecated = deprecations::check(&head.api_version, &head.kind, kubernetes, profile);
        report.record(Warning, name, deprecated);
        report.record(Error, name, selector(&head, &text));
        report.record(Error, name, list_annotations(&head, rendered, profile));
    }
    true
}

fn extension(name: &str) -> Result<(), String> {
    match path::extension(name) {
        ".yaml" | ".yml" | ".tpl" | ".txt" => Ok(()),
        end => {
            Err(format!("file extension '{end}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"))
        }
    }
}

/// Helm 3 ignores `.yml` files.
fn is_yaml(name: &str, profile: Profile) -> bool {
    let end = path::extension(name);
    match profile {
        Profile::Helm3 => end == ".yaml",
        Profile::Helm4 => end.eq_ignore_ascii_case(".yaml") || end.eq_ignore_ascii_case(".yml"),
    }
}

/// Matches `helm.sh/hook: crd-install`, quoted or not.
fn check_no_crd_hook(template: &[u8]) -> Result<(), String> {
    const KEY: &[u8] = b"helm.sh/hook";
    let is_hook = memchr::memmem::find_iter(template, KEY).any(|at| {
        let rest = &template[at + KEY.len()..];
        let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        rest.strip_prefix(b":").is_some_and(|rest| {
            let value = rest.trim_ascii_start();
            value.len() < rest.len() && value.starts_with(b"crd-install")
        })
    });
    if !is_hook {
        return Ok(());
    }
    Err("manifest is a crd-install hook. This hook is no longer supported in v3 and all CRDs should also exist the \
         crds/ directory at the top level of the chart"
        .into())
}

fn check_no_release_time(template: &[u8]) -> Result<(), String> {
    if memchr::memmem::find(template, b".Release.Time").is_none() {
        return Ok(());
    }
    Err(".Release.Time has been removed in v3, please replace with the `now` function in your templates"
        .into())
}

fn check_top_indent(text: &str) -> Result<(), String> {
    // Line length limit of Go's scanner.
    const MAX_LINE_LEN: usize = 64 << 10;
    for line in text.split('\n') {
        if line.len() >= MAX_LINE_LEN {
            return Err("bufio.Scanner: token too long".into());
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            return Err(format!(
                "document starts with an illegal indent: {}, which may cause parsing problems",
                quote(line)
            ));
        }
        return Ok(());
    }
    Ok(())
}

fn selector(head: &LintedManifest, text: &str) -> Result<(), String> {
    let has_pods = matches!(&*head.kind, "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet");
    if !has_pods || text.contains("matchLabels") || text.contains("matchExpressions") {
        return Ok(());
    }
    Err(format!(
        "a {} must contain matchLabels or matchExpressions, and {} does not",
        head.kind,
        quote(&head.name)
    ))
}

/// Of several documents only the first is checked, whichever is the list.
fn list_annotations(head: &LintedManifest, rendered: &[u8], profile: Profile) -> Result<(), String> {
    if &*head.kind != "List" {
        return Ok(());
    }
    let list = typed::read(rendered, &LIST, profile, KeyMode::Any)
        .map_err(|why| format!("unable to parse YAML: {why}"))?;
    let is_kept = |item: &Data| {
        let annotations = item.get("Metadata").and_then(|metadata| metadata.get("Annotations"));
        annotations.is_some_and(|annotations| annotations.get("helm.sh/resource-policy").is_some())
    };
    if !get_items(&list, "Items").iter().any(is_kept) {
        return Ok(());
    }
    let annotation = match profile {
        Profile::Helm3 => "Annotation",
        Profile::Helm4 => "annotation",
    };
    Err(format!("{annotation} 'helm.sh/resource-policy' within List objects are ignored"))
}
