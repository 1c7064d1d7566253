//! Codec of records: base64 of gzip of JSON, as Helm stores them in a Secret.
//!
//! A gzip stream may consist of several members, which Go reads as one text. The chart is a member of its own,
//! compressed once for all records that contain it; the rest, which is small, is another member.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use helm_template::data::{Data, Members};
use helm_template::json::{self, JsonStyle};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::chart::ChartRecord;
use super::hook::HookRecord;
use super::wire::{self, nothing};
use super::{ApplyMethod, Record, RevisionInfo};

/// Maximum decompressed size of a record. Real records have some hundred kilobytes.
pub const MAX_UNPACKED: usize = 32 << 20;

/// Helm uses level 9, which takes twice the time to save 5 % of the bytes.
const COMPRESSION_LEVEL: Compression = Compression::new(6);

/// Magic number of gzip. Older records are not compressed.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Error of decoding a record.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("it is not base64")]
    Base64(#[source] base64::DecodeError),
    #[error("it cannot be decompressed")]
    Gzip(#[source] std::io::Error),
    #[error("it unpacks to more than {MAX_UNPACKED} bytes")]
    TooLarge,
    /// The parser's position only: its message could repeat values.
    #[error("it is not a release in JSON: line {line}, column {column}")]
    Json { line: usize, column: usize },
    #[error("its values are not a map")]
    Config,
}

/// The record cannot be written as JSON, for example because its values are nested too deeply.
#[derive(Debug, thiserror::Error)]
#[error("cannot encode the record: {0}")]
pub struct EncodeError(String);

/// Wire format of a record. The chart is only deserialized here; it is written as a separate gzip member.
#[derive(Serialize, Deserialize)]
struct RecordWire<'w> {
    #[serde(default, skip_serializing_if = "is_empty", deserialize_with = "nothing")]
    name: Cow<'w, str>,
    #[serde(default, deserialize_with = "nothing")]
    info: Cow<'w, RevisionInfo>,
    #[serde(borrow, default, skip_serializing)]
    chart: Option<&'w RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_empty", deserialize_with = "nothing")]
    manifest: Cow<'w, str>,
    #[serde(default, skip_serializing_if = "has_none", deserialize_with = "nothing")]
    hooks: Cow<'w, [HookRecord]>,
    #[serde(default, skip_serializing_if = "wire::is_zero", deserialize_with = "nothing")]
    version: i64,
    #[serde(default, skip_serializing_if = "is_empty", deserialize_with = "nothing")]
    namespace: Cow<'w, str>,
    #[serde(default, skip_serializing_if = "is_empty", deserialize_with = "nothing")]
    apply_method: Cow<'w, str>,
}

#[expect(clippy::ptr_arg, reason = "serde asks by reference")]
fn is_empty(text: &Cow<'_, str>) -> bool {
    text.is_empty()
}

#[expect(clippy::ptr_arg, reason = "serde asks by reference")]
fn has_none(hooks: &Cow<'_, [HookRecord]>) -> bool {
    hooks.is_empty()
}

impl Record {
    /// Encodes the record for its Secret.
    pub fn encode(&self) -> Result<String, EncodeError> {
        Ok(self.encode_measured()?.0)
    }

    /// Encodes the record for its Secret. Also returns the length of its JSON.
    pub(crate) fn encode_measured(&self) -> Result<(String, usize), EncodeError> {
        let rest = self.json_without_chart()?;
        let packed = match self.chart.compressed() {
            // The second member continues the JSON object, so its opening brace is dropped.
            Some(chart) => [&*chart, &gzip(&[&rest[1..]])].concat(),
            None => gzip(&[&rest]),
        };
        let chart = self.chart.text().map_or(0, |text| text.len().saturating_add("{\"chart\":".len()));
        Ok((BASE64_STANDARD.encode(packed), chart.saturating_add(rest.len())))
    }

    /// Approximate size of all texts, used to bound work on the whole record.
    pub fn bytes(&self) -> usize {
        let hooks = self.hooks.iter().map(|hook| hook.manifest.len());
        let config = self.config.iter().map(|(key, value)| data_bytes(value).saturating_add(key.len()));
        let texts = [self.manifest.len(), self.info.notes.len(), self.chart.text().map_or(0, str::len)];
        hooks.chain(config).chain(texts).fold(0, usize::saturating_add)
    }

    /// JSON of all fields except the chart.
    fn json_without_chart(&self) -> Result<Vec<u8>, EncodeError> {
        let config = (!self.config.is_empty()).then(|| raw_json(&self.config)).transpose()?;
        let wire = RecordWire {
            name: Cow::Borrowed(&self.name),
            info: Cow::Borrowed(&self.info),
            chart: None,
            config,
            manifest: Cow::Borrowed(&self.manifest),
            hooks: Cow::Borrowed(&self.hooks),
            version: self.version,
            namespace: Cow::Borrowed(&self.namespace),
            apply_method: Cow::Borrowed(self.apply_method.map_or("", ApplyMethod::as_str)),
        };
        serde_json::to_vec(&wire).map_err(|error| EncodeError(error.to_string()))
    }

    /// Decodes the content of a Secret, written by any Helm client. User labels are not part of it.
    pub fn decode(text: &[u8]) -> Result<Self, DecodeError> {
        let bytes = BASE64_STANDARD.decode(text).map_err(DecodeError::Base64)?;
        let json = if bytes.starts_with(&GZIP_MAGIC) { decompress(&bytes)? } else { bytes };
        Self::from_json(&json)
    }

    /// Decodes the JSON of a record.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let wire: RecordWire<'_> = serde_json::from_slice(json)
            .map_err(|error| DecodeError::Json { line: error.line(), column: error.column() })?;
        let config = match wire.config.as_deref().map(|text| json::parse(text.get())) {
            None | Some(Ok(Data::Null)) => Members::new(),
            Some(Ok(Data::Map(members))) => members,
            Some(Ok(_) | Err(_)) => return Err(DecodeError::Config),
        };
        Ok(Self {
            name: wire.name.into_owned(),
            namespace: wire.namespace.into_owned(),
            version: wire.version,
            info: wire.info.into_owned(),
            chart: ChartRecord::from_raw(wire.chart),
            config,
            manifest: wire.manifest.into_owned(),
            hooks: wire.hooks.into_owned(),
            labels: BTreeMap::new(),
            apply_method: ApplyMethod::parse(&wire.apply_method),
        })
    }

    /// The decoded JSON as Helm marshals it.
    pub fn to_json(&self) -> Result<String, EncodeError> {
        let rest =
            String::from_utf8(self.json_without_chart()?).map_err(|error| EncodeError(error.to_string()))?;
        Ok(match self.chart.text() {
            Some(chart) => format!("{{\"chart\":{chart},{}", &rest[1..]),
            None => rest,
        })
    }
}

fn data_bytes(data: &Data) -> usize {
    match data {
        Data::String(text) => text.len(),
        Data::List(items) => items.iter().map(data_bytes).fold(items.len(), usize::saturating_add),
        Data::Map(members) => members
            .iter()
            .map(|(key, value)| data_bytes(value).saturating_add(key.len()))
            .fold(members.len(), usize::saturating_add),
        _ => 1,
    }
}

/// Decompressed size of a record if below `limit`. For larger ones an estimate, without decompressing them.
pub(crate) fn decompressed_bytes(text: &[u8], limit: usize) -> usize {
    let about = text.len().saturating_mul(8).clamp(limit, MAX_UNPACKED);
    if text.len() >= limit {
        return about;
    }
    let Ok(bytes) = BASE64_STANDARD.decode(text) else { return text.len() };
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let unpacked = std::io::copy(&mut MultiGzDecoder::new(&bytes[..]).take(most), &mut std::io::sink());
    match unpacked.map(usize::try_from) {
        Ok(Ok(unpacked)) if unpacked < limit => unpacked,
        Ok(_) => about,
        // Invalid or not compressed; decoding reports which.
        Err(_) => bytes.len(),
    }
}

fn raw_json(members: &Members) -> Result<Box<RawValue>, EncodeError> {
    let text = json::write(&Data::Map(members.clone()), JsonStyle::Plain);
    let text = text.map_err(|error| EncodeError(error.to_string()))?;
    RawValue::from_string(text).map_err(|error| EncodeError(error.to_string()))
}

/// Compresses the concatenated pieces as one gzip member.
pub(crate) fn gzip(pieces: &[&[u8]]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), COMPRESSION_LEVEL);
    for piece in pieces {
        encoder.write_all(piece).expect("a vector takes whatever is written to it");
    }
    encoder.finish().expect("a vector takes whatever is written to it")
}

/// Decompresses a gzip stream of at most [`MAX_UNPACKED`] bytes.
pub(crate) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    const LIMIT: u64 = MAX_UNPACKED as u64 + 1;
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).take(LIMIT).read_to_end(&mut unpacked).map_err(DecodeError::Gzip)?;
    if unpacked.len() > MAX_UNPACKED { Err(DecodeError::TooLarge) } else { Ok(unpacked) }
}
