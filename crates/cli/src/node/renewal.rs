//! Renewal of the node's certificate, with a new key.
//!
//! A state machine of non-blocking steps, one per heartbeat. The pending request is stored in the folder, so that
//! renewal resumes after a crash. The current certificate is used until the next one is issued.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;

use super::NodeError;
use super::certificate::{self, CertificateError};
use super::clients;
use super::join::{JoinedNode, cluster_error};
use super::state_dir::{KeyAndRequest, NodeIdentity, StateDir};

/// Thousandths of a certificate's lifetime after which it is renewed, and the spread, as in the kubelet.
const RENEW_AFTER_PERMILLE: i64 = 700;
const RENEW_SPREAD_PERMILLE: i64 = 200;

/// Time of renewal. It depends on the machine, so that nodes that joined together do not renew together.
pub(super) fn renewal_time(begin: Timestamp, end: Timestamp, machine: &str) -> Timestamp {
    let seed = machine.get(..4).and_then(|digits| i64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    let share = RENEW_AFTER_PERMILLE + seed % (RENEW_SPREAD_PERMILLE + 1);
    let after = SignedDuration::from_secs(end.duration_since(begin).as_secs() * share / 1000);
    begin.saturating_add(after).unwrap_or(end)
}

/// Time of the next attempt after a refusal: a tenth of the remaining lifetime, so that attempts become more frequent.
pub(super) fn retry_time(now: Timestamp, end: Timestamp) -> Timestamp {
    now.saturating_add(end.duration_since(now).max(SignedDuration::ZERO) / 10).unwrap_or(end)
}

/// State of the renewal of a node's certificate.
pub(super) struct Renewal<'a> {
    folder: &'a StateDir,
    /// Requested lifetime.
    lifetime_seconds: Option<i32>,
    end: Timestamp,
    /// Time of the next step.
    pub next_step_at: Timestamp,
}

impl<'a> Renewal<'a> {
    pub fn new(
        folder: &'a StateDir,
        identity: &NodeIdentity,
        seconds: Option<i32>,
    ) -> Result<Self, NodeError> {
        let machine = &folder.machine;
        let (begin, end) = certificate::verify(&identity.certificate, &identity.key, &machine.name)?;
        Ok(Self {
            folder,
            lifetime_seconds: seconds,
            end,
            next_step_at: renewal_time(begin, end, &machine.id),
        })
    }

    /// Performs the next step when it is due. Switches to the next certificate once it is issued.
    pub async fn step(&mut self, joined: &mut JoinedNode) -> Result<(), NodeError> {
        let now = joined.clock.now();
        if now < self.next_step_at {
            return Ok(());
        }
        let pending = self
            .folder
            .load_or_create_next_request(|| certificate::generate_request(&self.folder.machine.name))?;
        match self.next_certificate(joined, &pending, now).await {
            Ok(None) => Ok(()),
            Ok(Some(certificate)) => self.switch_to(joined, &certificate),
            // A decided CSR stays decided, so the next attempt creates a new one.
            Err(failure @ NodeError::Certificate(_)) => {
                self.folder.remove_next_request()?;
                self.next_step_at = retry_time(now, self.end);
                Err(failure)
            }
            Err(other) => Err(other),
        }
    }

    /// Returns the next certificate if it was issued and matches the request.
    async fn next_certificate(
        &self,
        joined: &JoinedNode,
        asked: &KeyAndRequest,
        now: Timestamp,
    ) -> Result<Option<Vec<u8>>, NodeError> {
        let csrs: Api<CertificateSigningRequest> = Api::all(joined.client.clone());
        let refusal = |error| cluster_error("request the node's next certificate", error);
        let csr = certificate::create_or_get_csr(&csrs, asked, self.lifetime_seconds, refusal).await?;
        if !certificate::is_decided(&csr) {
            return Ok(None);
        }
        let certificate = certificate::extract_certificate(&csr)?;
        let (_, end) = certificate::verify(&certificate, &asked.key, &self.folder.machine.name)?;
        if end <= now {
            return Err(CertificateError::Mismatch("it has already expired").into());
        }
        Ok(Some(certificate))
    }

    fn switch_to(&mut self, joined: &mut JoinedNode, certificate: &[u8]) -> Result<(), NodeError> {
        self.folder.replace_certificate(certificate)?;
        let Some(identity) = self.folder.identity()? else { return Ok(()) };
        *self = Self::new(self.folder, &identity, self.lifetime_seconds)?;
        joined.client =
            clients::node(&identity).map_err(|error| cluster_error("use the node's certificate", error))?;
        Ok(())
    }
}
