//! Renewal of the node's certificate, with a new key.
//!
//! A state machine of non-blocking steps, one per heartbeat. The pending request is stored in the folder, so that
//! renewal resumes after a crash. The current certificate is used until the next one is issued.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;

use super::Failure;
use super::certificate::{self, CertificateError};
use super::folder::{Asked, Folder, Identity};
use super::join::{Joined, cluster};
use super::line;

/// Thousandths of a certificate's lifetime after which it is renewed, and the spread, as in the kubelet.
const FROM: i64 = 700;
const SPREAD: i64 = 200;

/// Time of renewal. It depends on the machine, so that nodes that joined together do not renew together.
pub(super) fn due(begin: Timestamp, end: Timestamp, machine: &str) -> Timestamp {
    let chance = machine.get(..4).and_then(|digits| i64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    let share = FROM + chance % (SPREAD + 1);
    let after = SignedDuration::from_secs(end.duration_since(begin).as_secs() * share / 1000);
    begin.saturating_add(after).unwrap_or(end)
}

/// Time of the next attempt after a refusal: a tenth of the remaining lifetime, so that attempts become more frequent.
pub(super) fn again(now: Timestamp, end: Timestamp) -> Timestamp {
    now.saturating_add(end.duration_since(now).max(SignedDuration::ZERO) / 10).unwrap_or(end)
}

/// State of the renewal of a node's certificate.
pub(super) struct Renewal<'a> {
    folder: &'a Folder,
    /// Requested lifetime.
    seconds: Option<i32>,
    end: Timestamp,
    /// Time of the next step.
    pub next: Timestamp,
}

impl<'a> Renewal<'a> {
    pub fn of(folder: &'a Folder, identity: &Identity, seconds: Option<i32>) -> Result<Self, Failure> {
        let machine = &folder.machine;
        let (begin, end) = certificate::check(&identity.certificate, &identity.key, &machine.name)?;
        Ok(Self { folder, seconds, end, next: due(begin, end, &machine.id) })
    }

    /// Performs the next step when it is due. Switches to the next certificate once it is issued.
    pub async fn step(&mut self, joined: &mut Joined) -> Result<(), Failure> {
        let now = joined.clock.now();
        if now < self.next {
            return Ok(());
        }
        let asked = self.folder.asked_next(|| certificate::ask(&self.folder.machine.name))?;
        match self.obtained(joined, &asked, now).await {
            Ok(None) => Ok(()),
            Ok(Some(certificate)) => self.take(joined, &certificate),
            // A decided CSR stays decided, so the next attempt creates a new one.
            Err(failure @ Failure::Certificate(_)) => {
                self.folder.forget_next()?;
                self.next = again(now, self.end);
                Err(failure)
            }
            Err(other) => Err(other),
        }
    }

    /// Returns the next certificate if it was issued and matches the request.
    async fn obtained(
        &self,
        joined: &Joined,
        asked: &Asked,
        now: Timestamp,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let csrs: Api<CertificateSigningRequest> = Api::all(joined.client.clone());
        let refusal = |error| cluster("ask for the node's next certificate", error);
        let csr = certificate::place(&csrs, asked, self.seconds, refusal).await?;
        if !certificate::is_decided(&csr) {
            return Ok(None);
        }
        let certificate = certificate::taken(&csr)?;
        let (_, end) = certificate::check(&certificate, &asked.key, &self.folder.machine.name)?;
        if end <= now {
            return Err(CertificateError::Wrong("it has ended already").into());
        }
        Ok(Some(certificate))
    }

    fn take(&mut self, joined: &mut Joined, certificate: &[u8]) -> Result<(), Failure> {
        self.folder.certify_next(certificate)?;
        let Some(identity) = self.folder.identity()? else { return Ok(()) };
        *self = Self::of(self.folder, &identity, self.seconds)?;
        joined.client =
            line::node(&identity).map_err(|error| cluster("use the node's certificate", error))?;
        Ok(())
    }
}
