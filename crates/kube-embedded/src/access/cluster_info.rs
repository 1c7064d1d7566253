//! The ConfigMap `kube-public/cluster-info`, which a joining node reads before it has credentials.
//!
//! The ConfigMap contains the cluster's address and CA certificate, readable anonymously, and one signature for each bootstrap token. A
//! node with the token's secret verifies by it that the certificate belongs to the cluster. Server start writes the result of
//! [`cluster_info`], and the bootstrap token controller keeps it signed ([`sign`]).

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::text;

pub const NAMESPACE: &str = "kube-public";
pub const NAME: &str = "cluster-info";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const PREFIX: &str = "jws-kubeconfig-";

/// Builds the unsigned ConfigMap for a cluster at `url`.
pub fn cluster_info(url: &str, ca_pem: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "data": { "kubeconfig": kubeconfig(url, ca_pem) },
    })
}

/// Returns the ConfigMap with the address `url`; `None` if it has that address already or was edited by a user.
pub fn with_address(config_map: &Value, url: &str, ca_pem: &str) -> Option<Value> {
    let found = text(&config_map["data"], "kubeconfig");
    let read: Value = serde_norway::from_str(found).unwrap_or_default();
    let known = text(&read["clusters"][0]["cluster"], "server");
    let is_ours = found == kubeconfig(known, ca_pem);
    (is_ours && known != url).then(|| {
        let mut moved = config_map.clone();
        moved["data"]["kubeconfig"] = kubeconfig(url, ca_pem).into();
        moved
    })
}

/// Signs the kubeconfig in the ConfigMap with each bootstrap token in `secrets` that is enabled for signing, and removes other signatures.
pub fn sign(config_map: &mut Value, secrets: &[Value], now: Timestamp) {
    let Some(data) = config_map["data"].as_object_mut() else { return };
    let Some(kubeconfig) = data.get("kubeconfig").and_then(Value::as_str).map(str::to_owned) else { return };
    data.retain(|key, _| !key.starts_with(PREFIX));
    for (id, secret) in secrets.iter().filter_map(|secret| signing_token(secret, now)) {
        data.insert(format!("{PREFIX}{id}"), signature(&kubeconfig, &id, &secret).into());
    }
}

/// Returns the expiration of a bootstrap token; an unparsable time counts as expired.
pub fn expires_at(secret: &Value) -> Option<Timestamp> {
    let end = entry(secret, "expiration").filter(|end| !end.is_empty() && secret["type"] == TYPE)?;
    Some(end.parse().unwrap_or(Timestamp::MIN))
}

/// A kubeconfig without a user: readers bring their own credentials.
fn kubeconfig(url: &str, ca_pem: &str) -> String {
    let (ca, url) = (STANDARD.encode(ca_pem), Value::from(url));
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: \"\"\n\
         \x20 cluster: {{server: {url}, certificate-authority-data: {ca}}}\n"
    )
}

fn entry(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text(&secret["data"], key)).ok()?).ok()
}

/// Returns id and secret of a bootstrap token that may sign and has not expired.
fn signing_token(secret: &Value, now: Timestamp) -> Option<(String, String)> {
    let entry = |key: &str| entry(secret, key);
    let (id, value) = (entry("token-id")?, entry("token-secret")?);
    let expiration = entry("expiration").unwrap_or_default();
    let lasting = expiration.is_empty() || expiration.parse::<Timestamp>().is_ok_and(|end| now < end);
    let usable = secret["type"] == TYPE
        && entry("usage-bootstrap-signing").as_deref() == Some("true")
        && text(&secret["metadata"], "name") == format!("bootstrap-token-{id}")
        && !value.is_empty();
    (usable && lasting).then_some((id, value))
}

/// Returns a detached JWS, `header..signature`: the payload is the content of the ConfigMap.
fn signature(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "HS256", "kid": id }).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_kubeadm() {
        // From the test of `k8s.io/cluster-bootstrap/token/jws`.
        assert_eq!(
            signature(
                "Hello from the other side. I must have called a thousand times.",
                "joshua",
                "my voice is my passcode"
            ),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
        );
    }

    #[test]
    fn address_is_updated_unless_edited_by_a_user() {
        let old = cluster_info("https://127.0.0.1:6443", "CA");
        let moved = with_address(&old, "https://edge.example:6443", "CA").unwrap();
        assert_eq!(moved["data"], cluster_info("https://edge.example:6443", "CA")["data"]);
        assert_eq!(with_address(&moved, "https://edge.example:6443", "CA"), None);
        let mut by_hand = old;
        by_hand["data"]["kubeconfig"] = "clusters: [{cluster: {server: 'https://a'}}]".into();
        assert_eq!(with_address(&by_hand, "https://edge.example:6443", "CA"), None);
    }

    #[test]
    fn every_valid_token_signs() {
        let encode = |text: &str| STANDARD.encode(text);
        let secret = |id: &str, signing: &str, expiration: &str| {
            json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token",
                "data": {"token-id": encode(id), "token-secret": encode("0123456789abcdef"),
                    "usage-bootstrap-signing": encode(signing), "expiration": encode(expiration)}})
        };
        let secrets = [
            secret("aaaaaa", "true", ""),
            secret("bbbbbb", "false", ""),
            secret("cccccc", "true", "2026-01-01T00:00:00Z"),
            secret("dddddd", "true", "2027-01-01T00:00:00Z"),
        ];
        let now = "2026-06-01T00:00:00Z".parse().unwrap();
        let mut info = cluster_info("https://10.0.0.1:6443", "CA");
        info["data"]["jws-kubeconfig-gone00"] = "old".into();
        sign(&mut info, &secrets, now);
        let end = |at: &str| at.parse::<Timestamp>().ok();
        let ends: Vec<_> = secrets.iter().map(expires_at).collect();
        assert_eq!(ends, [None, None, end("2026-01-01T00:00:00Z"), end("2027-01-01T00:00:00Z")]);
        assert_eq!(super::expires_at(&secret("eeeeee", "true", "soon")), Some(Timestamp::MIN));
        let keys: Vec<&str> = info["data"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["jws-kubeconfig-aaaaaa", "jws-kubeconfig-dddddd", "kubeconfig"]);
        let config: Value = serde_norway::from_str(text(&info["data"], "kubeconfig")).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.0.0.1:6443");
    }
}
