//! Password hashing with Argon2id, bounded in concurrency.
//!
//! A hash takes 19 MiB and tens of milliseconds by design, so it runs on blocking threads, two at a time. A few more callers
//! may wait; further ones get [`Error::Throttled`]. For an account without a password, verification runs against a fixed hash
//! with no known password, so that the response takes as long.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use domain::fields::Password;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;
use crate::secrets::random;

/// The limit of concurrent hashes.
const AT_ONCE: usize = 2;
/// The limit of running and waiting callers together.
const ADMITTED: usize = 32;
/// The seconds in [`Error::Throttled`] for callers above the limit.
const COME_BACK: u64 = 2;

/// Random bytes in place of salt and hash, with the parameters of [`argon2id`]. No password is known to match.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$G4zOtPmUW1jlgnpZLYZ2sg$F9Yj2nvGadk2BqCJDCJjoXDAuB06zMkUfE8qWwi7eFI";

/// Hashes and verifies passwords with bounded concurrency.
pub(crate) struct Hasher {
    admitted: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

/// Parameters as OWASP recommends.
fn argon2id() -> Argon2<'static> {
    let params = Params::new(19 * 1024, 2, 1, None).expect("the parameters are within Argon2's bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

impl Hasher {
    pub fn new() -> Self {
        Self { admitted: Arc::new(Semaphore::new(ADMITTED)), working: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Hashes a password for storage.
    pub async fn hash(&self, password: &Password) -> Result<String, Error> {
        let password = password.clone();
        self.work(move || {
            let hash = argon2id().hash_password_with_salt(password.expose().as_bytes(), &random::<16>());
            hash.map(|hash| hash.to_string()).map_err(|error| Error::Internal(error.to_string().into()))
        })
        .await?
    }

    /// Whether `password` matches the stored hash. With `None` always false, after the same time.
    pub async fn is(&self, password: &Password, kept: Option<&str>) -> Result<bool, Error> {
        let (password, known) = (password.clone(), kept.is_some());
        let kept = kept.unwrap_or(NOBODYS).to_owned();
        let fits = self.work(move || {
            let kept = PasswordHash::new(&kept).map_err(|error| Error::Internal(error.to_string().into()))?;
            Ok::<_, Error>(argon2id().verify_password(password.expose().as_bytes(), &kept).is_ok())
        });
        Ok(fits.await?? && known)
    }

    /// Runs `work` on a blocking thread once a permit is free. A caller dropped while waiting leaves the queue. Started work is
    /// finished even if its caller is dropped, and holds its permits until then.
    async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let busy = |_| Error::Throttled { seconds: COME_BACK };
        let admitted: OwnedSemaphorePermit = self.admitted.clone().try_acquire_owned().map_err(busy)?;
        let turn = self.working.clone().acquire_owned().await.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let _held = (admitted, turn);
            work()
        });
        done.await.map_err(|failed| Error::Internal(Box::new(failed)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_password_is_itself_and_no_other() {
        let hasher = Hasher::new();
        let password = Password::chosen("correct horse").unwrap();
        let kept = hasher.hash(&password).await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert_ne!(kept, hasher.hash(&password).await.unwrap(), "the salt is random");
        assert!(hasher.is(&password, Some(&kept)).await.unwrap());
        assert!(!hasher.is(&Password::attempt("correct horsf"), Some(&kept)).await.unwrap());
        assert!(!hasher.is(&Password::attempt(""), Some(&kept)).await.unwrap());
        assert!(!hasher.is(&password, None).await.unwrap());
        assert!(hasher.is(&password, Some("no hash")).await.is_err());
    }

    #[test]
    fn nobodys_hash_costs_what_a_new_one_costs() {
        let hash = PasswordHash::new(NOBODYS).unwrap();
        let new = argon2id().hash_password_with_salt(b"x", &random::<16>()).unwrap();
        let cost = |hash: &PasswordHash| (hash.algorithm.to_string(), hash.version, hash.params.to_string());
        assert_eq!(cost(&hash), cost(&new));
        assert_eq!(hash.hash.unwrap().len(), new.hash.unwrap().len());
    }

    #[tokio::test]
    async fn hashing_is_bounded_and_the_rest_are_told_to_come_back() {
        let hasher = Hasher::new();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let answers = join_all((0..100).map(|_| {
            let (now, most) = (now.clone(), most.clone());
            hasher.work(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                now.fetch_sub(1, Ordering::SeqCst);
            })
        }))
        .await;
        assert!(most.load(Ordering::SeqCst) <= AT_ONCE);
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(refused, 100 - ADMITTED);
        assert!(hasher.work(|| ()).await.is_ok(), "everybody has left");
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_leaves_the_line() {
        let hasher = Hasher::new();
        for _ in 0..3 * ADMITTED {
            let work = hasher.work(|| std::thread::sleep(Duration::from_millis(1)));
            drop(futures::poll!(Box::pin(work)));
        }
        let patient = async {
            while hasher.admitted.available_permits() < ADMITTED {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), patient).await.unwrap();
    }
}
