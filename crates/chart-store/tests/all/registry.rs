//! A small test registry: pushing and pulling charts, with two authentication methods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chart_store::Digest;
use http::{Request, Response};
use serde_json::json;

use crate::served::{Answer, LOGIN, Served, answer};

pub const TOKEN: &str = "Bearer a-token";

#[derive(Clone, Default)]
pub struct Content {
    blobs: Arc<Mutex<HashMap<String, Bytes>>>,
    manifests: Arc<Mutex<HashMap<String, Bytes>>>,
}

/// Authentication of the registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Gate {
    Open,
    Basic,
    /// Bearer token from the service at this URL.
    Token(String),
}

impl Content {
    /// Adds a chart and returns the digest of its manifest.
    pub fn put(&self, path: &str, tag: &str, archive: &Bytes) -> Digest {
        self.put_as(path, tag, archive, "application/vnd.cncf.helm.config.v1+json", Digest::of(archive))
    }

    pub fn put_as(&self, path: &str, tag: &str, archive: &Bytes, kind: &str, said: Digest) -> Digest {
        let config = Bytes::from_static(b"{}");
        let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        let manifest = json!({
            "schemaVersion": 2,
            "config": {"mediaType": kind, "digest": Digest::of(&config).to_string(), "size": config.len()},
            "layers": [{"mediaType": layer, "digest": said.to_string(), "size": archive.len()}],
        });
        let manifest = Bytes::from(manifest.to_string());
        let digest = Digest::of(&manifest);
        self.blobs.lock().unwrap().insert(said.to_string(), archive.clone());
        let mut manifests = self.manifests.lock().unwrap();
        manifests.insert(format!("{path}:{tag}"), manifest.clone());
        manifests.insert(format!("{path}:{digest}"), manifest);
        digest
    }

    /// Removes the blob of an archive whose manifest stays.
    pub fn forget(&self, digest: &Digest) {
        self.blobs.lock().unwrap().remove(&digest.to_string());
    }

    pub async fn serve(&self, gate: Gate) -> Served {
        let content = self.clone();
        Served::new(move |request| content.answer(&gate, &request)).await
    }

    fn answer(&self, gate: &Gate, request: &Request<Bytes>) -> Answer {
        let login = request.headers().get("authorization").map(|login| login.to_str().unwrap());
        let challenge = match gate {
            Gate::Open => None,
            Gate::Basic if login == Some(LOGIN) => None,
            Gate::Token(_) if login == Some(TOKEN) => None,
            Gate::Basic => Some("Basic realm=\"here\"".to_owned()),
            Gate::Token(realm) => {
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
        let Some(rest) = path.strip_prefix("/v2/") else { return answer(404, "") };
        if rest.is_empty() {
            return answer(200, "{}");
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
            None => answer(404, ""),
        }
    }

    fn blob(&self, method: &str, name: &str, digest: &str, request: &Request<Bytes>) -> Answer {
        let mut blobs = self.blobs.lock().unwrap();
        match method {
            "POST" => {
                let place = format!("/v2/{name}/blobs/uploads/1");
                Response::builder().status(202).header("location", place).body(Bytes::new()).unwrap()
            }
            "PUT" => {
                let digest = Digest::of(request.body()).to_string();
                blobs.insert(digest.clone(), request.body().clone());
                Response::builder()
                    .status(201)
                    .header("docker-content-digest", digest)
                    .body(Bytes::new())
                    .unwrap()
            }
            _ => found(method, blobs.get(digest), "application/octet-stream"),
        }
    }

    fn manifest(&self, method: &str, name: &str, tag: &str, body: &Bytes) -> Answer {
        let mut manifests = self.manifests.lock().unwrap();
        if method != "PUT" {
            return found(
                method,
                manifests.get(&format!("{name}:{tag}")),
                "application/vnd.oci.image.manifest.v1+json",
            );
        }
        let digest = Digest::of(body).to_string();
        for name in [format!("{name}:{tag}"), format!("{name}:{digest}")] {
            manifests.insert(name, body.clone());
        }
        Response::builder().status(201).header("docker-content-digest", digest).body(Bytes::new()).unwrap()
    }

    /// Two tags per page.
    fn tags(&self, name: &str, query: Option<&str>) -> Answer {
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

fn found(method: &str, body: Option<&Bytes>, kind: &str) -> Answer {
    let Some(body) = body else { return answer(404, "") };
    let response = Response::builder()
        .header("content-type", kind)
        .header("content-length", body.len())
        .header("docker-content-digest", Digest::of(body).to_string());
    response.body(if method == "HEAD" { Bytes::new() } else { body.clone() }).unwrap()
}
