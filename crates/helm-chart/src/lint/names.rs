//! Kubernetes' rules for object names, by kind.

use helm_template::go::quote;

/// Maximum length of most object names, and of labels.
const MAX_SUBDOMAIN_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;

const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1035_LABEL_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

pub fn check(kind: &str, name: &str) -> Result<(), String> {
    let problems = problems(kind, name);
    let quoted = quote(name);
    let spelt: Vec<_> =
        problems.iter().map(|problem| format!("metadata.name: Invalid value: {quoted}: {problem}")).collect();
    let all = match spelt.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Err(format!("object name does not conform to Kubernetes naming requirements: {quoted}: {all}"))
}

fn problems(kind: &str, name: &str) -> Vec<String> {
    match &*kind.to_lowercase() {
        "service" => check_format(name, MAX_LABEL_LEN, DNS1035_LABEL_MESSAGE, |name| {
            is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
        }),
        "namespace" => check_format(name, MAX_LABEL_LEN, LABEL_MESSAGE, is_label),
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => path_segment(name),
        _ => check_format(name, MAX_SUBDOMAIN_LEN, SUBDOMAIN_MESSAGE, |name| name.split('.').all(is_label)),
    }
}

fn check_format(name: &str, longest: usize, shape: &str, fits: fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > longest {
        problems.push(format!("must be no more than {longest} characters"));
    }
    if !fits(name) {
        problems.push(shape.to_owned());
    }
    problems
}

fn is_label(label: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    label.bytes().next().is_some_and(is_inner)
        && label.bytes().last().is_some_and(is_inner)
        && label.bytes().all(|b| is_inner(b) || b == b'-')
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let forbidden = ['/', '%'].into_iter().filter(|c| name.contains(*c));
    forbidden.map(|c| format!("may not contain '{c}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_names_like_kubernetes() {
        let table = [
            ("Deployment", "a-b.c", true),
            ("Deployment", "A", false),
            ("Deployment", "", false),
            ("Deployment", "a..b", false),
            ("Service", "1a", false),
            ("Service", "a1", true),
            ("Service", "a.b", false),
            ("Namespace", "1a", true),
            ("Role", "system:a", true),
            ("ClusterRole", "a/b", false),
            ("CertificateSigningRequest", "what ever", true),
            ("Whatever", "-a", false),
        ];
        for (kind, name, good) in table {
            assert_eq!(check(kind, name).is_ok(), good, "{kind} {name}");
        }
    }

    #[test]
    fn check_lists_several_problems_in_brackets() {
        let why = check("Service", &"X".repeat(64)).unwrap_err();
        assert!(why.contains(": [metadata.name: Invalid value: \"XX"), "{why}");
        assert!(why.contains(": must be no more than 63 characters, metadata.name: "), "{why}");
    }
}
