//! Projected volumes: several sources in one directory. No two may write the same file.

use crate::field::FieldError;
use crate::rules::check::{self, At};

use super::{path, volume};

const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const CERTIFICATE_PATHS: [&str; 3] = ["credentialBundlePath", "keyPath", "certificateChainPath"];

pub fn sources(projected: &At, errs: &mut Vec<FieldError>) {
    let mut taken: Vec<String> = Vec::new();
    let mut take = |path: &str, value: &str, errs: &mut Vec<FieldError>| {
        if path.is_empty() {
            return;
        }
        if taken.iter().any(|other| other == path) {
            errs.push(FieldError::invalid(&projected.path, value, "conflicting duplicate paths"));
        } else {
            taken.push(path.to_owned());
        }
    };
    for source in projected.get("sources").items() {
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let at = source.get(kind);
            if !at.exists() {
                continue;
            }
            kinds += 1;
            check::required(&at.get("name"), errs);
            for item in at.get("items").items() {
                volume::key_to_path(&item, errs);
                take(item.get("path").text(), at.get("name").text(), errs);
            }
        }
        let downward = source.get("downwardAPI");
        if downward.exists() {
            kinds += 1;
            for file in downward.get("items").items() {
                volume::downward_file(&file.named(downward.path.clone()), errs);
                take(file.get("path").text(), file.get("path").text(), errs);
            }
        }
        let token = source.get("serviceAccountToken");
        if token.exists() {
            kinds += 1;
            service_account_token(&token, projected, errs);
        }
        let bundle = source.get("clusterTrustBundle");
        if bundle.exists() {
            kinds += 1;
            trust_bundle(&bundle, errs);
            take(bundle.get("path").text(), bundle.get("path").text(), errs);
        }
        let certificate = source.get("podCertificate");
        if certificate.exists() {
            kinds += 1;
            pod_certificate(&certificate, errs);
            for name in CERTIFICATE_PATHS {
                let at = certificate.get(name);
                take(at.text(), at.text(), errs);
            }
        }
        if kinds > 1 {
            let words = "may not specify more than 1 volume type per source";
            errs.push(FieldError::forbidden(&source.path, words));
        }
    }
}

fn service_account_token(token: &At, projected: &At, errs: &mut Vec<FieldError>) {
    let expiration = token.get("expirationSeconds");
    if expiration.int() < 600 {
        let words = "may not specify a duration less than 10 minutes";
        errs.push(FieldError::invalid(&expiration.path, expiration.int(), words));
    }
    if expiration.int() > 1 << 32 {
        let words = "may not specify a duration larger than 2^32 seconds";
        errs.push(FieldError::invalid(&expiration.path, expiration.int(), words));
    }
    let path = token.get("path").named(projected.path.field("path"));
    check::required(&path, errs);
    path::not_reserved(&path, errs);
}

fn trust_bundle(bundle: &At, errs: &mut Vec<FieldError>) {
    let (name, signer, selector) =
        (bundle.get("name"), bundle.get("signerName"), bundle.get("labelSelector"));
    match (name.exists(), signer.exists()) {
        (true, true) => {
            let words = "only one of name and signerName may be used";
            errs.push(FieldError::invalid(&bundle.path, bundle.json(), words));
        }
        (true, false) => {
            if name.is_empty() {
                errs.push(FieldError::required(&name.path, "must be a valid object name"));
            }
            if !name.text().contains(':') {
                for words in check::dns_subdomain(name.text()) {
                    let words = format!("not a valid clustertrustbundlename: {words}");
                    errs.push(FieldError::invalid(&name.path, name.text(), words));
                }
            }
            if selector.exists() {
                let words = "labelSelector must be unset if name is specified";
                errs.push(FieldError::invalid(&selector.path, selector.json(), words));
            }
        }
        (false, true) => {
            if signer.is_empty() {
                errs.push(FieldError::required(&signer.path, "must be a valid signer name"));
            }
            signer_name(&signer, errs);
            check::label_selector(&selector, errs);
        }
        (false, false) => {
            errs.push(FieldError::required(&bundle.path, "either name or signerName must be specified"));
        }
    }
    check::required(&bundle.get("path"), errs);
    path::not_reserved(&bundle.get("path"), errs);
}

fn pod_certificate(certificate: &At, errs: &mut Vec<FieldError>) {
    signer_name(&certificate.get("signerName"), errs);
    check::one_of(&certificate.get("keyType"), KEY_TYPES, errs);
    let longest = certificate.get("maxExpirationSeconds");
    let most =
        if certificate.get("signerName").text().starts_with("kubernetes.io/") { 86_400 } else { 7_862_400 };
    if longest.number().is_some_and(|seconds| seconds < 3600) {
        let words = "if provided, maxExpirationSeconds must be >= 3600";
        errs.push(FieldError::invalid(&longest.path, longest.int(), words));
    }
    if longest.int() > most {
        let words = format!("if provided, maxExpirationSeconds must be <= {most}");
        errs.push(FieldError::invalid(&longest.path, longest.int(), words));
    }
    let paths = CERTIFICATE_PATHS.map(|name| certificate.get(name));
    if paths.iter().all(At::is_empty) {
        let words = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errs.push(FieldError::required(&certificate.path, words));
    }
    for at in paths.iter().filter(|at| !at.is_empty()) {
        path::not_reserved(at, errs);
    }
}

/// `example.com/signer-name`
fn signer_name(at: &At, errs: &mut Vec<FieldError>) {
    let parts: Vec<_> = at.text().split('/').collect();
    let [domain, name] = parts[..] else {
        let words = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errs.push(if at.is_empty() {
            FieldError::required(&at.path, "")
        } else {
            FieldError::invalid(&at.path, at.text(), words)
        });
        return;
    };
    let mut first_bad = |text: &str, judge: fn(&str) -> Vec<String>| {
        let bad = text.split('.').find(|label| !judge(label).is_empty());
        for words in bad.map(judge).unwrap_or_default() {
            let words = format!("validating label {:?}: {words}", bad.unwrap_or_default());
            errs.push(FieldError::invalid(&at.path, text, words));
        }
    };
    first_bad(domain, check::dns_label);
    first_bad(name, check::dns_subdomain);
    if !domain.contains('.') {
        let words = "should be a domain with at least two segments separated by dots";
        errs.push(FieldError::invalid(&at.path, domain, words));
    }
}
