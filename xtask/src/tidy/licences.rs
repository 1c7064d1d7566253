//! Checks that all dependencies have licences compatible with distribution under Apache-2.0.

use serde_json::Value;

/// Licences that require only attribution.
const PERMITTED_LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks the licences in the output of `cargo metadata`; returns complaints.
pub fn check(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages
        .iter()
        .filter_map(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            match package["license"].as_str() {
                Some(licence) if is_permitted(licence) => None,
                Some(licence) => Some(format!("{name}: its licence `{licence}` is not on the list")),
                None => Some(format!("{name}: names no licence")),
            }
        })
        .collect()
}

/// Whether an SPDX expression can be satisfied with permitted licences. `A/B` is an old form of `A OR B`.
fn is_permitted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    parse_or(&mut rest) && rest.is_empty()
}

/// Parses `A OR B OR ...`, always to its end.
fn parse_or(rest: &mut &[&str]) -> bool {
    let mut met = parse_and(rest);
    while let ["OR", after @ ..] = rest {
        *rest = after;
        met |= parse_and(rest);
    }
    met
}

/// Parses `A AND B AND ...`, which binds more tightly.
fn parse_and(rest: &mut &[&str]) -> bool {
    let mut met = parse_term(rest);
    while let ["AND", after @ ..] = rest {
        *rest = after;
        met &= parse_term(rest);
    }
    met
}

/// Parses a licence with an optional exception, or a parenthesised expression.
fn parse_term(rest: &mut &[&str]) -> bool {
    match rest {
        ["(", after @ ..] => {
            *rest = after;
            let met = parse_or(rest);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            met && closed
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            PERMITTED_LICENCES.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, after @ ..] => {
            *rest = after;
            PERMITTED_LICENCES.contains(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_permitted_evaluates_spdx_expressions() {
        let table = [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT OR GPL-3.0 AND ISC", true),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("(GPL-2.0 OR GPL-3.0) AND ISC", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("(MIT", false),
            ("MIT MIT", false),
            ("", false),
        ];
        for (expression, expected) in table {
            assert_eq!(is_permitted(expression), expected, "{expression}");
        }
    }

    #[test]
    fn check_names_crate_without_permitted_licence() {
        let packages = json!([{"name": "a", "license": "MIT"}, {"name": "b", "license": "SSPL-1.0"}, {"name": "c", "license": null}]);
        let complaints = ["b: its licence `SSPL-1.0` is not on the list", "c: names no licence"];
        assert_eq!(check(&json!({"packages": packages})), complaints);
    }
}
