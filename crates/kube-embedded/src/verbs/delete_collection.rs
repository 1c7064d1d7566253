//! `deletecollection`: deletes objects one by one, as if each were deleted by name.
//!
//! Each large object is deleted in a separate job on the pool, so that other jobs can run in between.

use governor::Flow;
use governor::work::WorkContext;

use super::selection::Selection;
use super::{DeletionOptions, REQUEST_TIMEOUT, ResourceRequest, ResourceResponse, delete, read};
use crate::error::{ApiError, Result};

pub async fn delete(call: &ResourceRequest) -> Result<ResourceResponse> {
    let options = delete::options(call)?;
    let selection = Selection::from_request(call)?;
    let page = read::list_page(call, &selection).await?;
    for object in &page.objects {
        let one = call.for_object(&object.namespace, &object.name);
        let size = object.bytes.len();
        // A call that runs on the pool already occupies a slot.
        let flow = call.flow.filter(|_| call.interrupt.is_none() && size > call.cluster.inline_bytes());
        let (removed, warnings) = match flow {
            Some(flow) => remove_on_pool(one, options.clone(), flow, size).await?,
            None => remove(&one, &options).await,
        };
        match removed {
            Ok(()) => {}
            // Already deleted, as requested.
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
        call.warn_all(warnings);
    }
    Ok(ResourceResponse::List(page))
}

/// Deletes one object; returns the result and the warnings.
async fn remove(call: &ResourceRequest, options: &DeletionOptions) -> (Result<()>, Vec<String>) {
    let removed = delete::remove(call, options).await.map(drop);
    (removed, std::mem::take(&mut *call.warnings.lock()))
}

async fn remove_on_pool(
    call: ResourceRequest,
    options: DeletionOptions,
    flow: Flow,
    size: usize,
) -> Result<(Result<()>, Vec<String>)> {
    let (cluster, runtime) = (call.cluster.clone(), tokio::runtime::Handle::current());
    let bytes = (size as u64).saturating_mul(super::MEMORY_EXPANSION);
    let work = move |ticket: &WorkContext| {
        let call = ResourceRequest { interrupt: Some(ticket.interrupt()), ..call };
        runtime.block_on(remove(&call, &options))
    };
    cluster.pool().run(flow, bytes, REQUEST_TIMEOUT, work).await.map_err(|error| ApiError::from_work(&error))
}
