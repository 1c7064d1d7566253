//! Read-modify-write of an object with retry on conflict.

use std::fmt::Debug;

use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::credential_store::{is_code, post_params};

/// The limit of attempts after conflicts. Fifty concurrent writers of one object all succeed: one of them succeeds in each round.
const MAX_CONFLICT_RETRIES: usize = 60;

/// Changes the object `name` with `decide`, which gets the current object and may refuse. With `expected`, the object is
/// changed only at that `resourceVersion`; otherwise the error is [`Error::StaleResourceVersion`].
pub(crate) async fn update_with_retry<K>(
    api: &Api<K>,
    name: &str,
    expected: Option<&str>,
    decide: impl Fn(&mut K) -> Result<(), Error>,
) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + Clone + PartialEq + Debug + Serialize + DeserializeOwned,
{
    let called = || format!("{} `{name}`", K::kind(&()).to_lowercase());
    for _ in 0..MAX_CONFLICT_RETRIES {
        let Some(before) = api.get_opt(name).await? else {
            return Err(not_found::<K>(name));
        };
        if expected.is_some_and(|expected| before.resource_version().as_deref() != Some(expected)) {
            return Err(Error::StaleResourceVersion(called()));
        }
        let mut after = before.clone();
        decide(&mut after)?;
        // After `decide`: for some callers the object is not visible at all, and only `decide` knows.
        if before.meta().deletion_timestamp.is_some() {
            return Err(Error::Conflict(format!("{} is being deleted", called())));
        }
        if after == before {
            return Ok(before);
        }
        match api.replace(name, &post_params(), &after).await {
            // The next read distinguishes a conflict from a deletion.
            Err(lost) if is_code(&lost, 409) || is_code(&lost, 404) => {}
            written => return Ok(written?),
        }
    }
    Err(Error::ConcurrentUpdate(called()))
}

fn not_found<K: Resource<DynamicType = ()>>(name: &str) -> Error {
    let kind = match &*K::kind(&()) {
        "User" => "user",
        "Workspace" => "workspace",
        _ => "object",
    };
    Error::NotFound { kind, name: name.to_owned() }
}

/// Whether the `resourceVersion` `observed` is at least `written`. Versions are numbers that grow within a kind.
pub(crate) fn is_at_least_version(observed: &str, written: &str) -> bool {
    match (observed.parse::<u64>(), written.parse::<u64>()) {
        (Ok(seen), Ok(written)) => seen >= written,
        _ => observed == written,
    }
}
