//! The verbs `get` and `list`, with pagination.

use super::selection::{MAX_COMPARISONS, Selection};
use super::{ObjectPage, ResourceRequest, ResourceResponse};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::http::query::{Query, check_errors};
use crate::selector::ContinueToken;
use crate::store::{ListPage, ListStart, Object, Store};

pub fn get(call: &ResourceRequest) -> Result<ResourceResponse> {
    let unreadable = |error: ApiError| {
        // Only lists and watches report it as a client error.
        ApiError::new(500, "", error.message.trim_start_matches("invalid resource version: "))
    };
    if let Some(version) = parse_version(&call.query.resource_version).map_err(unreadable)? {
        check_version_exists(call.cluster.store(), version)?;
    }
    Ok(ResourceResponse::Stored(200, call.get_live()?))
}

pub async fn list(call: &ResourceRequest) -> Result<ResourceResponse> {
    check_list_options(&call.query)?;
    let selection = Selection::from_request(call)?;
    list_page(call, &selection).await.map(ResourceResponse::List)
}

/// Returns the page of a list: of the newest state, of an exact version, or the next one of a continue token.
pub(super) async fn list_page(call: &ResourceRequest, selection: &Selection) -> Result<ObjectPage> {
    let query = &call.query;
    let store = call.cluster.store();
    let storage = &call.resource.storage;
    let namespace = selection.namespace.as_deref();
    let requested_version = parse_version(&query.resource_version)?;
    let mut begun: Option<ContinueToken> = None;
    let version = if query.continue_token.is_empty() {
        requested_version.map_or(Ok(()), |version| check_version_exists(store, version))?;
        requested_version.filter(|&version| version != 0 && query.resource_version_match == "Exact")
    } else {
        if requested_version.is_some_and(|version| version != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let all = call.resource.namespaced && namespace.is_none();
        let token = ContinueToken::decode(&query.continue_token, all)
            .map_err(|why| ApiError::bad_request(format!("invalid continue token: {why}")))?;
        // A token without a version continues in the newest state.
        let version = u64::try_from(token.version).ok();
        begun = Some(token);
        version
    };
    let start = begun.as_ref().map(|token| ListStart {
        // With a namespace in the request, a token's key is the name alone.
        namespace: namespace.unwrap_or(&token.namespace).into(),
        name: token.name.as_str().into(),
        is_after: token.is_exclusive,
    });
    // `resourceVersion=0` is answered from memory without pages.
    let limit = usize::try_from(query.limit).ok().filter(|&limit| limit > 0 && query.resource_version != "0");
    // With a selector, all objects may have to be compared.
    let most = limit.filter(|_| selection.is_everything());
    let part = store.page(storage, namespace, version, start.as_ref(), most).map_err(|_| match &begun {
        Some(token) => expired_page(token),
        None => ApiError::expired("The resourceVersion for the provided list is too old."),
    })?;
    Ok(select_page(part, selection, limit).await)
}

/// Returns at most `limit` selected objects of a part, with the continue token.
async fn select_page(part: ListPage, selection: &Selection, limit: Option<usize>) -> ObjectPage {
    let ListPage { version, objects: of_part, remaining } = part;
    let is_full = |objects: &Vec<_>| limit.is_some_and(|limit| objects.len() >= limit);
    let (mut objects, mut more, mut compared) = (Vec::new(), false, 0_usize);
    for object in of_part {
        compared = compared.saturating_add(selection.cost_of(&object));
        if compared > MAX_COMPARISONS {
            compared = 0;
            tokio::task::yield_now().await;
        }
        if selection.matches(&object) {
            if is_full(&objects) {
                more = true;
                break;
            }
            objects.push(object);
        }
    }
    // Kubernetes reports the remaining count only for lists without selectors.
    let remaining =
        Some(remaining).filter(|&count| count > 0 && selection.is_everything() && is_full(&objects));
    let last = objects.last().filter(|_| more || remaining.is_some());
    let continue_token = last.map(|last| continue_after(version, selection, last)).unwrap_or_default();
    ObjectPage { version, objects, continue_token, remaining }
}

fn continue_after(version: u64, selection: &Selection, last: &Object) -> String {
    let namespace = if selection.namespace.is_some() { "" } else { last.namespace.as_ref() };
    ContinueToken::after(i64::try_from(version).unwrap_or(-1), namespace, &last.name).encode()
}

fn expired_page(token: &ContinueToken) -> ApiError {
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new \
        list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
        the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
        modified, or deleted between the time the first chunk was returned and now may show up in the list.";
    let mut error = ApiError::expired(text);
    error.continue_token = Some(ContinueToken { version: -1, ..token.clone() }.encode());
    error
}

/// Parses a `resourceVersion`: `None` if empty; 0 means any version.
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

fn check_version_exists(store: &Store, version: u64) -> Result<()> {
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
    query.list_error.clone().map_or(Ok(()), Err)?;
    let mut errors = check_version_match(query);
    if query.send_initial_events.is_some() {
        errors.push(FieldError::forbidden(
            &Path::new("sendInitialEvents"),
            "sendInitialEvents is forbidden for list",
        ));
    }
    check_errors("ListOptions", &errors)
}

fn check_version_match(query: &Query) -> FieldErrors {
    let path = Path::new("resourceVersionMatch");
    let asked = query.resource_version_match.as_str();
    let mut errors = FieldErrors::new();
    if asked.is_empty() {
        return errors;
    }
    if query.resource_version.is_empty() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        errors.push(FieldError::forbidden(&path, why));
    }
    if !query.continue_token.is_empty() {
        errors.push(FieldError::forbidden(
            &path,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
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
