//! Parses a path into a resource path and a verb.

use http::Method;

/// A parsed path such as `/apis/apps/v1/namespaces/x/deployments/web/scale`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: String,
    /// The plural name; empty for the group version itself.
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// The path below a subresource (`/proxy/a/b`).
    pub subpath: String,
    /// Whether the path has the deprecated form `/api/v1/watch/...`.
    pub is_watch: bool,
}

/// Parses a path below `/api` or `/apis`; `None` for other paths and for a bare group.
pub fn parse_resource_path(path: &str) -> Option<ResourcePath> {
    let path = percent_decode(path.as_bytes(), false);
    let mut parts = path.trim_matches('/').split('/').map(str::to_owned);
    let mut found = ResourcePath::default();
    match parts.next()?.as_str() {
        "api" => found.version = parts.next()?,
        "apis" => {
            found.group = parts.next()?;
            found.version = parts.next()?;
        }
        _ => return None,
    }
    let rest: Vec<String> = parts.collect();
    let mut rest = rest.as_slice();
    if let [first, more @ ..] = rest
        && first == "watch"
        && !more.is_empty()
    {
        found.is_watch = true;
        rest = more;
    }
    // `/namespaces/x/pods` names pods; `/namespaces/x` and `/namespaces/x/status` name a namespace.
    if let [word, namespace, more @ ..] = rest
        && word == "namespaces"
        && !is_namespace_path(more)
    {
        found.namespace.clone_from(namespace);
        rest = more;
    }
    let mut words = rest.iter().cloned();
    found.resource = words.next().unwrap_or_default();
    found.name = words.next().unwrap_or_default();
    found.subresource = words.next().unwrap_or_default();
    found.subpath = words.collect::<Vec<_>>().join("/");
    Some(found)
}

fn is_namespace_path(more: &[String]) -> bool {
    more.is_empty() || (more.len() == 1 && matches!(more[0].as_str(), "status" | "finalize"))
}

/// Returns the RBAC verb of a request; empty for unsupported methods.
pub fn verb(method: &Method, path: &ResourcePath, watch: bool) -> &'static str {
    let one = !path.name.is_empty();
    match *method {
        Method::GET if (watch && !one) || path.is_watch => "watch",
        _ if path.is_watch => "",
        Method::GET if one => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if one => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

/// Percent-decodes; in queries `+` is a space. Invalid UTF-8 becomes the replacement character, which no name contains.
pub fn percent_decode(text: &[u8], plus_is_space: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let hex = |i: usize| text.get(i).and_then(|&b| char::from(b).to_digit(16));
        match (text[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).expect("two hex digits fit into a byte"));
                at += 3;
                continue;
            }
            (b'+', ..) if plus_is_space => out.push(b' '),
            (byte, ..) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_paths_are_parsed() {
        let show = |path| match parse_resource_path(path) {
            None => "-".to_owned(),
            Some(p) => {
                [p.group, p.version, p.namespace, p.resource, p.name, p.subresource, p.subpath].join("|")
            }
        };
        assert_eq!(show("/api/v1/namespaces/x/pods/p/log"), "|v1|x|pods|p|log|");
        assert_eq!(show("/apis/apps/v1/deployments"), "apps|v1||deployments|||");
        assert_eq!(show("/api/v1/namespaces/x"), "|v1||namespaces|x||");
        assert_eq!(show("/api/v1/namespaces/x/finalize"), "|v1||namespaces|x|finalize|");
        assert_eq!(show("/api/v1/namespaces/x/services/s/proxy/a/b"), "|v1|x|services|s|proxy|a/b");
        assert_eq!(show("/apis/apps/v1"), "apps|v1|||||");
        assert_eq!(show("/apis/apps"), "-");
        assert_eq!(show("/healthz"), "-");
        assert_eq!(show("/api/v1/namespaces/x/configmaps/a%2Fb"), "|v1|x|configmaps|a|b|");
        assert_eq!(show("/api/v1//namespaces/x/configmaps"), "|v1|||namespaces|x|configmaps");
        assert_eq!(show("/api/v1/namespaces//configmaps/"), "|v1||configmaps|||");
        assert_eq!(show("/api/v1/namespaces/x/configmaps/%ff"), "|v1|x|configmaps|\u{fffd}||");
    }
}
