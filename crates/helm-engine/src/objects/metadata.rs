//! `.Chart`: a struct in Helm 3, where access to an unknown field is an error, and a map in Helm 4.

use std::rc::Rc;

use helm_chart::{Dependency, Maintainer, Metadata};
use helm_template::profile::Profile;
use helm_template::value::{Field, Json, List, Map, NamedList, Str, Value};

use super::record::StructValue;

pub fn metadata(metadata: &Metadata, is_root: bool, profile: Profile) -> Value {
    let fields = fields(metadata, profile);
    let is_root = Field { name: "IsRoot", json: Json::Always("IsRoot"), value: is_root.into() };
    match profile {
        Profile::Helm3 => {
            let inner = Value::Object(Rc::new(StructValue::new("chart.Metadata", fields)));
            let inner = Field { name: "Metadata", json: Json::Embedded, value: inner };
            Value::Object(Rc::new(StructValue::new(
                "struct { chart.Metadata; IsRoot bool }",
                vec![inner, is_root],
            )))
        }
        Profile::Helm4 => map(fields.into_iter().chain([is_root])),
    }
}

/// Converts a struct to a map, as Helm 4 does.
fn map(fields: impl IntoIterator<Item = Field>) -> Value {
    Map::from_entries(fields.into_iter().map(|field| (field.name.into(), field.value))).into()
}

fn text(name: &'static str, json: &'static str, text: &Str) -> Field {
    Field { name, json: Json::OmitEmpty(json), value: Value::String(text.clone()) }
}

fn texts(texts: &[Str], profile: Profile) -> Value {
    match profile {
        Profile::Helm3 if texts.is_empty() => List::nil_strings().into(),
        Profile::Helm3 => List::strings(texts.iter().cloned()).into(),
        Profile::Helm4 => List::any(texts.iter().cloned().map(Value::String)).into(),
    }
}

fn fields(metadata: &Metadata, profile: Profile) -> Vec<Field> {
    let Metadata {
        name,
        home,
        sources,
        version,
        description,
        keywords,
        maintainers,
        icon,
        api_version,
        condition,
        tags,
        app_version,
        deprecated,
        annotations,
        kube_version,
        dependencies,
        chart_type,
    } = metadata;
    let filled = |name, json, value| Field { name, json: Json::OmitEmpty(json), value };
    let notes = if annotations.is_empty() { Map::nil_strings() } else { Map::strings() };
    for (key, value) in annotations {
        notes.insert(key.clone(), Value::String(value.clone()));
    }
    vec![
        text("Name", "name", name),
        text("Home", "home", home),
        filled("Sources", "sources", texts(sources, profile)),
        text("Version", "version", version),
        text("Description", "description", description),
        filled("Keywords", "keywords", texts(keywords, profile)),
        filled(
            "Maintainers",
            "maintainers",
            structs(&MAINTAINERS, "*chart.Maintainer", maintainers.iter().map(maintainer), profile),
        ),
        text("Icon", "icon", icon),
        text("APIVersion", "apiVersion", api_version),
        text("Condition", "condition", condition),
        text("Tags", "tags", tags),
        text("AppVersion", "appVersion", app_version),
        filled("Deprecated", "deprecated", (*deprecated).into()),
        filled("Annotations", "annotations", notes.into()),
        text("KubeVersion", "kubeVersion", kube_version),
        filled(
            "Dependencies",
            "dependencies",
            structs(
                &DEPENDENCIES,
                "*chart.Dependency",
                dependencies.iter().map(|dependency| self::dependency(dependency, profile)),
                profile,
            ),
        ),
        text("Type", "type", chart_type),
    ]
}

static MAINTAINERS: NamedList = NamedList { name: "[]*chart.Maintainer", method: |_| None };
static DEPENDENCIES: NamedList = NamedList { name: "[]*chart.Dependency", method: |_| None };

fn structs(
    list: &'static NamedList,
    name: &'static str,
    items: impl Iterator<Item = Vec<Field>>,
    profile: Profile,
) -> Value {
    match profile {
        Profile::Helm3 => {
            let items = items.map(|fields| Value::Object(Rc::new(StructValue::new(name, fields).pointer())));
            match List::named(list, items) {
                none if none.is_empty() => List::nil_named(list),
                items => items,
            }
            .into()
        }
        Profile::Helm4 => List::any(items.map(map)).into(),
    }
}

fn maintainer(maintainer: &Maintainer) -> Vec<Field> {
    let Maintainer { name, email, url } = maintainer;
    vec![text("Name", "name", name), text("Email", "email", email), text("URL", "url", url)]
}

fn dependency(dependency: &Dependency, profile: Profile) -> Vec<Field> {
    let Dependency { name, version, repository, condition, tags, enabled, import_values, alias } = dependency;
    let always =
        |name, json, text: &Str| Field { name, json: Json::Always(json), value: Value::String(text.clone()) };
    let filled = |name, json, value| Field { name, json: Json::OmitEmpty(json), value };
    let imports = match import_values.as_slice() {
        [] if profile == Profile::Helm3 => List::nil(),
        values => List::any(values.iter().map(Value::from)),
    };
    vec![
        always("Name", "name", name),
        text("Version", "version", version),
        always("Repository", "repository", repository),
        text("Condition", "condition", condition),
        filled("Tags", "tags", texts(tags, profile)),
        filled("Enabled", "enabled", (*enabled).into()),
        filled("ImportValues", "import-values", imports.into()),
        text("Alias", "alias", alias),
    ]
}
