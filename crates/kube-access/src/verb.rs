//! The declared verb of a request: which method of the client API built it, and what its path and query may therefore be.
//!
//! `kube::Api` puts the name of its method on every request as an extension of type `&'static str`; requests that are built by hand
//! are declared with [`declare`]. The declaration is the caller's and cannot be changed by a name: whether a call streams is
//! read from it alone. [`check`] refuses a request whose path or query is not of the shape that its verb has, so a name
//! that was written into the path (`?watch=true`, `a/status`) makes no other call of it.
//!
//! This is the second line of defence. A fragment (`a#b`) is dropped when the URI is parsed and cannot be seen here, and a name
//! with slashes can have the shape of another object. Names are validated where they enter (`domain::names`).

use domain::names::check_name;
use http::{Method, Request};

/// A request whose path or query does not fit its verb.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request for \"{verb}\" not sent: {problem}; the name of an object is not valid")]
pub struct InvalidCall {
    pub verb: &'static str,
    pub problem: &'static str,
}

/// Kind of path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathKind {
    Collection,
    Object,
    Subresource,
    /// Not an object path, such as discovery.
    Other,
}

struct Verb {
    name: &'static str,
    method: Method,
    path_kind: PathKind,
    query: &'static [&'static str],
    /// Whether the response ends only when client or server closes it.
    is_streaming: bool,
}

const GET_PARAMS: &[&str] = &["resourceVersion"];
const LIST_PARAMS: &[&str] = &[
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
];
const WATCH_PARAMS: &[&str] = &[
    "watch",
    "labelSelector",
    "fieldSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
];
const WRITE_PARAMS: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const LOG_PARAMS: &[&str] = &[
    "container",
    "limitBytes",
    "pretty",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
];
const LOG_STREAM_PARAMS: &[&str] = &[
    "follow",
    "container",
    "limitBytes",
    "pretty",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
];

#[rustfmt::skip]
const VERBS: &[Verb] = &[
    verb("get",                  Method::GET,    PathKind::Object,      GET_PARAMS),
    verb("get_metadata",         Method::GET,    PathKind::Object,      GET_PARAMS),
    verb("list",                 Method::GET,    PathKind::Collection,  LIST_PARAMS),
    verb("list_metadata",        Method::GET,    PathKind::Collection,  LIST_PARAMS),
    stream("watch",              Method::GET,    PathKind::Collection,  WATCH_PARAMS),
    stream("watch_metadata",     Method::GET,    PathKind::Collection,  WATCH_PARAMS),
    verb("create",               Method::POST,   PathKind::Collection,  WRITE_PARAMS),
    verb("replace",              Method::PUT,    PathKind::Object,      WRITE_PARAMS),
    verb("patch",                Method::PATCH,  PathKind::Object,      WRITE_PARAMS),
    verb("patch_metadata",       Method::PATCH,  PathKind::Object,      WRITE_PARAMS),
    verb("delete",               Method::DELETE, PathKind::Object,      &[]),
    verb("delete_collection",    Method::DELETE, PathKind::Collection,  LIST_PARAMS),
    verb("get_status",           Method::GET,    PathKind::Subresource, GET_PARAMS),
    verb("patch_status",         Method::PATCH,  PathKind::Subresource, WRITE_PARAMS),
    verb("replace_status",       Method::PUT,    PathKind::Subresource, WRITE_PARAMS),
    verb("get_scale",            Method::GET,    PathKind::Subresource, GET_PARAMS),
    verb("patch_scale",          Method::PATCH,  PathKind::Subresource, WRITE_PARAMS),
    verb("replace_scale",        Method::PUT,    PathKind::Subresource, WRITE_PARAMS),
    verb("get_subresource",      Method::GET,    PathKind::Subresource, GET_PARAMS),
    verb("create_subresource",   Method::POST,   PathKind::Subresource, WRITE_PARAMS),
    verb("patch_subresource",    Method::PATCH,  PathKind::Subresource, WRITE_PARAMS),
    verb("replace_subresource",  Method::PUT,    PathKind::Subresource, WRITE_PARAMS),
    verb("approval",             Method::PATCH,  PathKind::Subresource, WRITE_PARAMS),
    verb("create_token_request", Method::POST,   PathKind::Subresource, WRITE_PARAMS),
    verb("evict",                Method::POST,   PathKind::Subresource, WRITE_PARAMS),
    verb("logs",                 Method::GET,    PathKind::Subresource, LOG_PARAMS),
    stream("log_stream",         Method::GET,    PathKind::Subresource, LOG_STREAM_PARAMS),
];

const fn verb(name: &'static str, method: Method, shape: PathKind, query: &'static [&'static str]) -> Verb {
    Verb { name, method, path_kind: shape, query, is_streaming: false }
}

const fn stream(name: &'static str, method: Method, shape: PathKind, query: &'static [&'static str]) -> Verb {
    Verb { name, method, path_kind: shape, query, is_streaming: true }
}

/// Declares the verb of a request that was not built by `kube::Api`: one of its methods, such as `get` or `watch`.
#[must_use]
pub fn declare<B>(mut request: Request<B>, verb: &'static str) -> Request<B> {
    request.extensions_mut().insert(verb);
    request
}

/// Whether the response streams until one side closes it. Other responses must be complete within the timeout.
pub(crate) fn is_streaming<B>(request: &Request<B>) -> bool {
    declared_verb(request).is_some_and(|verb| verb.is_streaming)
}

/// Checks method, path and query against the declared verb. A request without a declaration never streams.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), InvalidCall> {
    let verb = declared_verb(request);
    let name = verb.map_or("other", |verb| verb.name);
    let refuse = |problem| Err(InvalidCall { verb: name, problem });
    let path = request.uri().path();
    let Some(segments) = segments(path) else { return refuse("a segment of its path is not a valid name") };
    let mut keys = query_keys(request.uri().query().unwrap_or_default());
    let Some(verb) = verb else {
        if keys.any(|key| matches!(key, "watch" | "follow")) {
            return refuse("its query requests a stream that was not declared");
        }
        return Ok(());
    };
    if *request.method() != verb.method {
        return refuse("its method does not match the verb");
    }
    if path_kind(&segments) != verb.path_kind {
        return refuse("its path does not match the declared object");
    }
    if keys.any(|key| !verb.query.contains(&key)) {
        return refuse("its query has a parameter that the verb does not have");
    }
    Ok(())
}

fn declared_verb<B>(request: &Request<B>) -> Option<&'static Verb> {
    let name = request.extensions().get::<&'static str>()?;
    VERBS.iter().find(|verb| verb.name == *name)
}

fn query_keys(query: &str) -> impl Iterator<Item = &str> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(key, _)| key))
}

/// The segments of a path; `None` if one of them is not a valid name.
fn segments(path: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    // The root and the end of a path such as `/apis/` are empty.
    let (last, others) = segments.split_last()?;
    let valid = others.iter().all(|segment| check_name(segment).is_ok());
    (valid && (last.is_empty() || check_name(last).is_ok())).then_some(segments)
}

/// The kind of a path, by the rules of kube-apiserver.
fn path_kind(segments: &[&str]) -> PathKind {
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = segments else { return PathKind::Other };
    // `namespaces/NAME/RESOURCE` is a collection, but for the two subresources that a Namespace has.
    let rest = match rest {
        ["namespaces", _, "status" | "finalize"] => return PathKind::Subresource,
        ["namespaces", _, inside @ ..] if !inside.is_empty() => inside,
        _ => rest,
    };
    match rest {
        [resource] if !resource.is_empty() => PathKind::Collection,
        [_, name] if !name.is_empty() => PathKind::Object,
        [_, _, subresource] if !subresource.is_empty() => PathKind::Subresource,
        _ => PathKind::Other,
    }
}

#[cfg(test)]
mod tests;
