//! Sample charts and indexes.

use std::fmt::Write;

use bytes::Bytes;
use chart_store::{Digest, LoadedChart};
use helm_chart::archive;
use helm_chart::{File, Loader};
use helm_template::profile::Profile;

/// Archive of a chart.
pub fn chart_archive(name: &str, version: &str) -> Bytes {
    archive_with_file(name, version, b"")
}

/// Archive of a chart with incompressible data of this size.
pub fn large_chart_archive(name: &str, version: &str, size: usize) -> Bytes {
    let mut state = 7_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    })
    .take(size)
    .collect();
    archive_with_file(name, version, &noise)
}

fn archive_with_file(name: &str, version: &str, noise: &[u8]) -> Bytes {
    let chart = format!(
        "apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: \"{version}\"\ntype: application\n"
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n";
    let files =
        [("Chart.yaml", chart.as_bytes()), ("templates/map.yaml", map.as_bytes()), ("noise.bin", noise)];
    let files = files.map(|(name, data)| File { name: name.into(), data: Bytes::copy_from_slice(data) });
    let chart = Loader::new(Profile::Helm4).load_files(files.into()).unwrap();
    archive::write(&chart, Profile::Helm4, 0).unwrap().into()
}

pub async fn load_chart(bytes: Bytes) -> LoadedChart {
    LoadedChart::load(bytes, Profile::Helm4).await.unwrap()
}

/// An index of these archives: name, version, URL, bytes.
pub fn repo_index(entries: &[(&str, &str, &str, &[u8])]) -> String {
    let mut text = "apiVersion: v1\ngenerated: \"2026-01-01T00:00:00Z\"\nentries:\n".to_owned();
    let mut names: Vec<_> = entries.iter().map(|entry| entry.0).collect();
    names.dedup();
    for name in names {
        writeln!(text, "  {name}:").unwrap();
        for (_, version, address, bytes) in entries.iter().filter(|entry| entry.0 == name) {
            let digest = Digest::sha256(bytes).hex();
            writeln!(text, "  - apiVersion: v2\n    name: {name}\n    version: {version}\n    digest: {digest}\n    urls:\n    - {address}").unwrap();
        }
    }
    text
}
