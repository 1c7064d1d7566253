//! Writes chart archives as `helm package` does: same entries, order and headers.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use helm_template::EncodeError;
use helm_template::go::quote;
use helm_template::json;
use helm_template::profile::Profile;

use super::tar::{BLOCK_SIZE, split_path};
use crate::chart::Chart;
use crate::metadata::InvalidMetadata;

/// Error of packing a chart.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("chart validation: {0}")]
    Metadata(#[from] InvalidMetadata),
    #[error("{} is not a valid chart name", quote(.0))]
    Name(String),
    #[error("{0} JSON in values.schema.json")]
    Schema(&'static str),
    #[error("the chart's file {} is too large for an archive", quote(.0))]
    TooLarge(String),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("cannot pack the chart: {0}")]
    Write(#[from] std::io::Error),
}

/// Marker that Helm puts into its archives.
const HELM_MARKER: &[u8] = b"aHR0cHM6Ly95b3V0dS5iZS96OVV6MWljandyTQo=";

/// Packs a chart with its dependencies. `modified` is the modification time of every entry, in seconds since 1970.
pub fn write(chart: &Chart, profile: Profile, modified: u64) -> Result<Vec<u8>, PackError> {
    chart.metadata.clone().validate(profile)?;
    let mark = match profile {
        Profile::Helm3 => [b"+", HELM_MARKER].concat(),
        // Since Helm 4 the marker is a well-formed extra field: id, length, content.
        Profile::Helm4 => [b"rr\x28\x00", HELM_MARKER].concat(),
    };
    let zip = GzBuilder::new()
        .extra(mark)
        .comment("Helm")
        .operating_system(255)
        .write(Vec::new(), Compression::new(6));
    let mut tar = TarWriter { gzip: zip, modified };
    write_chart(&mut tar, chart, "", profile)?;
    tar.gzip.write_all(&[0; 2 * BLOCK_SIZE])?;
    Ok(tar.gzip.finish()?)
}

fn write_chart(tar: &mut TarWriter, chart: &Chart, prefix: &str, profile: Profile) -> Result<(), PackError> {
    let metadata = &chart.metadata;
    if metadata.name.contains('/') || matches!(&*metadata.name, "" | "." | "..") {
        return Err(PackError::Name(metadata.name.to_string()));
    }
    let base = format!("{prefix}{}", metadata.name);
    let mut file = |name: &str, data: &[u8]| tar.append_file(&format!("{base}/{name}"), data);
    file("Chart.yaml", metadata.to_yaml()?.as_bytes())?;
    if let Some(lock) = &chart.lock
        && &*metadata.api_version == "v2"
    {
        file("Chart.lock", lock.to_yaml()?.as_bytes())?;
    }
    for values in chart.raw.iter().filter(|file| &*file.name == "values.yaml") {
        file("values.yaml", &values.data)?;
    }
    if let Some(schema) = &chart.schema {
        if !is_json(schema) {
            return Err(PackError::Schema(match profile {
                Profile::Helm3 => "Invalid",
                Profile::Helm4 => "invalid",
            }));
        }
        file("values.schema.json", schema)?;
    }
    for part in chart.templates.iter().chain(&chart.files) {
        file(&part.name, &part.data)?;
    }
    for dependency in &chart.dependencies {
        write_chart(tar, dependency, &format!("{base}/charts/"), profile)?;
    }
    Ok(())
}

fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| json::parse(text).is_ok())
}

struct TarWriter {
    gzip: flate2::write::GzEncoder<Vec<u8>>,
    modified: u64,
}

impl TarWriter {
    fn append_file(&mut self, name: &str, data: &[u8]) -> Result<(), PackError> {
        let (prefix, short) = match split_path(name) {
            Some(parts) => parts,
            None if name.len() <= 100 && name.is_ascii() => ("", name),
            None => {
                // The name fits neither field: it goes into an extended header.
                let record = pax_record("path", name);
                let (folder, base) = name.rsplit_once('/').unwrap_or(("", name));
                let long = ascii_name(&format!("{folder}/PaxHeaders.0/{base}"));
                let header =
                    HeaderBlock { kind: b'x', mode: 0, modified: 0, ..self.header(&long, "", record.len()) };
                self.append_entry(&header, &record)?;
                let short = ascii_name(name);
                return self.append_entry(&self.header(&short, "", data.len()), data);
            }
        };
        self.append_entry(&self.header(short, prefix, data.len()), data)
    }

    fn header<'a>(&self, name: &'a str, prefix: &'a str, size: usize) -> HeaderBlock<'a> {
        HeaderBlock { kind: b'0', name, link: "", prefix, mode: 0o644, size, modified: self.modified }
    }

    fn append_entry(&mut self, header: &HeaderBlock, data: &[u8]) -> Result<(), PackError> {
        let block = header.bytes().ok_or_else(|| PackError::TooLarge(header.name.to_owned()))?;
        self.gzip.write_all(&block)?;
        self.gzip.write_all(data)?;
        let padding = data.len().next_multiple_of(BLOCK_SIZE) - data.len();
        Ok(self.gzip.write_all(&[0; BLOCK_SIZE][..padding])?)
    }
}

/// A header before serialization.
pub(super) struct HeaderBlock<'a> {
    pub kind: u8,
    pub name: &'a str,
    pub link: &'a str,
    pub prefix: &'a str,
    pub mode: u64,
    pub size: usize,
    pub modified: u64,
}

impl HeaderBlock<'_> {
    /// Serializes the header. `None` if a number does not fit into its field.
    pub fn bytes(&self) -> Option<[u8; BLOCK_SIZE]> {
        let mut block = [0; BLOCK_SIZE];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name.as_bytes()[..self.name.len().min(100)]);
        put(100, &octal::<8>(self.mode)?);
        put(108, &octal::<8>(0)?);
        put(116, &octal::<8>(0)?);
        put(124, &octal::<12>(self.size as u64)?);
        put(136, &octal::<12>(self.modified)?);
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link.as_bytes()[..self.link.len().min(100)]);
        put(257, b"ustar\x0000");
        // Extended headers leave the device fields empty.
        if self.kind == b'0' {
            put(329, &octal::<8>(0)?);
            put(337, &octal::<8>(0)?);
        }
        put(345, self.prefix.as_bytes());
        let sum: u64 = block.iter().copied().map(u64::from).sum();
        // Six digits and a zero byte; the following space is already set.
        block[148..155].copy_from_slice(&octal::<7>(sum)?);
        Some(block)
    }
}

/// Octal digits with a trailing zero byte. `None` if the number does not fit.
fn octal<const LENGTH: usize>(number: u64) -> Option<[u8; LENGTH]> {
    let text = format!("{number:0width$o}\0", width = LENGTH - 1);
    text.as_bytes().try_into().ok()
}

/// `LENGTH KEY=VALUE\n`; the length includes itself.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let bare = key.len() + value.len() + " =\n".len();
    let mut length = bare;
    while length != bare + length.to_string().len() {
        length = bare + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

/// Short form of a name for readers that do not support extended headers.
fn ascii_name(name: &str) -> String {
    let mut name: String = name.chars().filter(char::is_ascii).collect();
    name.truncate(100);
    name.truncate(name.trim_end_matches('/').len());
    name
}
