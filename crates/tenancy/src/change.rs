//! Read, change, write; and again when somebody else was faster.

use std::fmt::Debug;

use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::secrets::{is_code, writing};

/// How often a write is tried again that somebody else was faster with. Fifty who change one object at once all get
/// there: in each round one of them does.
const RACES: usize = 60;

/// Changes the object `name` by `decide`, which sees it as it is now and may refuse. A caller who names the version
/// that they `expected` gets it changed from that version or not at all.
pub(crate) async fn change<K>(
    api: &Api<K>,
    name: &str,
    expected: Option<&str>,
    decide: impl Fn(&mut K) -> Result<(), Error>,
) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + Clone + PartialEq + Debug + Serialize + DeserializeOwned,
{
    let called = || format!("{} `{name}`", K::kind(&()).to_lowercase());
    for _ in 0..RACES {
        let Some(before) = api.get_opt(name).await? else {
            return Err(not_there::<K>(name));
        };
        if expected.is_some_and(|expected| before.resource_version().as_deref() != Some(expected)) {
            return Err(Error::Moved(called()));
        }
        let mut after = before.clone();
        decide(&mut after)?;
        // Said only now: to some the object is not there at all, which is theirs to decide.
        if before.meta().deletion_timestamp.is_some() {
            return Err(Error::Conflict(format!("{} is being removed", called())));
        }
        if after == before {
            return Ok(before);
        }
        match api.replace(name, &writing(), &after).await {
            // Looking again tells a lost race from a removal.
            Err(lost) if is_code(&lost, 409) || is_code(&lost, 404) => {}
            written => return Ok(written?),
        }
    }
    Err(Error::Changed(called()))
}

fn not_there<K: Resource<DynamicType = ()>>(name: &str) -> Error {
    let kind = match &*K::kind(&()) {
        "User" => "user",
        "Workspace" => "workspace",
        _ => "object",
    };
    Error::NotFound { kind, name: name.to_owned() }
}

/// Whether one resourceVersion is at least another. They are numbers that grow within a kind.
pub(crate) fn at_least(seen: &str, written: &str) -> bool {
    match (seen.parse::<u64>(), written.parse::<u64>()) {
        (Ok(seen), Ok(written)) => seen >= written,
        _ => seen == written,
    }
}
