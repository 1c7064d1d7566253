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
#[error("a request for \"{verb}\" was not sent: {problem}; the name of an object is not valid")]
pub struct InvalidCall {
    pub verb: &'static str,
    pub problem: &'static str,
}

/// Kind of path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Collection,
    Object,
    Subresource,
    /// Not an object path, such as discovery.
    Other,
}

struct Verb {
    name: &'static str,
    method: Method,
    shape: Shape,
    query: &'static [&'static str],
    /// Whether the response ends only when client or server closes it.
    streams: bool,
}

const READ: &[&str] = &["resourceVersion"];
const SELECT: &[&str] = &[
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
];
const WATCH: &[&str] = &[
    "watch",
    "labelSelector",
    "fieldSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const LOGS: &[&str] = &[
    "container",
    "limitBytes",
    "pretty",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
];
const FOLLOW: &[&str] = &[
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
    verb("get",                  Method::GET,    Shape::Object,      READ),
    verb("get_metadata",         Method::GET,    Shape::Object,      READ),
    verb("list",                 Method::GET,    Shape::Collection,  SELECT),
    verb("list_metadata",        Method::GET,    Shape::Collection,  SELECT),
    stream("watch",              Method::GET,    Shape::Collection,  WATCH),
    stream("watch_metadata",     Method::GET,    Shape::Collection,  WATCH),
    verb("create",               Method::POST,   Shape::Collection,  WRITE),
    verb("replace",              Method::PUT,    Shape::Object,      WRITE),
    verb("patch",                Method::PATCH,  Shape::Object,      WRITE),
    verb("patch_metadata",       Method::PATCH,  Shape::Object,      WRITE),
    verb("delete",               Method::DELETE, Shape::Object,      &[]),
    verb("delete_collection",    Method::DELETE, Shape::Collection,  SELECT),
    verb("get_status",           Method::GET,    Shape::Subresource, READ),
    verb("patch_status",         Method::PATCH,  Shape::Subresource, WRITE),
    verb("replace_status",       Method::PUT,    Shape::Subresource, WRITE),
    verb("get_scale",            Method::GET,    Shape::Subresource, READ),
    verb("patch_scale",          Method::PATCH,  Shape::Subresource, WRITE),
    verb("replace_scale",        Method::PUT,    Shape::Subresource, WRITE),
    verb("get_subresource",      Method::GET,    Shape::Subresource, READ),
    verb("create_subresource",   Method::POST,   Shape::Subresource, WRITE),
    verb("patch_subresource",    Method::PATCH,  Shape::Subresource, WRITE),
    verb("replace_subresource",  Method::PUT,    Shape::Subresource, WRITE),
    verb("approval",             Method::PATCH,  Shape::Subresource, WRITE),
    verb("create_token_request", Method::POST,   Shape::Subresource, WRITE),
    verb("evict",                Method::POST,   Shape::Subresource, WRITE),
    verb("logs",                 Method::GET,    Shape::Subresource, LOGS),
    stream("log_stream",         Method::GET,    Shape::Subresource, FOLLOW),
];

const fn verb(name: &'static str, method: Method, shape: Shape, query: &'static [&'static str]) -> Verb {
    Verb { name, method, shape, query, streams: false }
}

const fn stream(name: &'static str, method: Method, shape: Shape, query: &'static [&'static str]) -> Verb {
    Verb { name, method, shape, query, streams: true }
}

/// Declares the verb of a request that was not built by `kube::Api`: one of its methods, such as `get` or `watch`.
#[must_use]
pub fn declare<B>(mut request: Request<B>, verb: &'static str) -> Request<B> {
    request.extensions_mut().insert(verb);
    request
}

/// Whether the response streams until one side closes it. Other responses must be complete within the timeout.
pub(crate) fn streams<B>(request: &Request<B>) -> bool {
    declared(request).is_some_and(|verb| verb.streams)
}

/// Checks method, path and query against the declared verb. A request without a declaration never streams.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), InvalidCall> {
    let verb = declared(request);
    let name = verb.map_or("other", |verb| verb.name);
    let refuse = |problem| Err(InvalidCall { verb: name, problem });
    let path = request.uri().path();
    let Some(segments) = segments(path) else { return refuse("a segment of its path is no name") };
    let mut keys = query_keys(request.uri().query().unwrap_or_default());
    let Some(verb) = verb else {
        if keys.any(|key| matches!(key, "watch" | "follow")) {
            return refuse("its query asks for a stream that was not declared");
        }
        return Ok(());
    };
    if *request.method() != verb.method {
        return refuse("its method is another");
    }
    if shape(&segments) != verb.shape {
        return refuse("its path names something else");
    }
    if keys.any(|key| !verb.query.contains(&key)) {
        return refuse("its query has a parameter that the verb does not have");
    }
    Ok(())
}

fn declared<B>(request: &Request<B>) -> Option<&'static Verb> {
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
fn shape(segments: &[&str]) -> Shape {
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = segments else { return Shape::Other };
    // `namespaces/NAME/RESOURCE` is a collection, but for the two subresources that a Namespace has.
    let rest = match rest {
        ["namespaces", _, "status" | "finalize"] => return Shape::Subresource,
        ["namespaces", _, inside @ ..] if !inside.is_empty() => inside,
        _ => rest,
    };
    match rest {
        [resource] if !resource.is_empty() => Shape::Collection,
        [_, name] if !name.is_empty() => Shape::Object,
        [_, _, subresource] if !subresource.is_empty() => Shape::Subresource,
        _ => Shape::Other,
    }
}

#[cfg(test)]
mod tests;
