//! Credentials of chart repositories.
//!
//! Secret values are in a Secret in the platform's namespace. The author of a `HelmRepo` chooses both the Secret's name and the URL that it
//! is sent to. Therefore only Secrets of the dedicated type are sent, and only to repositories of their own workspace.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube_types::HelmRepo;
use kube_types::well_known::{REPO_CREDENTIALS_TYPE, WORKSPACE, WORKSPACE_UID};
use outbound::access::ClientCertificate;
use outbound::{Access, HttpAuth, TlsTrust};

/// Keys of the Secret.
pub mod keys {
    pub const USERNAME: &str = "username";
    pub const PASSWORD: &str = "password";
    pub const TOKEN: &str = "token";
    pub const CA: &str = "ca.crt";
    pub const CERTIFICATE: &str = "tls.crt";
    pub const KEY: &str = "tls.key";
}

/// Why a Secret is refused. The message reveals neither its content nor whether a Secret of that name exists.
const SECRET_NOT_USABLE: &str =
    "the Secret in credentialRef does not exist or is not for repositories of this workspace";

/// The credentials of a repository. `secret` is the object that `credentialRef` names, if it exists.
pub fn resolve_access(repo: &HelmRepo, secret: Option<&Secret>) -> Result<Access, String> {
    let spec = &repo.spec;
    let secret = match (&spec.credential_ref, secret) {
        (None, _) => None,
        (Some(_), Some(secret)) if is_secret_for_repo(secret, repo) => Some(secret),
        (Some(_), _) => return Err(SECRET_NOT_USABLE.to_owned()),
    };
    let credential = |key: &str, inline: &str| -> Result<Option<String>, String> {
        let data = secret.and_then(|secret| secret.data.as_ref()?.get(key));
        let text =
            data.map(|data| String::from_utf8(data.0.clone()).map_err(|_| format!("`{key}` is not UTF-8")));
        Ok(text.transpose()?.or_else(|| Some(inline.to_owned())).filter(|text| !text.is_empty()))
    };
    let username = credential(keys::USERNAME, &spec.credential.username)?;
    // A trailing line break is not part of the value.
    let trimmed = |text: String| outbound::SecretString::new(text.trim_end_matches(['\r', '\n']));
    let login = match (credential(keys::TOKEN, "")?, username, credential(keys::PASSWORD, "")?) {
        (Some(token), _, _) => Some(HttpAuth::Bearer(trimmed(token))),
        (None, None, None) => None,
        (None, username, password) => Some(HttpAuth::Basic {
            username: username.unwrap_or_default().trim_end().to_owned(),
            password: trimmed(password.unwrap_or_default()),
        }),
    };
    let certificate = credential(keys::CERTIFICATE, &spec.credential.cert_file)?;
    let identity = match (certificate, credential(keys::KEY, "")?) {
        (Some(certificate), Some(key)) => {
            Some(ClientCertificate { certificate, key: outbound::SecretString::new(key) })
        }
        (None, None) => None,
        (Some(_), None) => {
            return Err(format!("a client certificate requires `{}` in the Secret", keys::KEY));
        }
        (None, Some(_)) => return Err("a client key requires a certificate".to_owned()),
    };
    let authorities = credential(keys::CA, &spec.credential.ca_file)?;
    let blindly = spec.credential.insecure_skip_tls_verify;
    Ok(Access {
        auth: login,
        trust: TlsTrust {
            authorities,
            include_system_roots: false,
            client_certificate: identity,
            insecure_skip_verify: blindly,
        },
    })
}

/// Whether a Secret is for repositories of this workspace: by its type, its workspace label and, if recorded, the workspace's UID.
fn is_secret_for_repo(secret: &Secret, repo: &HelmRepo) -> bool {
    let recorded = secret.annotations().get(WORKSPACE_UID);
    secret.type_.as_deref() == Some(REPO_CREDENTIALS_TYPE)
        && secret.labels().get(WORKSPACE).map_or("", String::as_str) == repo.spec.workspace
        && recorded.is_none_or(|uid| repo.annotations().get(WORKSPACE_UID) == Some(uid))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn repo(spec: &Value) -> HelmRepo {
        let mut whole = json!({"url": "https://charts.example"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        HelmRepo::new("r", serde_json::from_value(whole).unwrap())
    }

    fn secret(kind: &str, workspace: &str, data: &Value) -> Secret {
        let labels = if workspace.is_empty() { json!({}) } else { json!({WORKSPACE: workspace}) };
        let metadata = json!({"name": "s", "labels": labels});
        let mut secret: Secret = serde_json::from_value(json!({"metadata": metadata, "type": kind})).unwrap();
        let bytes = |value: &Value| k8s_openapi::ByteString(value.as_str().unwrap().as_bytes().to_vec());
        let data = data.as_object().unwrap().iter().map(|(key, value)| (key.clone(), bytes(value)));
        secret.data = Some(data.collect());
        secret
    }

    #[test]
    fn secret_of_other_workspace_or_type_is_refused() {
        let ours = json!({"workspace": "acme", "credentialRef": {"name": "s"}});
        let data = json!({"username": "me", "password": "canary"});
        for (kind, workspace, fits) in [
            (REPO_CREDENTIALS_TYPE, "acme", true),
            (REPO_CREDENTIALS_TYPE, "other", false),
            (REPO_CREDENTIALS_TYPE, "", false),
            ("Opaque", "acme", false),
            (kube_types::well_known::CREDENTIALS_TYPE, "acme", false),
        ] {
            let found = resolve_access(&repo(&ours), Some(&secret(kind, workspace, &data)));
            assert_eq!(found.is_ok(), fits, "{kind} {workspace}");
            assert!(!format!("{found:?}").contains("canary"));
        }
        assert!(
            resolve_access(&repo(&ours), None).is_err(),
            "nobody goes on without what was meant to be sent"
        );
        let stray = secret(REPO_CREDENTIALS_TYPE, "", &data);
        assert_eq!(
            resolve_access(&repo(&json!({})), Some(&stray)),
            Ok(Access::anonymous()),
            "it was not named"
        );
    }

    #[test]
    fn credentials_are_merged_from_spec_and_secret() {
        let public = json!({"credential": {"username": "me", "caFile": "-----BEGIN CERTIFICATE-----"}, "credentialRef": {"name": "s"}});
        let found = resolve_access(
            &repo(&public),
            Some(&secret(REPO_CREDENTIALS_TYPE, "", &json!({"password": "p\n"}))),
        )
        .unwrap();
        let password = outbound::SecretString::new("p");
        assert_eq!(found.auth, Some(HttpAuth::Basic { username: "me".to_owned(), password }));
        assert_eq!(found.trust.authorities.as_deref(), Some("-----BEGIN CERTIFICATE-----"));
        let half = json!({"credential": {"certFile": "-----BEGIN CERTIFICATE-----"}});
        assert_eq!(
            resolve_access(&repo(&half), None),
            Err("a client certificate requires `tls.key` in the Secret".to_owned())
        );
    }
}
