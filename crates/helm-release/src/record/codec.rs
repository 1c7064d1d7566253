//! From a record to the text in its Secret and back: base64 of gzip of JSON, as Helm's.
//!
//! A gzip stream may have members one after the other, and Go reads them as one text. The chart is a member of its own,
//! compressed once for all the records that hold it; the rest, which is small, is another.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use helm_template::data::{Data, Members};
use helm_template::json::{self, Style};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::chart::ChartRecord;
use super::hook::HookRecord;
use super::wire::{self, nothing};
use super::{ApplyMethod, Info, Record};

/// How large a record may be that is unpacked. Real ones have some hundred kilobytes.
pub const MAX_UNPACKED: usize = 32 << 20;

/// Helm asks for the best (9), which takes twice the time and saves a twentieth of the bytes.
const LEVEL: Compression = Compression::new(6);

/// A gzip stream begins so; older records are not compressed.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Why a text is no record.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("it is not base64")]
    Base64(#[source] base64::DecodeError),
    #[error("it cannot be unpacked")]
    Gzip(#[source] std::io::Error),
    #[error("it unpacks to more than {MAX_UNPACKED} bytes")]
    TooLarge,
    /// In the words of the parser, which tell the place and no values.
    #[error("it is no JSON of a release: line {line}, column {column}")]
    Json { line: usize, column: usize },
    #[error("its values are no map")]
    Config,
}

/// What no JSON can say, such as values that are nested without end.
#[derive(Debug, thiserror::Error)]
#[error("the record cannot be written: {0}")]
pub struct EncodeError(String);

/// All of a record; the chart is read only, because it is written beside the rest.
#[derive(Serialize, Deserialize)]
struct Wire<'w> {
    #[serde(default, skip_serializing_if = "is_empty", deserialize_with = "nothing")]
    name: Cow<'w, str>,
    #[serde(default, deserialize_with = "nothing")]
    info: Cow<'w, Info>,
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
    /// The text that stands in the Secret.
    pub fn encode(&self) -> Result<String, EncodeError> {
        Ok(self.encode_measured()?.0)
    }

    /// The text that stands in the Secret, and how long its JSON is.
    pub(crate) fn encode_measured(&self) -> Result<(String, usize), EncodeError> {
        let rest = self.rest()?;
        let packed = match self.chart.packed() {
            // The rest goes on where the chart ends: without the brace that opens it.
            Some(chart) => [&*chart, &gzip(&[&rest[1..]])].concat(),
            None => gzip(&[&rest]),
        };
        let chart = self.chart.text().map_or(0, |text| text.len().saturating_add("{\"chart\":".len()));
        Ok((BASE64_STANDARD.encode(packed), chart.saturating_add(rest.len())))
    }

    /// About how many bytes of text it has, for whoever works on all of it.
    pub fn bytes(&self) -> usize {
        let hooks = self.hooks.iter().map(|hook| hook.manifest.len());
        let config = self.config.iter().map(|(key, value)| data_bytes(value).saturating_add(key.len()));
        let texts = [self.manifest.len(), self.info.notes.len(), self.chart.text().map_or(0, str::len)];
        hooks.chain(config).chain(texts).fold(0, usize::saturating_add)
    }

    /// All but the chart, as JSON.
    fn rest(&self) -> Result<Vec<u8>, EncodeError> {
        let config = (!self.config.is_empty()).then(|| raw(&self.config)).transpose()?;
        let wire = Wire {
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

    /// What stands in a Secret, whoever wrote it. The labels are not in it.
    pub fn decode(text: &[u8]) -> Result<Self, DecodeError> {
        let bytes = BASE64_STANDARD.decode(text).map_err(DecodeError::Base64)?;
        let json = if bytes.starts_with(&MAGIC) { unpack(&bytes)? } else { bytes };
        Self::of_json(&json)
    }

    /// The JSON inside of it all.
    pub fn of_json(json: &[u8]) -> Result<Self, DecodeError> {
        let wire: Wire<'_> = serde_json::from_slice(json)
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
            chart: ChartRecord::of_raw(wire.chart),
            config,
            manifest: wire.manifest.into_owned(),
            hooks: wire.hooks.into_owned(),
            labels: BTreeMap::new(),
            apply_method: ApplyMethod::read(&wire.apply_method),
        })
    }

    /// As Helm would marshal it: what is in the Secret, in clear.
    pub fn to_json(&self) -> Result<String, EncodeError> {
        let rest = String::from_utf8(self.rest()?).map_err(|error| EncodeError(error.to_string()))?;
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

/// How many bytes a record unpacks to, where it is fewer than `limit`; of a larger one about how many, without unpacking it.
pub(crate) fn unpacked_bytes(text: &[u8], limit: usize) -> usize {
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
        // It is refused, or it is not packed.
        Err(_) => bytes.len(),
    }
}

fn raw(members: &Members) -> Result<Box<RawValue>, EncodeError> {
    let text = json::write(&Data::Map(members.clone()), Style::Plain);
    let text = text.map_err(|error| EncodeError(error.to_string()))?;
    RawValue::from_string(text).map_err(|error| EncodeError(error.to_string()))
}

/// The pieces, one after the other, as one member of a gzip stream.
pub(crate) fn gzip(pieces: &[&[u8]]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), LEVEL);
    for piece in pieces {
        encoder.write_all(piece).expect("a vector takes whatever is written to it");
    }
    encoder.finish().expect("a vector takes whatever is written to it")
}

/// What is in a gzip stream, up to [`MAX_UNPACKED`].
pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    const LIMIT: u64 = MAX_UNPACKED as u64 + 1;
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).take(LIMIT).read_to_end(&mut unpacked).map_err(DecodeError::Gzip)?;
    if unpacked.len() > MAX_UNPACKED { Err(DecodeError::TooLarge) } else { Ok(unpacked) }
}
