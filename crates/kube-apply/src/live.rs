//! Reads the live state of objects.

use futures::FutureExt;
use serde_json::Value;

use crate::call;
use crate::error::Failure;
use crate::object::{Id, Object};
use crate::target::{Placed, Target};

/// A desired object and its live state.
#[derive(Clone, PartialEq)]
pub struct Live {
    pub id: Id,
    /// The object as requested.
    pub object: Object,
    /// `None` if the object does not exist.
    pub value: Option<Value>,
}

/// Reads the live state of objects, in order. Objects of kinds that are not served and objects that the target leaves
/// alone count as missing.
pub async fn live(target: &Target, objects: &[Object]) -> Result<Vec<Live>, Failure> {
    let mut placed = Vec::with_capacity(objects.len());
    for object in objects {
        let kind = target.discovery.in_any_version(object.api_version(), object.kind());
        let place = kind.map(|kind| target.put(object, kind)).filter(|placed| !target.leaves_alone(placed));
        placed.push((object, place));
    }
    let looks = placed.into_iter().map(|(object, placed)| look(target, object, placed).boxed());
    call::all(looks.collect()).await.into_iter().collect()
}

async fn look(target: &Target, object: &Object, placed: Option<Placed>) -> Result<Live, Failure> {
    let Some(placed) = placed else {
        return Ok(Live { id: object.id(), object: object.clone(), value: None });
    };
    let id = placed.id();
    match call::get(target.client_for(&placed), &placed).await {
        Ok(value) => Ok(Live { id, object: placed.object, value }),
        Err(error) => Err(Failure::of_cluster(&placed.object, id, &error)),
    }
}
