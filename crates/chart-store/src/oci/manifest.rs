//! Registry manifests of charts.

use serde::Deserialize;

use super::reference::OciReference;
use super::registry::RegistryError;
use crate::digest::Digest;

/// Accepted media types of manifests.
pub const ACCEPTED_MEDIA_TYPES: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Media type of charts pushed by Helm while registry support was experimental.
const LEGACY_CHART_MEDIA_TYPE: &str = "application/tar+gzip";

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
pub struct ChartLayer {
    pub digest: Digest,
    pub size: u64,
}

/// The layer with the chart's archive.
pub fn chart_layer(body: &[u8], reference: &OciReference) -> Result<ChartLayer, RegistryError> {
    let none = |why: &str| RegistryError::NoChart { at: reference.to_string(), why: why.to_owned() };
    let manifest: Manifest =
        serde_json::from_slice(body).map_err(|_| none("its manifest is not an image manifest"))?;
    if manifest.config.media_type != CONFIG_MEDIA_TYPE {
        return Err(none(&format!(
            "its media type is `{}`",
            domain::ids::truncate_for_error(&manifest.config.media_type)
        )));
    }
    let is_chart = |layer: &&Descriptor| {
        layer.media_type == CHART_MEDIA_TYPE || layer.media_type == LEGACY_CHART_MEDIA_TYPE
    };
    let mut charts = manifest.layers.iter().filter(is_chart);
    match (charts.next(), charts.next()) {
        (Some(layer), None) => {
            let digest = layer.digest.parse().map_err(|_| none("the digest of its archive is invalid"))?;
            Ok(ChartLayer { digest, size: layer.size })
        }
        (None, _) => Err(none("it contains no chart archive")),
        (Some(_), Some(_)) => Err(none("it contains more than one chart archive")),
    }
}
