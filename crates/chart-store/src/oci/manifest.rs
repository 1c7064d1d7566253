//! Registry manifests of charts.

use serde::Deserialize;

use super::reference::Reference;
use super::registry::RegistryError;
use crate::digest::Digest;

/// Accepted media types of manifests.
pub const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Media type of charts pushed by Helm while registry support was experimental.
const OLD_CHART: &str = "application/tar+gzip";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// Digest and size of a chart's archive, as the manifest declares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    pub digest: Digest,
    pub size: u64,
}

/// The layer with the chart's archive.
pub fn chart(body: &[u8], reference: &Reference) -> Result<Layer, RegistryError> {
    let none = |why: &str| RegistryError::NoChart { at: reference.to_string(), why: why.to_owned() };
    let manifest: Manifest =
        serde_json::from_slice(body).map_err(|_| none("its manifest is none of an image"))?;
    if manifest.config.media_type != CONFIG {
        return Err(none(&format!(
            "it is of the kind `{}`",
            domain::ids::shortened(&manifest.config.media_type)
        )));
    }
    let is_chart = |layer: &&Descriptor| layer.media_type == CHART || layer.media_type == OLD_CHART;
    let mut charts = manifest.layers.iter().filter(is_chart);
    match (charts.next(), charts.next()) {
        (Some(layer), None) => {
            let digest = layer.digest.parse().map_err(|_| none("the digest of its archive is none"))?;
            Ok(Layer { digest, size: layer.size })
        }
        (None, _) => Err(none("it has no archive of a chart in it")),
        (Some(_), Some(_)) => Err(none("it has more than one archive of a chart in it")),
    }
}
