//! A certificate that nears its end is followed by another, which the node asks for itself, with a new key.
//!
//! One step at each sign of life, and none that waits: each looks how far it has come. What was asked for is in the folder, so that
//! whoever died goes on. Until the next certificate is there, the present one serves.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;

use super::Failure;
use super::certificate::{self, CertificateError};
use super::folder::{Asked, Folder, Identity};
use super::join::{Joined, cluster};
use super::line;

/// After how many thousandths of its time a certificate is renewed: as a kubelet has it, so early, and up to so much later.
const FROM: i64 = 700;
const SPREAD: i64 = 200;

/// When a certificate is to be renewed. Each machine has a moment of its own, so that those that came together do not ask together.
pub(super) fn due(begin: Timestamp, end: Timestamp, machine: &str) -> Timestamp {
    let chance = machine.get(..4).and_then(|digits| i64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    let share = FROM + chance % (SPREAD + 1);
    let after = SignedDuration::from_secs(end.duration_since(begin).as_secs() * share / 1000);
    begin.saturating_add(after).unwrap_or(end)
}

/// When to ask again after a refusal: before long, and ever sooner as the end comes nearer.
pub(super) fn again(now: Timestamp, end: Timestamp) -> Timestamp {
    now.saturating_add(end.duration_since(now).max(SignedDuration::ZERO) / 10).unwrap_or(end)
}

/// The certificate that a machine has, and how it comes to the next one.
pub(super) struct Renewal<'a> {
    folder: &'a Folder,
    /// How long a certificate is asked to be good for.
    seconds: Option<i32>,
    end: Timestamp,
    /// When there is something to do.
    pub next: Timestamp,
}

impl<'a> Renewal<'a> {
    pub fn of(folder: &'a Folder, identity: &Identity, seconds: Option<i32>) -> Result<Self, Failure> {
        let machine = &folder.machine;
        let (begin, end) = certificate::check(&identity.certificate, &identity.key, &machine.name)?;
        Ok(Self { folder, seconds, end, next: due(begin, end, &machine.id) })
    }

    /// Goes a step further, if it is time. When the next certificate is there, the machine goes on with it.
    pub async fn step(&mut self, joined: &mut Joined) -> Result<(), Failure> {
        let now = joined.clock.now();
        if now < self.next {
            return Ok(());
        }
        let asked = self.folder.asked_next(|| certificate::ask(&self.folder.machine.name))?;
        match self.obtained(joined, &asked, now).await {
            Ok(None) => Ok(()),
            Ok(Some(certificate)) => self.take(joined, &certificate),
            // What was decided stays decided: the next try asks anew.
            Err(failure @ Failure::Certificate(_)) => {
                self.folder.forget_next()?;
                self.next = again(now, self.end);
                Err(failure)
            }
            Err(other) => Err(other),
        }
    }

    /// The next certificate, once it has been made, if it is what was asked for.
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
