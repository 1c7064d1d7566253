//! The chart inside a record, kept as JSON text.
//!
//! A record written by another client keeps all of its fields. All releases of one chart share one text and its
//! compressed form, so a further release costs no extra memory.
//!
//! Subcharts are not included: Helm does not write them.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use helm_chart::metadata::{Lock, MetadataDraft};
use helm_chart::{Chart, File};
use helm_template::EncodeError;
use helm_template::data::{Data, Members};
use helm_template::json::{self, JsonStyle};
use helm_template::profile::Profile;
use helm_template::value::Str;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::codec;
use super::wire::nothing;

/// Annotation of a chart in a record whose templates and files were left out.
pub const LEFT_OUT_ANNOTATION: &str = "longshore.dev/left-out";

/// A chart as stored in a record. Cheap to clone; clones share the text.
#[derive(Clone, Default)]
pub struct ChartRecord(Option<Arc<ChartRecordInner>>);

struct ChartRecordInner {
    /// The chart as JSON.
    text: Box<str>,
    /// `{"chart":`, the text and a comma, compressed as one member of a gzip stream.
    compressed: OnceLock<Bytes>,
    /// The same chart without templates and files.
    without_files: OnceLock<ChartRecord>,
}

/// Chart metadata that can be read without decoding the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ChartMetadata {
    #[serde(deserialize_with = "nothing")]
    pub name: String,
    #[serde(deserialize_with = "nothing")]
    pub version: String,
    #[serde(deserialize_with = "nothing")]
    pub app_version: String,
    #[serde(deserialize_with = "nothing")]
    pub api_version: String,
    #[serde(deserialize_with = "nothing")]
    pub description: String,
    #[serde(deserialize_with = "nothing")]
    pub icon: String,
    #[serde(deserialize_with = "nothing")]
    pub deprecated: bool,
    #[serde(deserialize_with = "nothing")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "nothing")]
    pub dependencies: Vec<DependencyMetadata>,
}

/// A dependency in the chart metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DependencyMetadata {
    #[serde(deserialize_with = "nothing")]
    pub name: String,
    #[serde(deserialize_with = "nothing")]
    pub version: String,
    #[serde(deserialize_with = "nothing")]
    pub repository: String,
}

/// Error of a malformed chart in a record.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error("cannot decode the chart in the record: {0}")]
    Json(String),
    #[error("the chart in the record is not valid: {0}")]
    Metadata(String),
}

impl ChartRecord {
    /// Serializes a chart as Helm does. `chart` must be processed for its dependencies: their conditions and imports
    /// change its metadata and values.
    pub fn new(chart: &Chart, profile: Profile) -> Result<Self, EncodeError> {
        let text = write(chart, profile)?;
        Ok(Self::from_text(text.into()))
    }

    fn from_text(text: Box<str>) -> Self {
        Self(Some(Arc::new(ChartRecordInner {
            text,
            compressed: OnceLock::new(),
            without_files: OnceLock::new(),
        })))
    }

    pub(super) fn from_raw(text: Option<&RawValue>) -> Self {
        match text.map(RawValue::get) {
            None | Some("null") => Self(None),
            Some(text) => Self::from_text(text.into()),
        }
    }

    /// The JSON text; `None` if the record has no chart.
    pub fn text(&self) -> Option<&str> {
        self.0.as_ref().map(|inner| &*inner.text)
    }

    /// Length of the text in bytes.
    pub fn text_len(&self) -> usize {
        self.text().map_or(0, str::len)
    }

    /// `{"chart":…,` compressed. Computed once.
    pub(super) fn compressed(&self) -> Option<Bytes> {
        let inner = self.0.as_ref()?;
        let pack = || codec::gzip(&[b"{\"chart\":", inner.text.as_bytes(), b","]).into();
        Some(inner.compressed.get_or_init(pack).clone())
    }

    /// The chart metadata; empty if the chart cannot be decoded.
    pub fn metadata(&self) -> ChartMetadata {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Top {
            #[serde(deserialize_with = "nothing")]
            metadata: ChartMetadata,
        }
        self.parse::<Top>().map(|top| top.metadata).unwrap_or_default()
    }

    /// The chart's `values.yaml` after dependency processing.
    pub fn values(&self) -> Result<Members, ChartError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Top<'t> {
            #[serde(borrow)]
            values: Option<&'t RawValue>,
        }
        parse_members(self.parse::<Top<'_>>()?.values)
    }

    /// Decodes the whole chart, without subcharts.
    pub fn chart(&self, profile: Profile) -> Result<Chart, ChartError> {
        let top: Top<'_> = self.parse()?;
        let mut draft = MetadataDraft::empty();
        let metadata = top.metadata.map_or("{}", RawValue::get);
        draft.add(metadata.as_bytes(), profile).map_err(|why| ChartError::Metadata(why.to_string()))?;
        let lock = top.lock.map_or("null", RawValue::get);
        Ok(Chart {
            metadata: draft.finish(profile).map_err(|why| ChartError::Metadata(why.to_string()))?,
            lock: Lock::parse(lock.as_bytes(), profile).map_err(|why| ChartError::Json(why.to_string()))?,
            values: parse_members(top.values)?,
            schema: top
                .schema
                .map(|text| decode_base64(&text))
                .transpose()?
                .filter(|schema| !schema.is_empty()),
            templates: decode_files(top.templates)?,
            files: decode_files(top.files)?,
            ..Chart::default()
        })
    }

    /// The chart without templates and files, annotated as such. Computed once.
    pub(crate) fn without_files(&self) -> Self {
        let Some(inner) = &self.0 else { return self.clone() };
        // A chart that cannot be decoded has no files to leave out.
        let less = || {
            json_without_files(&inner.text).map_or_else(|| self.clone(), |text| Self::from_text(text.into()))
        };
        inner.without_files.get_or_init(less).clone()
    }

    /// Whether templates and files were left out because the record was too large.
    pub fn is_partial(&self) -> bool {
        self.metadata().annotations.contains_key(LEFT_OUT_ANNOTATION)
    }

    fn parse<'t, T: Deserialize<'t> + Default>(&'t self) -> Result<T, ChartError> {
        let Some(text) = self.text() else { return Ok(T::default()) };
        serde_json::from_str(text).map_err(|error| ChartError::Json(error.to_string()))
    }
}

/// Removes templates and files from the JSON of a chart and adds the annotation.
fn json_without_files(text: &str) -> Option<String> {
    let mut top: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
    let mut metadata: Map<String, Value> = serde_json::from_str(top.get("metadata")?.get()).ok()?;
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    annotations.as_object_mut()?.insert(LEFT_OUT_ANNOTATION.into(), "templates,files".into());
    top.insert("metadata".into(), serde_json::value::to_raw_value(&metadata).ok()?);
    for key in ["templates", "files"] {
        top.insert(key.into(), RawValue::from_string("null".into()).ok()?);
    }
    serde_json::to_string(&top).ok()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Top<'t> {
    #[serde(borrow)]
    metadata: Option<&'t RawValue>,
    #[serde(borrow)]
    lock: Option<&'t RawValue>,
    templates: Option<Vec<Option<EncodedFile>>>,
    #[serde(borrow)]
    values: Option<&'t RawValue>,
    schema: Option<String>,
    files: Option<Vec<Option<EncodedFile>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EncodedFile {
    #[serde(deserialize_with = "nothing")]
    name: String,
    #[serde(deserialize_with = "nothing")]
    data: String,
}

fn parse_members(text: Option<&RawValue>) -> Result<Members, ChartError> {
    let Some(text) = text else { return Ok(Members::new()) };
    match json::parse(text.get()).map_err(|why| ChartError::Json(why.to_string()))? {
        Data::Map(members) => Ok(members),
        Data::Null => Ok(Members::new()),
        _ => Err(ChartError::Json("its values are not a map".into())),
    }
}

fn decode_files(packed: Option<Vec<Option<EncodedFile>>>) -> Result<Vec<File>, ChartError> {
    let packed = packed.into_iter().flatten().flatten();
    packed
        .map(|file| Ok(File { name: file.name.as_str().into(), data: decode_base64(&file.data)? }))
        .collect()
}

fn decode_base64(text: &str) -> Result<Bytes, ChartError> {
    let bytes = BASE64_STANDARD.decode(text);
    bytes.map(Bytes::from).map_err(|error| ChartError::Json(error.to_string()))
}

fn write(chart: &Chart, profile: Profile) -> Result<String, EncodeError> {
    let lock = chart.lock.as_ref().map_or(Data::Null, lock_data);
    let schema = chart.schema.as_ref().map_or(Data::Null, |schema| encode_base64(schema));
    let mut members = Members::from([
        ("metadata".into(), chart.metadata.to_data()),
        ("lock".into(), lock),
        ("templates".into(), file_list(&chart.templates)),
        ("values".into(), Data::Map(chart.values.clone())),
        ("schema".into(), schema),
        ("files".into(), file_list(&chart.files)),
    ]);
    if profile == Profile::Helm4 {
        // Helm 4 always writes this field; for charts without a schema it is Go's zero time.
        members.insert("schemamodtime".into(), Data::string("0001-01-01T00:00:00Z"));
    }
    json::write(&Data::Map(members), JsonStyle::Plain)
}

fn lock_data(lock: &Lock) -> Data {
    Data::Map(Members::from([
        ("generated".into(), Data::String(lock.generated.clone())),
        ("digest".into(), Data::String(lock.digest.clone())),
        (
            "dependencies".into(),
            Data::List(lock.dependencies.iter().map(helm_chart::metadata::Dependency::to_data).collect()),
        ),
    ]))
}

fn file_list(files: &[File]) -> Data {
    let one = |File { name, data }: &File| {
        Data::Map(Members::from([
            ("name".into(), Data::String(name.clone())),
            ("data".into(), encode_base64(data)),
        ]))
    };
    if files.is_empty() { Data::Null } else { Data::List(files.iter().map(one).collect()) }
}

fn encode_base64(bytes: &[u8]) -> Data {
    Data::String(Str::from(BASE64_STANDARD.encode(bytes)))
}

impl PartialEq for ChartRecord {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.text == b.text,
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Debug for ChartRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let head = self.metadata();
        write!(f, "{} {}", head.name, head.version)
    }
}
