//! Keys and certificates of one cluster, in the directory `pki/` of its data.
//!
//! The first start creates all files at once: the directory appears complete or not at all. Later starts read it and renew only the two
//! leaf certificates, when they near their expiration or lack a name. The `kubeconfig` command reads the same files without a server. Keys
//! are P-256; files are readable by their owner only.
//!
//! Invariant: every private key matches its certificate; opening fails otherwise and names the file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SerialNumber,
};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::MASTERS;
use super::jwt::SigningKey;

const DAY_SECONDS: u64 = 24 * 60 * 60;
const CA_DAYS: u64 = 3650;
const LEAF_DAYS: u64 = 730;
/// A leaf certificate with less than this left is renewed at the next start.
const RENEW_DAYS: u64 = 365;

/// Names under which pods and local clients reach the server.
const SERVER_NAMES: [&str; 8] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
];

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot read `{}`", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write `{}`", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("`{}` is damaged: {why}", file.display())]
    Damaged { file: PathBuf, why: String },
    #[error("cannot make a certificate")]
    Generate(#[source] rcgen::Error),
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

type Result<T> = std::result::Result<T, PkiError>;

/// The opened directory.
pub struct Pki {
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
    server: LeafCertificate,
    admin: LeafCertificate,
    signing: Arc<SigningKey>,
}

/// A certificate and its key, as PEM.
struct LeafCertificate {
    certificate: String,
    key: String,
}

impl Pki {
    /// Opens `dir`, creating missing files. The server's certificate also covers `extra_names` (host names or addresses).
    pub fn open(dir: &Path, extra_names: &[String], now: Timestamp) -> Result<Self> {
        if !dir.exists() {
            create(dir, extra_names, now)?;
        }
        let (issuer, ca_pem) = read_issuer(dir)?;
        for (name, params) in [("server", server_params(extra_names)), ("admin", Ok(admin_params()))] {
            renew(dir, name, params.map_err(PkiError::Generate)?, &issuer, now)?;
        }
        Self::assemble(dir, issuer, ca_pem)
    }

    /// Creates keys and certificates in memory only.
    pub fn in_memory(extra_names: &[String], now: Timestamp) -> Result<Self> {
        let files = pems(extra_names, now)?;
        let text = |name: &str| {
            files.iter().find(|(file, _)| file == name).map(|(_, text)| text.clone()).unwrap_or_default()
        };
        let key = |name: &str| KeyPair::from_pem(&text(name)).map_err(PkiError::Generate);
        let leaf = |name: &str| LeafCertificate {
            certificate: text(&format!("{name}.crt")),
            key: text(&format!("{name}.key")),
        };
        let signing = SigningKey::from_pkcs8(key("sa.key")?.serialized_der())
            .ok_or_else(|| damaged(Path::new("sa.key"), "not a P-256 key"))?;
        let ca_pem = text("ca.crt");
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, key("ca.key")?).map_err(PkiError::Generate)?;
        Ok(Self { ca_pem, issuer, server: leaf("server"), admin: leaf("admin"), signing: Arc::new(signing) })
    }

    /// Reads the files of an earlier start; writes nothing.
    pub fn read(dir: &Path) -> Result<Self> {
        let (issuer, ca_pem) = read_issuer(dir)?;
        Self::assemble(dir, issuer, ca_pem)
    }

    fn assemble(dir: &Path, issuer: Issuer<'static, KeyPair>, ca_pem: String) -> Result<Self> {
        let leaf = |name: &str| -> Result<LeafCertificate> {
            let (certificate, key) = read_pair(dir, name)?;
            Ok(LeafCertificate { certificate, key: key.serialize_pem() })
        };
        let signing_file = dir.join("sa.key");
        let signing_key = read_key(&signing_file)?;
        let signing = SigningKey::from_pkcs8(signing_key.serialized_der())
            .ok_or_else(|| damaged(&signing_file, "not a P-256 key"))?;
        Ok(Self {
            ca_pem,
            issuer,
            server: leaf("server")?,
            admin: leaf("admin")?,
            signing: Arc::new(signing),
        })
    }

    /// The CA certificate as PEM, the content of `ca.crt`.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The CA, for signing.
    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// The signing key of `ServiceAccount` tokens.
    pub fn signing_key(&self) -> Arc<SigningKey> {
        self.signing.clone()
    }

    /// TLS configuration of the listener: client certificates of the CA are optional.
    pub fn server_config(&self) -> Result<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate_of(&self.ca_pem)?).map_err(PkiError::Tls)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))?;
        let key = PrivateKeyDer::from_pem_slice(self.server.key.as_bytes())
            .map_err(|error| damaged(Path::new("server.key"), error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(PkiError::Tls)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate_of(&self.server.certificate)?], key)
            .map_err(PkiError::Tls)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// The administrator's kubeconfig for a server at `url`.
    pub fn kubeconfig(&self, url: &str) -> String {
        let (ca, certificate, key) = (
            STANDARD.encode(&self.ca_pem),
            STANDARD.encode(&self.admin.certificate),
            STANDARD.encode(&self.admin.key),
        );
        // A JSON string is also a YAML string, so that the address cannot break out of its line.
        let url = serde_json::Value::from(url);
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: longshore\n\
             \x20 cluster: {{server: {url}, certificate-authority-data: {ca}}}\n\
             users:\n\
             - name: kubernetes-admin\n\
             \x20 user: {{client-certificate-data: {certificate}, client-key-data: {key}}}\n\
             contexts:\n\
             - name: longshore\n\
             \x20 context: {{cluster: longshore, user: kubernetes-admin}}\n\
             current-context: longshore\n"
        )
    }
}

fn damaged(file: &Path, why: impl std::fmt::Display) -> PkiError {
    PkiError::Damaged { file: file.to_owned(), why: why.to_string() }
}

fn certificate_of(pem: &str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| damaged(Path::new("certificate"), error))
}

/// Converts a timestamp to the type of the certificate library.
macro_rules! moment {
    ($at:expr) => {
        rcgen::date_time_ymd(1970, 1, 1)
            + Duration::from_secs(u64::try_from($at.as_second()).unwrap_or_default())
    };
}

/// Sets validity, with one hour before `now` for clocks that lag, and a random serial number.
pub(crate) fn set_validity(params: &mut CertificateParams, now: Timestamp, validity: Duration) {
    let seconds = now.as_second();
    let ends = seconds.saturating_add(i64::try_from(validity.as_secs()).unwrap_or(i64::MAX));
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    params.not_before = moment!(at(seconds.saturating_sub(60 * 60)));
    params.not_after = moment!(at(ends));
    let mut serial = *uuid::Uuid::new_v4().as_bytes();
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn server_params(extra_names: &[String]) -> std::result::Result<CertificateParams, rcgen::Error> {
    let mut names: Vec<String> = SERVER_NAMES.map(str::to_owned).to_vec();
    names.extend(extra_names.iter().filter(|name| !SERVER_NAMES.contains(&name.as_str())).cloned());
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = subject("kube-apiserver", None);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn admin_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("kubernetes-admin", Some(MASTERS));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Fills a temporary directory next to `dir` and renames it when it is complete.
fn create(dir: &Path, extra_names: &[String], now: Timestamp) -> Result<()> {
    let unfinished = dir.with_extension("new");
    let failed = |file: &Path| {
        let file = file.to_owned();
        move |source| PkiError::Write { file, source }
    };
    // Removes the incomplete directory of an interrupted start.
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&unfinished)(error)),
        _ => {}
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&unfinished).map_err(failed(&unfinished))?;

    for (name, text) in pems(extra_names, now)? {
        write(&unfinished.join(name), &text)?;
    }
    fs::rename(&unfinished, dir).map_err(failed(dir))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(failed(parent))
}

/// Creates the content of all files, by file name.
fn pems(extra_names: &[String], now: Timestamp) -> Result<Vec<(String, String)>> {
    let new_key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(PkiError::Generate);
    let ca_key = new_key()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("kubernetes", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, Duration::from_secs(CA_DAYS * DAY_SECONDS));
    let ca = params.self_signed(&ca_key).map_err(PkiError::Generate)?;
    let mut files = vec![
        ("ca.crt".to_owned(), ca.pem()),
        ("ca.key".to_owned(), ca_key.serialize_pem()),
        ("sa.key".to_owned(), new_key()?.serialize_pem()),
    ];
    let issuer = Issuer::new(params, ca_key);
    let leaves =
        [("server", server_params(extra_names).map_err(PkiError::Generate)?), ("admin", admin_params())];
    for (name, params) in leaves {
        let key = new_key()?;
        files.push((format!("{name}.crt"), signed(params, &key, &issuer, now)?));
        files.push((format!("{name}.key"), key.serialize_pem()));
    }
    Ok(files)
}

fn signed(
    mut params: CertificateParams,
    key: &KeyPair,
    issuer: &Issuer<'static, KeyPair>,
    now: Timestamp,
) -> Result<String> {
    set_validity(&mut params, now, Duration::from_secs(LEAF_DAYS * DAY_SECONDS));
    params.use_authority_key_identifier_extension = true;
    Ok(params.signed_by(key, issuer).map_err(PkiError::Generate)?.pem())
}

/// Renews a leaf certificate with the same key if it expires soon or lacks a name.
fn renew(
    dir: &Path,
    name: &str,
    params: CertificateParams,
    issuer: &Issuer<'static, KeyPair>,
    now: Timestamp,
) -> Result<()> {
    let (pem, key) = read_pair(dir, name)?;
    let file = dir.join(format!("{name}.crt"));
    let der = certificate_of(&pem)?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| damaged(&file, error))?;
    let enough = i64::try_from(RENEW_DAYS * DAY_SECONDS).unwrap_or(i64::MAX);
    let lasts = certificate.validity().not_after.timestamp() >= now.as_second().saturating_add(enough);
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let present: Vec<String> = alternatives
        .into_iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(format_name)
        .collect();
    let complete = params.subject_alt_names.iter().all(|name| {
        let wanted = match name {
            rcgen::SanType::DnsName(name) => name.as_str().to_owned(),
            rcgen::SanType::IpAddress(address) => address.to_string(),
            _ => return true,
        };
        present.contains(&wanted)
    });
    if lasts && complete {
        return Ok(());
    }
    let unfinished = file.with_extension("crt.new");
    // Removes the file of an interrupted start: files are only ever created, never overwritten.
    let _ = fs::remove_file(&unfinished);
    write(&unfinished, &signed(params, &key, issuer, now)?)?;
    fs::rename(&unfinished, &file).map_err(|source| PkiError::Write { file, source })
}

fn format_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| std::net::Ipv4Addr::from(b).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|b| std::net::Ipv6Addr::from(b).to_string()),
            _ => None,
        },
        _ => None,
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    let attempt = || -> io::Result<()> {
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()
    };
    attempt().map_err(|source| PkiError::Write { file: file.to_owned(), source })
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|source| PkiError::Read { file: file.to_owned(), source })
}

fn read_key(file: &Path) -> Result<KeyPair> {
    KeyPair::from_pem(&read(file)?).map_err(|error| damaged(file, error))
}

/// Reads the certificate `<name>.crt` and the key `<name>.key`, and checks that they match.
fn read_pair(dir: &Path, name: &str) -> Result<(String, KeyPair)> {
    let (certificate_file, key_file) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
    let pem = read(&certificate_file)?;
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| damaged(&certificate_file, e))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|e| damaged(&certificate_file, e))?;
    let key = read_key(&key_file)?;
    if certificate.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Err(damaged(&key_file, format!("it does not belong to {name}.crt")));
    }
    Ok((pem, key))
}

fn read_issuer(dir: &Path) -> Result<(Issuer<'static, KeyPair>, String)> {
    let (pem, key) = read_pair(dir, "ca")?;
    let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|error| damaged(&dir.join("ca.crt"), error))?;
    Ok((issuer, pem))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::authn::PeerCertificate;
    use super::*;

    fn test_now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn directory_is_created_once_and_reused() {
        let data = tempfile::tempdir().unwrap();
        let dir = data.path().join("pki");
        let first = Pki::open(&dir, &[], test_now()).unwrap();
        let again = Pki::open(&dir, &[], test_now()).unwrap();
        let only_read = Pki::read(&dir).unwrap();
        let url = "https://127.0.0.1:6443";
        assert_eq!(first.kubeconfig(url), again.kubeconfig(url));
        assert_eq!(first.kubeconfig(url), only_read.kubeconfig(url));
        assert_eq!(first.signing.key_set(), again.signing.key_set());
        first.server_config().unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in fs::read_dir(&dir).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }

        let admin = certificate_of(&first.admin.certificate).unwrap();
        let peer = PeerCertificate::from_der(&admin).unwrap();
        assert_eq!(
            (peer.user.name.as_str(), peer.user.groups.as_slice()),
            ("kubernetes-admin", &[MASTERS.to_owned()][..])
        );
        let config: serde_json::Value = serde_norway::from_str(&first.kubeconfig(url)).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], url);
    }

    #[test]
    fn certificate_is_renewed_with_same_key_for_new_name_or_near_expiry() {
        let data = tempfile::tempdir().unwrap();
        let dir = data.path().join("pki");
        let first = Pki::open(&dir, &[], test_now()).unwrap();
        let named = Pki::open(&dir, &["cluster.example".to_owned()], test_now()).unwrap();
        assert_ne!(first.server.certificate, named.server.certificate);
        assert_eq!(first.server.key, named.server.key);
        assert_eq!(first.admin.certificate, named.admin.certificate);
        let later = test_now() + jiff::SignedDuration::from_hours(24 * 400);
        let late = Pki::open(&dir, &["cluster.example".to_owned()], later).unwrap();
        assert_ne!(late.admin.certificate, named.admin.certificate);
        assert_eq!(late.ca_pem, first.ca_pem);
    }

    #[test]
    fn damaged_file_is_named_in_error() {
        let data = tempfile::tempdir().unwrap();
        let dir = data.path().join("pki");
        Pki::open(&dir, &[], test_now()).unwrap();
        let intact = fs::read(dir.join("admin.key")).unwrap();
        for (file, content) in [
            ("ca.crt", &b""[..]),
            ("server.crt", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            ("server.key", &intact),
            ("sa.key", b"\xff\xfe"),
        ] {
            let kept = fs::read(dir.join(file)).unwrap();
            fs::write(dir.join(file), content).unwrap();
            let error = Pki::open(&dir, &[], test_now()).err().unwrap().to_string();
            assert!(error.contains(file), "{file}: {error}");
            fs::write(dir.join(file), kept).unwrap();
        }
        fs::remove_file(dir.join("ca.key")).unwrap();
        assert!(Pki::read(&dir).err().unwrap().to_string().contains("ca.key"));
    }
}
