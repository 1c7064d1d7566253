//! User impersonation: the `Impersonate-*` headers.
//!
//! If the headers of an authenticated request name another user, the caller needs the verb `impersonate` on each claimed item (user,
//! groups, uid, extra values), and the request continues as that user. Constrained impersonation (`impersonate-on:...`) is not supported.
//! Refusals of callers without an earlier success still mention it, because Kubernetes tries it first.

use std::collections::HashSet;
use std::fmt::Write as _;

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;

use super::rbac::{Authorizer, forbidden_error};
use super::{
    ANONYMOUS, AUTHENTICATED, Attributes, UNAUTHENTICATED, User, service_account_groups,
    split_service_account,
};
use crate::error::{ApiError, Result};
use crate::go::quote;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Maximum number of callers whose success is recorded.
const CACHE_CAPACITY: usize = 1_024;

/// Authorizes impersonation. Records callers who have succeeded, only to word later refusals.
#[derive(Default)]
pub struct Impersonation {
    succeeded: Mutex<HashSet<String>>,
}

impl Impersonation {
    /// Returns the effective user: `caller`, or the user in the headers. `attributes` describe the request itself.
    pub fn resolve(
        &self,
        authorizer: &Authorizer,
        caller: User,
        headers: &HeaderMap,
        attributes: &Attributes,
    ) -> Result<User> {
        let Some(wanted) = parse_impersonated_user(headers)? else { return Ok(caller) };
        for check in access_checks(&wanted) {
            let decision = authorizer.decide(&caller, &check);
            if decision.allowed {
                continue;
            }
            let known = self.succeeded.lock().contains(&caller.name);
            return Err(match constrained_mode(&wanted) {
                Some(mode) if !known => {
                    let verb = format!("impersonate-on:{mode}:{}", attributes.verb);
                    let on = Attributes { verb, ..attributes.clone() };
                    let reason = authorizer.decide(&caller, &on).reason;
                    forbidden_error(&caller, &on, &reason)
                }
                _ => forbidden_error(&caller, &check, &decision.reason),
            });
        }
        let mut succeeded = self.succeeded.lock();
        if succeeded.len() >= CACHE_CAPACITY {
            succeeded.clear();
        }
        succeeded.insert(caller.name);
        Ok(with_implied_groups(wanted))
    }
}

/// Parses the user from the headers, without implied groups; `None` if the headers are absent.
fn parse_impersonated_user(headers: &HeaderMap) -> Result<Option<User>> {
    let first = |name: &HeaderName| text_of(headers.get(name).map(http::HeaderValue::as_bytes));
    let mut user = User { name: first(&USER), uid: first(&UID), ..User::default() };
    user.groups = headers.get_all(&GROUP).iter().map(|value| text_of(Some(value.as_bytes()))).collect();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        user.extra.entry(unescape(key)).or_default().push(text_of(Some(value.as_bytes())));
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    let shown = go_syntax(&user);
    Err(ApiError::bad_request(format!("requested {shown} without impersonating a user name")))
}

fn text_of(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// Percent-decodes a key; a malformed key is returned unchanged.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let Some(byte) = digits
            .filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|two| u8::from_str_radix(two, 16).ok())
        else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Formats the user as the Go value `&user.DefaultInfo{...}`, which the refusal quotes.
fn go_syntax(user: &User) -> String {
    let list = |texts: &[String]| texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", ");
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        format!("[]string{{{}}}", list(&user.groups))
    };
    let mut extra = "map[string][]string".to_owned();
    if user.extra.is_empty() {
        extra.push_str("(nil)");
    } else {
        let entries = user.extra.iter().map(|(k, v)| format!("{}:[]string{{{}}}", quote(k), list(v)));
        let _ = write!(extra, "{{{}}}", entries.collect::<Vec<_>>().join(", "));
    }
    let (name, uid) = (quote(&user.name), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

/// Returns the access checks for everything that the caller impersonates.
fn access_checks(user: &User) -> Vec<Attributes> {
    let check = |group: &str, resource: &str, name: &str| Attributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let mut checks = vec![match split_service_account(&user.name) {
        Some((namespace, name)) => {
            Attributes { namespace: namespace.to_owned(), ..check("", "serviceaccounts", name) }
        }
        None => check("", "users", &user.name),
    }];
    if !user.uid.is_empty() {
        checks.push(check(AUTHENTICATION, "uids", &user.uid));
    }
    checks.extend(user.groups.iter().map(|group| check("", "groups", group)));
    for (key, values) in &user.extra {
        let subresource = || key.clone();
        checks.extend(values.iter().map(|value| Attributes {
            subresource: subresource(),
            ..check(AUTHENTICATION, "userextras", value)
        }));
    }
    checks
}

/// The mode of constrained impersonation that Kubernetes would try for this user.
fn constrained_mode(user: &User) -> Option<&'static str> {
    let only_name = user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty();
    let node = user.name.strip_prefix("system:node:").is_some_and(|name| !name.is_empty());
    match (node, split_service_account(&user.name).is_some()) {
        (true, _) => only_name.then_some("arbitrary-node"),
        (_, true) => only_name.then_some("serviceaccount"),
        _ => Some("user-info"),
    }
}

/// Adds implied groups: the groups of a `ServiceAccount` without explicit groups, and `system:authenticated` or `system:unauthenticated`.
fn with_implied_groups(mut user: User) -> User {
    if let Some((namespace, _)) = split_service_account(&user.name)
        && user.groups.is_empty()
    {
        user.groups = service_account_groups(namespace).to_vec();
    }
    let implied = match user.name.as_str() {
        ANONYMOUS => Some(UNAUTHENTICATED),
        _ if user.in_group(UNAUTHENTICATED) => None,
        _ => Some(AUTHENTICATED),
    };
    if let Some(group) = implied
        && !user.in_group(group)
    {
        user.groups.push(group.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::rbac::tests::{binding, put};
    use super::*;
    use crate::store::Store;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(k, v)| (HeaderName::from_static(k), v.parse().unwrap())).collect()
    }

    #[tokio::test]
    async fn impersonation_headers_require_permission() {
        let store = Store::in_memory();
        let users = json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]);
        put(&store, json!({"kind": "ClusterRole", "metadata": {"name": "imp"}, "rules": users})).await;
        put(&store, binding("", "imp", ("ClusterRole", "imp"), ("User", "bot"))).await;
        let authorizer = Authorizer::new(store);
        let impersonation = Impersonation::default();
        let asked =
            Attributes { verb: "list".to_owned(), resource: "nodes".to_owned(), ..Attributes::default() };
        let resolve = |caller: &User, lines: &[(&'static str, &str)]| match impersonation.resolve(
            &authorizer,
            caller.clone(),
            &headers(lines),
            &asked,
        ) {
            Ok(user) => format!("{} {} {:?} {:?}", user.name, user.uid, user.groups, user.extra),
            Err(error) => format!("{} {}", error.code, error.message),
        };
        let (admin, bot, nobody) = (User::admin(), User::named("bot", &[]), User::named("nobody", &[]));
        let account = ("impersonate-user", "system:serviceaccount:x:y");
        let table = [
            (&nobody, vec![], r"nobody  [] {}"),
            (&admin, vec![("impersonate-user", "bob")], r#"bob  ["system:authenticated"] {}"#),
            (
                &admin,
                vec![
                    ("impersonate-user", "bob"),
                    ("impersonate-group", "g"),
                    ("impersonate-uid", "u"),
                    ("impersonate-extra-scope%2fa", "v"),
                ],
                r#"bob u ["g", "system:authenticated"] {"scope/a": ["v"]}"#,
            ),
            (
                &admin,
                vec![("impersonate-user", "system:anonymous")],
                r#"system:anonymous  ["system:unauthenticated"] {}"#,
            ),
            (
                &admin,
                vec![account],
                r#"system:serviceaccount:x:y  ["system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"] {}"#,
            ),
            (
                &admin,
                vec![account, ("impersonate-group", "g")],
                r#"system:serviceaccount:x:y  ["g", "system:authenticated"] {}"#,
            ),
            (
                &admin,
                vec![("impersonate-group", "g")],
                r#"400 requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
            ),
            (
                &nobody,
                vec![("impersonate-user", "bob")],
                r#"403 nodes is forbidden: User "nobody" cannot impersonate-on:user-info:list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (&bot, vec![("impersonate-user", "bob")], r#"bob  ["system:authenticated"] {}"#),
            (
                &bot,
                vec![("impersonate-user", "bob"), ("impersonate-extra-a", "v")],
                r#"403 userextras.authentication.k8s.io "v" is forbidden: User "bot" cannot impersonate resource "userextras/a" in API group "authentication.k8s.io" at the cluster scope"#,
            ),
            (
                &bot,
                vec![account],
                r#"403 serviceaccounts "y" is forbidden: User "bot" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "x""#,
            ),
        ];
        for (caller, lines, expected) in table {
            assert_eq!(resolve(caller, &lines), expected);
        }
    }

    #[test]
    fn malformed_escapes_are_kept_unchanged() {
        for (given, expected) in [("a%2Fb", "a/b"), ("a%2", "a%2"), ("%zz", "%zz"), ("%+1", "%+1"), ("", "")]
        {
            assert_eq!(unescape(given), expected);
        }
    }
}
