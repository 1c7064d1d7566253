//! A small test registry: pushing and pulling charts, with two authentication methods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chart_store::Digest;
use http::{Request, Response};
use serde_json::json;

use crate::fake_server::{FakeServer, HttpResponse, LOGIN, response};

pub const TOKEN: &str = "Bearer a-token";

#[derive(Clone, Default)]
pub struct FakeRegistry {
    blobs: Arc<Mutex<HashMap<String, Bytes>>>,
    manifests: Arc<Mutex<HashMap<String, Bytes>>>,
}

/// Authentication of the registry.
#[derive(Clone, PartialEq, Eq)]
pub enum RegistryAuth {
    Open,
    Basic,
    /// Bearer token from the service at this URL.
    Token(String),
}

impl FakeRegistry {
    /// Adds a chart and returns the digest of its manifest.
    pub fn put(&self, path: &str, tag: &str, archive: &Bytes) -> Digest {
        self.put_with_media_type(
            path,
            tag,
            archive,
            "application/vnd.cncf.helm.config.v1+json",
            Digest::sha256(archive),
        )
    }

    pub fn put_with_media_type(
        &self,
        path: &str,
        tag: &str,
        archive: &Bytes,
        kind: &str,
        said: Digest,
    ) -> Digest {
        let config = Bytes::from_static(b"{}");
        let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        let manifest = json!({
            "schemaVersion": 2,
            "config": {"mediaType": kind, "digest": Digest::sha256(&config).to_string(), "size": config.len()},
            "layers": [{"mediaType": layer, "digest": said.to_string(), "size": archive.len()}],
        });
        let manifest = Bytes::from(manifest.to_string());
        let digest = Digest::sha256(&manifest);
        self.blobs.lock().unwrap().insert(said.to_string(), archive.clone());
        let mut manifests = self.manifests.lock().unwrap();
        manifests.insert(format!("{path}:{tag}"), manifest.clone());
        manifests.insert(format!("{path}:{digest}"), manifest);
        digest
    }

    /// Removes the blob of an archive whose manifest stays.
    pub fn remove_blob(&self, digest: &Digest) {
        self.blobs.lock().unwrap().remove(&digest.to_string());
    }

    pub async fn serve(&self, gate: RegistryAuth) -> FakeServer {
        let content = self.clone();
        FakeServer::new(move |request| content.respond(&gate, &request)).await
    }

    fn respond(&self, gate: &RegistryAuth, request: &Request<Bytes>) -> HttpResponse {
        let login = request.headers().get("authorization").map(|login| login.to_str().unwrap());
        let challenge = match gate {
            RegistryAuth::Open => None,
            RegistryAuth::Basic if login == Some(LOGIN) => None,
            RegistryAuth::Token(_) if login == Some(TOKEN) => None,
            RegistryAuth::Basic => Some("Basic realm=\"here\"".to_owned()),
            RegistryAuth::Token(realm) => {
                Some(format!("Bearer realm=\"{realm}\",service=\"here\",scope=\"repository:x:pull\""))
            }
        };
        if let Some(challenge) = challenge {
            return Response::builder()
                .status(401)
                .header("www-authenticate", challenge)
                .body(Bytes::new())
                .unwrap();
        }
        let path = request.uri().path();
        let Some(rest) = path.strip_prefix("/v2/") else { return response(404, "") };
        if rest.is_empty() {
            return response(200, "{}");
        }
        let method = request.method().as_str();
        if let Some((name, digest)) = rest.split_once("/blobs/") {
            return self.blob(method, name, digest, request);
        }
        if let Some((name, tag)) = rest.split_once("/manifests/") {
            return self.manifest(method, name, tag, request.body());
        }
        match rest.strip_suffix("/tags/list") {
            Some(name) => self.tags(name, request.uri().query()),
            None => response(404, ""),
        }
    }

    fn blob(&self, method: &str, name: &str, digest: &str, request: &Request<Bytes>) -> HttpResponse {
        let mut blobs = self.blobs.lock().unwrap();
        match method {
            "POST" => {
                let place = format!("/v2/{name}/blobs/uploads/1");
                Response::builder().status(202).header("location", place).body(Bytes::new()).unwrap()
            }
            "PUT" => {
                let digest = Digest::sha256(request.body()).to_string();
                blobs.insert(digest.clone(), request.body().clone());
                Response::builder()
                    .status(201)
                    .header("docker-content-digest", digest)
                    .body(Bytes::new())
                    .unwrap()
            }
            _ => blob_response(method, blobs.get(digest), "application/octet-stream"),
        }
    }

    fn manifest(&self, method: &str, name: &str, tag: &str, body: &Bytes) -> HttpResponse {
        let mut manifests = self.manifests.lock().unwrap();
        if method != "PUT" {
            return blob_response(
                method,
                manifests.get(&format!("{name}:{tag}")),
                "application/vnd.oci.image.manifest.v1+json",
            );
        }
        let digest = Digest::sha256(body).to_string();
        for name in [format!("{name}:{tag}"), format!("{name}:{digest}")] {
            manifests.insert(name, body.clone());
        }
        Response::builder().status(201).header("docker-content-digest", digest).body(Bytes::new()).unwrap()
    }

    /// Two tags per page.
    fn tags(&self, name: &str, query: Option<&str>) -> HttpResponse {
        let manifests = self.manifests.lock().unwrap();
        let tags = manifests.keys().filter_map(|key| key.strip_prefix(&format!("{name}:")));
        let mut tags: Vec<_> = tags.filter(|tag| !tag.starts_with("sha256:")).collect();
        tags.sort_unstable();
        let last = query.and_then(|query| query.strip_prefix("last=")).unwrap_or_default();
        tags.retain(|tag| *tag > last);
        let more = tags.len() > 2;
        tags.truncate(2);
        let mut response = Response::builder();
        if more {
            response =
                response.header("link", format!("</v2/{name}/tags/list?last={}>; rel=\"next\"", tags[1]));
        }
        response.body(json!({"name": name, "tags": tags}).to_string().into()).unwrap()
    }
}

fn blob_response(method: &str, body: Option<&Bytes>, kind: &str) -> HttpResponse {
    let Some(body) = body else { return response(404, "") };
    let response = Response::builder()
        .header("content-type", kind)
        .header("content-length", body.len())
        .header("docker-content-digest", Digest::sha256(body).to_string());
    response.body(if method == "HEAD" { Bytes::new() } else { body.clone() }).unwrap()
}
