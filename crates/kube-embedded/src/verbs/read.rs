//! Reading: one object, or a collection in pages.

use std::sync::Arc;

use super::select::Selection;
use super::{Answer, Call, Page};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::http::query::{Query, refuse};
use crate::selector::Continue;
use crate::store::{Object, Snapshot, Store};

pub fn get(call: &Call) -> Result<Answer> {
    if let Some(version) = parse_version(&call.query.resource_version)? {
        not_from_the_future(call.cluster.store(), version)?;
    }
    Ok(Answer::Stored(200, call.live()?))
}

pub fn list(call: &Call) -> Result<Answer> {
    check_list_options(&call.query)?;
    let selection = Selection::of(call)?;
    page(call, &selection).map(Answer::List)
}

/// What a list shows: the newest state, an exact earlier one, or the next page of one that was begun.
fn page(call: &Call, selection: &Selection) -> Result<Page> {
    let query = &call.query;
    let store = call.cluster.store();
    let storage = &call.resource.storage;
    let namespace = selection.namespace.as_deref();
    let asked = parse_version(&query.resource_version)?;
    let mut after: Option<(String, String)> = None;
    let snapshot = if !query.continue_token.is_empty() {
        if asked.is_some_and(|version| version != 0) {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        let token = Continue::decode(&query.continue_token).map_err(ApiError::bad_request)?;
        after = Some(token.after(namespace));
        match token.version {
            Some(version) => store.list_at(storage, namespace, version).map_err(|_| expired_page(store, &token))?,
            None => store.list(storage, namespace),
        }
    } else {
        match asked {
            Some(version) if version != 0 && query.resource_version_match == "Exact" => {
                not_from_the_future(store, version)?;
                store
                    .list_at(storage, namespace, version)
                    .map_err(|_| ApiError::expired("The resourceVersion for the provided list is too old."))?
            }
            Some(version) => {
                not_from_the_future(store, version)?;
                store.list(storage, namespace)
            }
            None => store.list(storage, namespace),
        }
    };
    Ok(cut(snapshot, selection, after, query, namespace))
}

/// The part of a snapshot that comes after the last page, at most `limit` objects of it.
fn cut(
    snapshot: Snapshot,
    selection: &Selection,
    after: Option<(String, String)>,
    query: &Query,
    namespace: Option<&str>,
) -> Page {
    let behind = |object: &Arc<Object>| match &after {
        None => true,
        Some((ns, name)) => (object.namespace.as_ref(), object.name.as_ref()) > (ns.as_str(), name.as_str()),
    };
    let version = snapshot.version;
    let limit = usize::try_from(query.limit).ok().filter(|&limit| limit > 0);
    let mut rest = snapshot.objects.into_iter().filter(behind);
    let Some(limit) = limit else {
        let objects = rest.filter(|object| selection.matches(object)).collect();
        return Page { version, objects, continue_token: String::new(), remaining: None };
    };
    let mut objects = Vec::new();
    while objects.len() < limit {
        let Some(object) = rest.next() else {
            return Page { version, objects, continue_token: String::new(), remaining: None };
        };
        if selection.matches(&object) {
            objects.push(object);
        }
    }
    // Kubernetes says how many remain only where it need not look at them.
    let (more, remaining) = if selection.is_everything() {
        let count = rest.count();
        (count > 0, Some(count).filter(|&count| count > 0))
    } else {
        (rest.any(|object| selection.matches(&object)), None)
    };
    let last = objects.last().filter(|_| more);
    let continue_token =
        last.map(|last| Continue::after_object(version, namespace, last).encode()).unwrap_or_default();
    Page { version, objects, continue_token, remaining }
}

fn expired_page(store: &Store, token: &Continue) -> ApiError {
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new \
        list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
        the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
        modified, or deleted between the time the first chunk was returned and now may show up in the list.";
    let mut error = ApiError::expired(text);
    error.continue_token = Some(token.from_now(store.version()).encode());
    error
}

/// `None` for an empty text; 0 means any version.
pub fn parse_version(text: &str) -> Result<Option<u64>> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let problem = if digits { "value out of range" } else { "invalid syntax" };
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {problem}"
        ))
    })
}

fn not_from_the_future(store: &Store, version: u64) -> Result<()> {
    let current = store.version();
    if version <= current {
        return Ok(());
    }
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    Err(ApiError::new(504, "Timeout", message)
        .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1))
}

fn check_list_options(query: &Query) -> Result<()> {
    let mut errors = check_version_match(query);
    if query.send_initial_events.is_some() {
        errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list"));
    }
    refuse("ListOptions", &errors)
}

fn check_version_match(query: &Query) -> Vec<FieldError> {
    let path = Path::new("resourceVersionMatch");
    let asked = query.resource_version_match.as_str();
    let mut errors = Vec::new();
    if asked.is_empty() {
        return errors;
    }
    if query.resource_version.is_empty() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        errors.push(FieldError::forbidden(&path, why));
    }
    if !query.continue_token.is_empty() {
        errors.push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if !matches!(asked, "Exact" | "NotOlderThan") {
        errors.push(FieldError::unsupported(&path, asked, &["Exact", "NotOlderThan", ""]));
    }
    if asked == "Exact" && query.resource_version == "0" {
        let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        errors.push(FieldError::forbidden(&path, why));
    }
    errors
}
