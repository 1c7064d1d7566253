//! Permitted dependencies between crates.

use serde_json::Value;

/// The workspace's crates from the bottom up, each with its permitted dependencies. Tests may depend on any lower
/// crate.
const LAYERS: &[(&str, &[&str])] = &[
    ("helm-template", &[]),
    ("helm-chart", &["helm-template"]),
    ("helm-host", &["helm-template", "helm-chart"]),
    ("helm-engine", &["helm-template", "helm-chart"]),
    ("domain", &[]),
    ("governor", &[]),
    ("kube-types", &["domain"]),
    ("kube-embedded", &["domain", "governor"]),
    ("testkit", &["domain", "kube-types", "kube-embedded"]),
    ("kube-access", &["domain", "kube-types"]),
    ("events", &["domain"]),
    ("outbound", &["domain"]),
    ("kube-apply", &["domain", "helm-template", "kube-access", "kube-types"]),
    (
        "helm-release",
        &[
            "domain",
            "governor",
            "helm-template",
            "helm-chart",
            "helm-host",
            "helm-engine",
            "kube-access",
            "kube-apply",
            "kube-types",
        ],
    ),
    (
        "chart-store",
        &["domain", "governor", "helm-template", "helm-chart", "kube-access", "kube-types", "outbound"],
    ),
    ("tenancy", &["domain", "events", "kube-access", "kube-types"]),
    ("fleet", &["domain", "kube-access", "kube-types"]),
    (
        "releases",
        &[
            "chart-store",
            "domain",
            "events",
            "helm-template",
            "helm-chart",
            "helm-host",
            "helm-engine",
            "helm-release",
            "kube-access",
            "kube-apply",
            "kube-types",
            "outbound",
        ],
    ),
    (
        "api",
        &[
            "chart-store",
            "domain",
            "events",
            "fleet",
            "governor",
            "helm-release",
            "kube-apply",
            "kube-types",
            "releases",
            "tenancy",
        ],
    ),
    (
        "server",
        &[
            "api",
            "chart-store",
            "domain",
            "events",
            "fleet",
            "governor",
            "kube-access",
            "kube-embedded",
            "kube-types",
            "outbound",
            "releases",
            "tenancy",
        ],
    ),
    (
        "cli",
        &[
            "chart-store",
            "domain",
            "helm-template",
            "helm-chart",
            "helm-host",
            "helm-engine",
            "helm-release",
            "kube-access",
            "kube-apply",
            "kube-types",
            "outbound",
        ],
    ),
    ("longshore", &["server", "cli"]),
    (
        "bench",
        &[
            "domain",
            "fleet",
            "kube-access",
            "kube-embedded",
            "kube-types",
            "tenancy",
            "helm-template",
            "helm-chart",
            "helm-host",
            "helm-engine",
        ],
    ),
    ("xtask", &[]),
];

/// Checks the workspace's crates in the output of `cargo metadata`; returns complaints.
pub fn check(metadata: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    // Packages without a source belong to the workspace.
    let packages: Vec<_> =
        as_array(&metadata["packages"]).iter().filter(|package| package["source"].is_null()).collect();
    let name_of = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(|package| name_of(package)).collect();
    for package in packages {
        let name = name_of(package);
        let Some(height) = LAYERS.iter().position(|(room, _)| *room == name) else {
            complaints.push(format!("{name}: has no row in the table of rooms (xtask/src/tidy/layers.rs)"));
            continue;
        };
        let below = |other: &str| LAYERS[..height].iter().any(|(room, _)| *room == other);
        for dependency in as_array(&package["dependencies"]) {
            let other = name_of(dependency);
            let for_tests = dependency["kind"] == "dev";
            let allowed = if for_tests { below(&other) } else { LAYERS[height].1.contains(&other.as_str()) };
            if ours.contains(&other) && !allowed {
                let how = if for_tests { "its tests lean" } else { "leans" };
                complaints.push(format!("{name}: {how} on {other}, which is not below it"));
            }
        }
    }
    complaints
}

fn as_array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_dependency(name: &str, on: &str, kind: Option<&str>) -> Vec<String> {
        let ours = |name: &str, dependencies: Value| json!({"name": name, "source": null, "dependencies": dependencies});
        let elsewhere =
            json!({"name": "serde", "source": "registry+x", "dependencies": [{"name": "api", "kind": null}]});
        let packages = [
            ours(name, json!([{"name": on, "kind": kind}, {"name": "serde", "kind": null}])),
            ours(on, json!([])),
            elsewhere,
        ];
        check(&json!({"packages": packages}))
    }

    #[test]
    fn layers_depend_on_lower_layers_only() {
        for (height, (name, on)) in LAYERS.iter().enumerate() {
            for other in *on {
                assert!(LAYERS[..height].iter().any(|(room, _)| room == other), "{name} on {other}");
            }
        }
    }

    #[test]
    fn check_names_forbidden_dependencies() {
        assert!(check_dependency("server", "api", None).is_empty());
        assert!(check_dependency("longshore", "kube-embedded", Some("dev")).is_empty());
        assert_eq!(check_dependency("api", "server", None), ["api: leans on server, which is not below it"]);
        assert_eq!(
            check_dependency("longshore", "kube-embedded", None),
            ["longshore: leans on kube-embedded, which is not below it"]
        );
        assert_eq!(
            check_dependency("api", "server", Some("dev")),
            ["api: its tests lean on server, which is not below it"]
        );
        assert_eq!(
            check_dependency("attic", "attic", None)[0],
            "attic: has no row in the table of rooms (xtask/src/tidy/layers.rs)"
        );
    }
}
