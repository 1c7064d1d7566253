//! List responses, encoded item by item while they are sent.
//!
//! A short list is one document in memory. A longer one is encoded by a task, chunk by chunk, and is never complete in memory. The task
//! ends with the request, and when its client has read nothing for [`STALL_TIMEOUT`]; the body then ends with an error, so that no client
//! mistakes a truncated list for a complete one.
//!
//! A longer list references its objects weakly: versions that were changed or deleted since are still returned as long as the store's
//! history contains them; after that the body ends with an error. Memory therefore does not grow with the number of unread lists.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::stream;
use governor::work::{WorkError, WorkPool};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::Value;
use tokio::sync::mpsc;

use super::negotiate::Format;
use super::outgoing::{MAX_CHUNK_SIZE, STALL_TIMEOUT};
use super::respond::{Body, TruncatedBody, full, response};
use super::yaml;
use crate::schema::resources::Resource;
use crate::store::Object;
use crate::verbs::{
    MEMORY_EXPANSION, REQUEST_TIMEOUT, ServedObject, needs_conversion, served_object, served_value,
};

/// Encoding an object of this size takes longer than a millisecond and runs on the pool.
const POOL_OBJECT_SIZE: usize = 32 << 10;

/// Estimated size of a streamed response; an extension of the response.
#[derive(Clone, Copy)]
pub struct EstimatedBytes(pub u64);

/// How the items of a list are encoded.
pub enum ListItems {
    /// As stored; items of built-in kinds without `kind` and `apiVersion`.
    AsStored,
    /// Transformed by the function.
    Transformed(Box<dyn Fn(&Value) -> Value + Send + Sync>),
}

/// A list document without its items.
pub struct ListTemplate {
    /// The list with an empty array in the member `key`.
    pub document: Value,
    pub key: &'static str,
    pub items: ListItems,
}

/// Encoder of list items, usable from any thread.
struct ListEncoder {
    resource: Arc<Resource>,
    items: ListItems,
    format: Format,
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// The objects of a long list, in order. The store owns them.
struct ListedObjects(Vec<Weak<Object>>);

/// An object of a list was changed or deleted, and the store's history no longer has the listed version.
#[derive(Debug, thiserror::Error)]
#[error("an object of the list is no longer in the history of the store")]
struct Superseded;

impl ListedObjects {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, at: usize) -> Result<Arc<Object>, Superseded> {
        self.0[at].upgrade().ok_or(Superseded)
    }
}

impl ListEncoder {
    fn new(resource: Arc<Resource>, is_empty: bool, skeleton: ListTemplate, format: Format) -> Self {
        let ListTemplate { document, key, items } = skeleton;
        let (text, empty, open, close) = match format {
            Format::Json => (json_text(&document, key), format!("\"{key}\":[]"), format!("\"{key}\":["), "]"),
            Format::Yaml => {
                let empty = format!("{key}: []\n");
                (yaml::print(&document), empty, format!("{key}:\n"), "")
            }
        };
        // Quotes inside a string are escaped, and YAML lines inside a string are indented: the first match is the member.
        let at = match format {
            Format::Json => text.find(&empty),
            Format::Yaml if text.starts_with(&empty) => Some(0),
            Format::Yaml => text.find(&format!("\n{empty}")).map(|at| at + 1),
        };
        let at = at.expect("the skeleton has an empty list");
        let (head, rest) = text.split_at(at);
        let tail = &rest[empty.len()..];
        let end = if format == Format::Json && matches!(items, ListItems::AsStored) { "\n" } else { "" };
        let (head, tail) = match (format, is_empty) {
            (Format::Yaml, true) => (format!("{head}{empty}"), tail.to_owned()),
            _ => (format!("{head}{open}"), format!("{close}{tail}{end}")),
        };
        Self { resource, items, format, head: head.into_bytes(), tail: tail.into_bytes() }
    }

    /// Appends `object` as the item at index `at`.
    fn encode_item(&self, at: usize, object: &Object, out: &mut Vec<u8>) {
        let resource = &self.resource;
        if self.format == Format::Json && at > 0 {
            out.push(b',');
        }
        let value = match &self.items {
            ListItems::Transformed(make) => make(&served_value(resource, object)),
            ListItems::AsStored => {
                let value = match (served_object(resource, object), self.format) {
                    (ServedObject::Bytes(bytes), Format::Json) if resource.is_custom() => {
                        return out.extend_from_slice(&bytes);
                    }
                    (ServedObject::Bytes(_), Format::Json) => {
                        return object.untyped().iter().for_each(|part| out.extend_from_slice(part));
                    }
                    (ServedObject::Bytes(_), Format::Yaml) => served_value(resource, object),
                    (ServedObject::Value(value), _) => value,
                };
                if resource.is_custom() { value } else { untyped(value) }
            }
        };
        match self.format {
            Format::Json => serde_json::to_writer(out, &value).expect("a JSON value serialises into memory"),
            Format::Yaml => out.extend_from_slice(yaml::print(&Value::Array(vec![value])).as_bytes()),
        }
    }

    /// Whether the item is copied as stored instead of encoded.
    fn is_copied(&self, object: &Object) -> bool {
        let is_raw = matches!(self.items, ListItems::AsStored) && self.format == Format::Json;
        is_raw && !needs_conversion(&self.resource, object)
    }

    /// Appends items from `at` on until the chunk is full; returns the index of the next item.
    fn fill_chunk(
        &self,
        listed: &ListedObjects,
        mut at: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Superseded> {
        while at < listed.len() && out.len() < MAX_CHUNK_SIZE {
            self.encode_item(at, &*listed.get(at)?, out);
            at += 1;
        }
        Ok(at)
    }
}

/// Encodes a document as JSON with the member `key` last.
fn json_text(document: &Value, key: &str) -> String {
    let members = document.as_object().into_iter().flatten().filter(|(name, _)| *name != key);
    // The kind comes first, as in Kubernetes.
    let mut members: Vec<_> = members.collect();
    members.sort_by_key(|(name, _)| {
        ["kind", "apiVersion", "metadata"].iter().position(|known| known == name).unwrap_or(3)
    });
    let members = members.into_iter().map(|(name, value)| format!("{}:{value},", Value::from(name.as_str())));
    format!("{{{}\"{key}\":[]}}", members.collect::<String>())
}

/// Removes `kind` and `apiVersion`: items of built-in lists have none.
fn untyped(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    value
}

/// The pool on which a long list is encoded, and the flow that is charged.
pub struct EncodingPool {
    pub pool: WorkPool,
    pub flow: governor::Flow,
}

/// Total size of the stored objects of a list, in bytes.
fn total_bytes(objects: &[Arc<Object>]) -> usize {
    objects.iter().map(|object| object.bytes.len() + 1).sum()
}

/// Returns a list as a response.
pub fn respond(
    resource: Arc<Resource>,
    objects: Vec<Arc<Object>>,
    skeleton: ListTemplate,
    format: Format,
    workshop: EncodingPool,
) -> Response<Body> {
    let content_type = if format == Format::Json { "application/json" } else { "application/yaml" };
    let size = total_bytes(&objects);
    let is_short = size <= MAX_CHUNK_SIZE;
    let mut printer = ListEncoder::new(resource, objects.is_empty(), skeleton, format);
    let mut begun = std::mem::take(&mut printer.head);
    if is_short {
        for (at, object) in objects.iter().enumerate() {
            printer.encode_item(at, object, &mut begun);
        }
        begun.extend_from_slice(&printer.tail);
        return response(200, content_type, full(begun));
    }
    let listed = ListedObjects(objects.iter().map(Arc::downgrade).collect());
    drop(objects);
    let (sender, receiver) = mpsc::channel::<Result<Bytes, TruncatedBody>>(1);
    tokio::spawn(async move {
        if let Err(error) = encode_list(Arc::new(printer), Arc::new(listed), begun, workshop, &sender).await {
            tracing::debug!(%error, "a list could not be completed");
            let _ = sender.send_timeout(Err(TruncatedBody), STALL_TIMEOUT).await; // the client is gone, or learns that the list is truncated
        }
    });
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((chunk.map(Frame::data), receiver))
    });
    let mut response = response(200, content_type, StreamBody::new(frames).boxed_unsync());
    response.extensions_mut().insert(EstimatedBytes(size as u64));
    response
}

/// Why a list is incomplete.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Superseded(#[from] Superseded),
    #[error(transparent)]
    Work(#[from] WorkError),
}

/// Encodes a list into `sender` until it is complete, or the client no longer reads.
async fn encode_list(
    printer: Arc<ListEncoder>,
    listed: Arc<ListedObjects>,
    mut out: Vec<u8>,
    workshop: EncodingPool,
    sender: &mpsc::Sender<Result<Bytes, TruncatedBody>>,
) -> Result<(), ListError> {
    let mut at = 0;
    // Bytes of objects that were encoded since the task last yielded.
    let mut bytes_printed: usize = 0;
    while at < listed.len() {
        let object = listed.get(at)?;
        let bytes = object.bytes.len();
        let is_copied = printer.is_copied(&object);
        if is_copied || bytes < POOL_OBJECT_SIZE {
            // One object at a time, so that a large one that follows is detected.
            printer.encode_item(at, &object, &mut out);
            drop(object);
            at += 1;
            bytes_printed = bytes_printed.saturating_add(if is_copied { 0 } else { bytes });
            if bytes_printed < POOL_OBJECT_SIZE {
                tokio::task::consume_budget().await;
            } else {
                bytes_printed = 0;
                tokio::task::yield_now().await;
            }
        } else {
            drop(object);
            let (print, of, begun) = (printer.clone(), listed.clone(), std::mem::take(&mut out));
            let work = move |_: &governor::work::WorkContext| {
                let mut out = begun;
                print.fill_chunk(&of, at, &mut out).map(|next| (out, next))
            };
            let expanded = (bytes as u64).saturating_mul(MEMORY_EXPANSION);
            (out, at) = workshop.pool.run(workshop.flow, expanded, REQUEST_TIMEOUT, work).await??;
        }
        if out.len() >= MAX_CHUNK_SIZE
            && sender.send_timeout(Ok(std::mem::take(&mut out).into()), STALL_TIMEOUT).await.is_err()
        {
            return Ok(()); // the client no longer reads
        }
    }
    out.extend_from_slice(&printer.tail);
    let _ = sender.send_timeout(Ok(out.into()), STALL_TIMEOUT).await; // the client may have disconnected
    Ok(())
}
