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
use crate::credential_store::random_bytes;

/// The limit of concurrent hashes.
const MAX_CONCURRENT_HASHES: usize = 2;
/// The limit of running and waiting callers together.
const MAX_CALLERS: usize = 32;
/// The seconds in [`Error::Throttled`] for callers above the limit.
const RETRY_AFTER_SECONDS: u64 = 2;

/// Random bytes in place of salt and hash, with the parameters of [`argon2id`]. No password is known to match.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$G4zOtPmUW1jlgnpZLYZ2sg$F9Yj2nvGadk2BqCJDCJjoXDAuB06zMkUfE8qWwi7eFI";

/// Hashes and verifies passwords with bounded concurrency.
pub(crate) struct Hasher {
    caller_permits: Arc<Semaphore>,
    hash_permits: Arc<Semaphore>,
}

/// Parameters as OWASP recommends.
fn argon2id() -> Argon2<'static> {
    let params = Params::new(19 * 1024, 2, 1, None).expect("the parameters are within Argon2's bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

impl Hasher {
    pub fn new() -> Self {
        Self {
            caller_permits: Arc::new(Semaphore::new(MAX_CALLERS)),
            hash_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_HASHES)),
        }
    }

    /// Hashes a password for storage.
    pub async fn hash(&self, password: &Password) -> Result<String, Error> {
        let password = password.clone();
        self.run_blocking(move || {
            let hash =
                argon2id().hash_password_with_salt(password.expose().as_bytes(), &random_bytes::<16>());
            hash.map(|hash| hash.to_string()).map_err(|error| Error::Internal(error.to_string().into()))
        })
        .await?
    }

    /// Whether `password` matches the stored hash. With `None` always false, after the same time.
    pub async fn verify(&self, password: &Password, password_hash: Option<&str>) -> Result<bool, Error> {
        let (password, known) = (password.clone(), password_hash.is_some());
        let password_hash = password_hash.unwrap_or(DUMMY_HASH).to_owned();
        let fits = self.run_blocking(move || {
            let parsed_hash = PasswordHash::new(&password_hash)
                .map_err(|error| Error::Internal(error.to_string().into()))?;
            Ok::<_, Error>(argon2id().verify_password(password.expose().as_bytes(), &parsed_hash).is_ok())
        });
        Ok(fits.await?? && known)
    }

    /// Runs `work` on a blocking thread once a permit is free. A caller dropped while waiting leaves the queue. Started work is
    /// finished even if its caller is dropped, and holds its permits until then.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let busy = |_| Error::Throttled { seconds: RETRY_AFTER_SECONDS };
        let admitted: OwnedSemaphorePermit = self.caller_permits.clone().try_acquire_owned().map_err(busy)?;
        let turn = self.hash_permits.clone().acquire_owned().await.expect("the semaphore is never closed");
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
    async fn verify_accepts_only_the_hashed_password() {
        let hasher = Hasher::new();
        let password = Password::parse_new("correct horse").unwrap();
        let kept = hasher.hash(&password).await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert_ne!(kept, hasher.hash(&password).await.unwrap(), "the salt is random");
        assert!(hasher.verify(&password, Some(&kept)).await.unwrap());
        assert!(!hasher.verify(&Password::from_sign_in("correct horsf"), Some(&kept)).await.unwrap());
        assert!(!hasher.verify(&Password::from_sign_in(""), Some(&kept)).await.unwrap());
        assert!(!hasher.verify(&password, None).await.unwrap());
        assert!(hasher.verify(&password, Some("no hash")).await.is_err());
    }

    #[test]
    fn dummy_hash_has_the_parameters_of_a_new_hash() {
        let hash = PasswordHash::new(DUMMY_HASH).unwrap();
        let new = argon2id().hash_password_with_salt(b"x", &random_bytes::<16>()).unwrap();
        let cost = |hash: &PasswordHash| (hash.algorithm.to_string(), hash.version, hash.params.to_string());
        assert_eq!(cost(&hash), cost(&new));
        assert_eq!(hash.hash.unwrap().len(), new.hash.unwrap().len());
    }

    #[tokio::test]
    async fn hashing_is_bounded_and_further_callers_are_throttled() {
        let hasher = Hasher::new();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let answers = join_all((0..100).map(|_| {
            let (now, most) = (now.clone(), most.clone());
            hasher.run_blocking(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                now.fetch_sub(1, Ordering::SeqCst);
            })
        }))
        .await;
        assert!(most.load(Ordering::SeqCst) <= MAX_CONCURRENT_HASHES);
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(refused, 100 - MAX_CALLERS);
        assert!(hasher.run_blocking(|| ()).await.is_ok(), "everybody has left");
    }

    #[tokio::test]
    async fn dropped_caller_leaves_the_queue() {
        let hasher = Hasher::new();
        for _ in 0..3 * MAX_CALLERS {
            let work = hasher.run_blocking(|| std::thread::sleep(Duration::from_millis(1)));
            drop(futures::poll!(Box::pin(work)));
        }
        let patient = async {
            while hasher.caller_permits.available_permits() < MAX_CALLERS {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), patient).await.unwrap();
    }
}
