//! Parses the `CertificateSigningRequest` of a machine that joins. Pure: no I/O, no clock.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::der_parser::Oid;
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::token::JOIN_TOKENS_GROUP;

/// The signer of kubelets' client certificates.
pub(crate) const KUBELET_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of other client certificates, such as yurthub's.
pub(crate) const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The longest lifetime of a tenant node's certificate. It bounds a node's access after its account is closed.
pub(crate) const MAX_CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// Signers begin the validity a few minutes in the past.
const SIGNER_BACKDATE: SignedDuration = SignedDuration::from_mins(10);
/// The prefix of a node's user name.
const NODE_USER_PREFIX: &str = "system:node:";
/// The group of nodes.
const NODES_GROUP: &str = "system:nodes";
/// The organization in certificates of yurthub.
const YURTHUB_ORGANIZATION: &str = "openyurt:yurthub";

/// The programs of an edge node with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeProgram {
    Kubelet,
    /// OpenYurt's node proxy, yurthub.
    Yurthub,
}

impl NodeProgram {
    /// How the account's record names a granted request.
    pub fn record_entry(self, uid: &str) -> String {
        format!("{}{uid}", self.prefix())
    }

    pub fn prefix(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet/",
            Self::Yurthub => "yurthub/",
        }
    }
}

/// The parsed request, with the requester that Kubernetes recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeCsr {
    pub uid: String,
    pub user: String,
    pub groups: Vec<String>,
    pub signer: String,
    /// Sorted.
    pub usages: Vec<String>,
    pub created: Timestamp,
    /// `expirationSeconds`. Kubelets omit it, so that the signer's default applies.
    pub expiration_seconds: Option<i32>,
    /// The subject of the certificate. `None` if it cannot be parsed or its self-signature is invalid.
    pub subject: Option<CsrSubject>,
}

/// The subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CsrSubject {
    pub name: String,
    /// Sorted.
    pub organizations: Vec<String>,
    /// It contains further names: other attributes of the subject, or extensions.
    pub has_other_names: bool,
}

/// Whether the request is already decided.
pub(crate) fn is_decided(csr: &CertificateSigningRequest) -> bool {
    csr.status.as_ref().is_some_and(|status| {
        status.certificate.is_some()
            || status
                .conditions
                .iter()
                .flatten()
                .any(|said| matches!(said.type_.as_str(), "Approved" | "Denied" | "Failed"))
    })
}

/// Whether one of our join tokens created the request. Kubernetes writes the groups; the requester cannot.
pub(crate) fn is_from_join_token(csr: &CertificateSigningRequest) -> bool {
    csr.spec.groups.iter().flatten().any(|group| group == JOIN_TOKENS_GROUP)
}

/// The node that requests a renewal with its current certificate. Kubernetes writes the requester.
pub(crate) fn renewing_node(csr: &CertificateSigningRequest) -> Option<&str> {
    let spec = &csr.spec;
    let is_client = matches!(spec.signer_name.as_str(), KUBELET_SIGNER | CLIENT_SIGNER);
    let is_node = spec.groups.iter().flatten().any(|group| group == NODES_GROUP);
    spec.username.as_deref()?.strip_prefix(NODE_USER_PREFIX).filter(|_| is_client && is_node)
}

/// A certificate that is valid for longer than [`MAX_CERTIFICATE_LIFETIME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverlongCertificate {
    pub not_before: Timestamp,
    pub lifetime: SignedDuration,
}

/// The certificate that was signed for a request of ours, if it is valid for longer than [`MAX_CERTIFICATE_LIFETIME`].
pub(crate) fn overlong_certificate(csr: &CertificateSigningRequest) -> Option<OverlongCertificate> {
    if !is_from_join_token(csr) && renewing_node(csr).is_none() {
        return None;
    }
    let pem = &csr.status.as_ref()?.certificate.as_ref()?.0;
    let (_, block) = parse_x509_pem(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&block.contents).ok()?;
    let validity = certificate.validity();
    let since = Timestamp::from_second(validity.not_before.timestamp()).ok()?;
    let seconds = validity.not_after.timestamp().saturating_sub(validity.not_before.timestamp());
    let lifetime = SignedDuration::from_secs(seconds);
    (lifetime > MAX_CERTIFICATE_LIFETIME.saturating_add(SIGNER_BACKDATE))
        .then_some(OverlongCertificate { not_before: since, lifetime })
}

impl NodeCsr {
    pub fn from_csr(csr: &CertificateSigningRequest) -> Self {
        let spec = &csr.spec;
        let mut usages = spec.usages.clone().unwrap_or_default();
        usages.sort();
        Self {
            uid: csr.metadata.uid.clone().unwrap_or_default(),
            user: spec.username.clone().unwrap_or_default(),
            groups: spec.groups.clone().unwrap_or_default(),
            signer: spec.signer_name.clone(),
            usages,
            // A request without a time counts as too old.
            created: csr.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            expiration_seconds: spec.expiration_seconds,
            subject: CsrSubject::parse(&spec.request.0),
        }
    }

    /// Node and program that the certificate is for. The subject must be exactly the one that the program requests.
    pub fn node_and_program(&self, namespace: &str) -> Option<(&str, NodeProgram)> {
        let subject = self.subject.as_ref().filter(|subject| !subject.has_other_names)?;
        let name = subject.name.strip_prefix(NODE_USER_PREFIX).filter(|name| is_node_name(name))?;
        let tenant = format!("openyurt:tenant:{namespace}");
        let organizations: Vec<&str> = subject.organizations.iter().map(String::as_str).collect();
        let program = match self.signer.as_str() {
            KUBELET_SIGNER if organizations == [NODES_GROUP] => NodeProgram::Kubelet,
            // Sorted: `openyurt:tenant`, `openyurt:yurthub`, `system:nodes`.
            CLIENT_SIGNER if organizations == [tenant.as_str(), YURTHUB_ORGANIZATION, NODES_GROUP] => {
                NodeProgram::Yurthub
            }
            _ => return None,
        };
        Some((name, program))
    }

    /// Whether it requests at most [`MAX_CERTIFICATE_LIFETIME`], or no lifetime: then the signer's default applies, which
    /// `crate::controller::certificate_lifetime` checks.
    pub fn has_allowed_lifetime(&self) -> bool {
        self.expiration_seconds.is_none_or(|seconds| i64::from(seconds) <= MAX_CERTIFICATE_LIFETIME.as_secs())
    }

    /// Whether the usages are exactly the usages of a node's client certificate.
    pub fn has_client_usages(&self) -> bool {
        let usages: Vec<&str> = self.usages.iter().map(String::as_str).collect();
        matches!(
            usages.as_slice(),
            ["client auth", "digital signature"] | ["client auth", "digital signature", "key encipherment"]
        )
    }
}

impl CsrSubject {
    /// Parses a PEM certificate request and verifies its self-signature.
    fn parse(pem: &[u8]) -> Option<Self> {
        let (rest, block) = parse_x509_pem(pem).ok()?;
        let alone = block.label == "CERTIFICATE REQUEST" && rest.iter().all(u8::is_ascii_whitespace);
        let (_, request) = X509CertificationRequest::from_der(&block.contents).ok().filter(|_| alone)?;
        request.verify_signature().ok()?;
        let info = &request.certification_request_info;
        let texts = |oid: Oid<'static>| {
            let attributes = info.subject.iter_attributes().filter(|attribute| *attribute.attr_type() == oid);
            attributes.map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        let mut names = texts(OID_X509_COMMON_NAME)?;
        let mut organizations = texts(OID_X509_ORGANIZATION_NAME)?;
        organizations.sort();
        let known = names.len() + organizations.len();
        let extensions = info.iter_attributes().any(|attribute| {
            matches!(attribute.parsed_attribute(), ParsedCriAttribute::ExtensionRequest(asked) if !asked.extensions.is_empty())
        });
        let more = extensions || names.len() != 1 || info.subject.iter_attributes().count() != known;
        Some(Self { name: names.pop().unwrap_or_default(), organizations, has_other_names: more })
    }
}

/// Whether Kubernetes accepts the text as a node name.
fn is_node_name(name: &str) -> bool {
    let word = |word: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !word.is_empty() && word.bytes().all(plain) && !word.starts_with('-') && !word.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(word)
}

#[cfg(test)]
mod tests;
