//! Purity of the crates that render charts: no files, network, environment, clock, randomness or threads. They get
//! these through the traits of `helm_template::env`.
//!
//! Both the names in their sources and their dependencies are checked.

use serde_json::Value;

use super::masking::mask_comments_and_literals;
use super::sources::Source;

const PURE_CRATES: &[&str] = &["helm-template", "helm-chart", "helm-engine"];

/// Names that a source must not contain.
const BANNED_IDENTIFIERS: &[&str] = &[
    "std::fs",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "std::os",
    "std::env",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "SystemTime",
    "Instant",
    "RandomState",
    "Timestamp::now",
    "Zoned::now",
    "TimeZone::system",
    "TimeZone::get",
    "thread::spawn",
    "File::open",
    "File::create",
];

/// Crates that none of them may depend on.
const BANNED_CRATES: &[&str] =
    &["aws-lc-rs", "rand", "getrandom", "tokio", "reqwest", "hyper", "kube", "tempfile", "uuid", "rayon"];

/// Checks a source file. Its tests are exempt.
pub fn check_source(source: &Source) -> Vec<String> {
    let Source { path, text } = source;
    let pure = PURE_CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    if !pure || path.ends_with("/tests.rs") || path.contains("/tests/") {
        return Vec::new();
    }
    let code = mask_comments_and_literals(text);
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(code.lines()).take_while(|(_, line)| !line.starts_with("mod tests {")) {
        for way in BANNED_IDENTIFIERS.iter().filter(|way| contains_identifier(line, way)) {
            complaints.push(format!("{path}:{number}: `{way}` leads out of a crate that must be pure"));
        }
    }
    complaints
}

/// Checks the dependencies in the output of `cargo metadata`.
pub fn check_dependencies(metadata: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for package in array(&metadata["packages"]) {
        let Some(name) = package["name"].as_str().filter(|name| PURE_CRATES.contains(name)) else { continue };
        for dependency in array(&package["dependencies"]) {
            let other = dependency["name"].as_str().unwrap_or_default();
            if dependency["kind"] != "dev" && BANNED_CRATES.contains(&other) {
                complaints.push(format!(
                    "{name}: depends on {other}, which leads out of a crate that must be pure"
                ));
            }
        }
    }
    complaints
}

/// Whether the line contains `way` as a whole identifier.
fn contains_identifier(line: &str, way: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(way)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + way.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check_source(&Source { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn check_source_names_banned_identifier_with_line() {
        let text = "//! X. Not std::fs.\nuse std::fs;\nlet a = \"TcpStream\";\nlet now = Timestamp::now();\n\
                    fn instantly(f: MyInstant) {}\n#[cfg(test)]\nmod tests {\n    use std::env;\n}\n";
        assert_eq!(
            complaints("crates/helm-chart/src/load.rs", text),
            [
                "crates/helm-chart/src/load.rs:2: `std::fs` leads out of a crate that must be pure",
                "crates/helm-chart/src/load.rs:4: `Timestamp::now` leads out of a crate that must be pure",
            ]
        );
        for elsewhere in [
            "crates/helm-host/src/lib.rs",
            "crates/helm-chart/tests/all/main.rs",
            "crates/helm-chart/src/x/tests.rs",
        ] {
            assert_eq!(complaints(elsewhere, text), [""; 0]);
        }
    }

    #[test]
    fn check_dependencies_names_banned_crate() {
        let dependencies = json!([{"name": "rand", "kind": null}, {"name": "tokio", "kind": "dev"}, {"name": "memchr", "kind": null}]);
        let metadata = json!({"packages": [
            {"name": "helm-engine", "dependencies": dependencies},
            {"name": "server", "dependencies": dependencies},
        ]});
        let complaint = "helm-engine: depends on rand, which leads out of a crate that must be pure";
        assert_eq!(check_dependencies(&metadata), [complaint]);
    }
}
