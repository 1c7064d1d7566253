//! Reads the live state of objects.

use futures::FutureExt;
use serde_json::Value;

use crate::error::ObjectError;
use crate::object::{Object, ObjectId};
use crate::request;
use crate::target::{ResolvedObject, Target};

/// A desired object and its live state.
#[derive(Clone, PartialEq)]
pub struct LiveObject {
    pub id: ObjectId,
    /// The object as requested.
    pub object: Object,
    /// `None` if the object does not exist.
    pub value: Option<Value>,
}

/// Reads the live state of objects, in order. Objects of kinds that are not served and objects that the target leaves
/// alone count as missing.
pub async fn read_live(target: &Target, objects: &[Object]) -> Result<Vec<LiveObject>, ObjectError> {
    let mut placed = Vec::with_capacity(objects.len());
    for object in objects {
        let kind = target.discovery.find_any_version(object.api_version(), object.kind());
        let place = kind.map(|kind| target.with_kind(object, kind)).filter(|placed| !target.skips(placed));
        placed.push((object, place));
    }
    let looks = placed.into_iter().map(|(object, placed)| read_one(target, object, placed).boxed());
    request::run_all(looks.collect()).await.into_iter().collect()
}

async fn read_one(
    target: &Target,
    object: &Object,
    placed: Option<ResolvedObject>,
) -> Result<LiveObject, ObjectError> {
    let Some(placed) = placed else {
        return Ok(LiveObject { id: object.id(), object: object.clone(), value: None });
    };
    let id = placed.id();
    match request::get(target.client_for(&placed), &placed).await {
        Ok(value) => Ok(LiveObject { id, object: placed.object, value }),
        Err(error) => Err(ObjectError::from_api_error(&placed.object, id, &error)),
    }
}
