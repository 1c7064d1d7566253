//! JSON Web Tokens signed by this server, ES256 only.
//!
//! One algorithm and one key, never chosen by the token. This module verifies signatures; `super::authn` interprets the claims.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Longer texts are not tokens.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Capacity of the cache of verified tokens. The cache is cleared when full.
const CACHE_CAPACITY: usize = 1_000;

/// The signing key of `ServiceAccount` tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    /// Key id, in token headers and in the published key set.
    id: String,
    /// Claims of tokens with a valid signature, by the token's hash. A valid signature stays valid, and verification takes longer than the
    /// rest of a GET.
    verified: Mutex<HashMap<TokenHash, Arc<Value>>>,
}

type TokenHash = [u8; digest::SHA256_OUTPUT_LEN];

/// Why a token is not one of this server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyError {
    /// Not a JWT of this server. Another verifier may accept it.
    Foreign,
    /// Has the header of this server's tokens and an invalid signature.
    Forged,
}

/// Prefix of a P-256 public key in SPKI form; 65 bytes of the point follow.
const SPKI_P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

impl SigningKey {
    /// Reads a PKCS #8 private key; `None` if it is not a P-256 key.
    pub fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?;
        let spki = [&SPKI_P256, pair.public_key().as_ref()].concat();
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &spki));
        Some(Self { pair, id, verified: Mutex::default() })
    }

    /// Returns the signed token for `claims`.
    pub fn sign(&self, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({ "alg": "ES256", "kid": self.id });
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .expect("a P-256 key signs whatever it is given");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the claims of a token that this key has signed. The caller checks times and audiences.
    pub fn verify(&self, token: &str) -> Result<Arc<Value>, VerifyError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(VerifyError::Foreign);
        }
        let mut hash = TokenHash::default();
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        if let Some(claims) = self.verified.lock().get(&hash) {
            return Ok(claims.clone());
        }
        let claims = Arc::new(self.check(token)?);
        let mut known = self.verified.lock();
        if known.len() == CACHE_CAPACITY {
            known.clear();
        }
        known.insert(hash, claims.clone());
        Ok(claims)
    }

    fn check(&self, token: &str) -> Result<Value, VerifyError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(VerifyError::Foreign)?;
        let (header, claims) = signed.split_once('.').ok_or(VerifyError::Foreign)?;
        let decode = |part: &str| -> Result<Value, VerifyError> {
            let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| VerifyError::Foreign)?;
            serde_json::from_slice(&bytes).map_err(|_| VerifyError::Foreign)
        };
        let header = decode(header)?;
        // `crit` lists mandatory extensions, and none are supported.
        if header["alg"] != "ES256" || header["kid"] != self.id.as_str() || !header["crit"].is_null() {
            return Err(VerifyError::Foreign);
        }
        let claims = decode(claims)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| VerifyError::Forged)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| VerifyError::Forged)?;
        Ok(claims)
    }

    /// Returns the public key set of `/openid/v1/jwks`, for other verifiers of these tokens.
    pub fn key_set(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        json!({ "keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub fn key() -> SigningKey {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        SigningKey::from_pkcs8(pair.serialized_der()).unwrap()
    }

    #[test]
    fn verified_token_cache_is_bounded() {
        let key = key();
        for n in 0..=CACHE_CAPACITY {
            let claims = json!({"jti": n});
            assert_eq!(key.verify(&key.sign(&claims)), Ok(Arc::new(claims)));
        }
        assert_eq!(key.verified.lock().len(), 1);
    }

    #[test]
    fn verify_accepts_only_tokens_of_this_key() {
        let key = key();
        let claims = json!({"sub": "a", "exp": 1});
        let token = key.sign(&claims);
        assert_eq!(key.verify(&token), Ok(Arc::new(claims.clone())));
        assert_eq!(key.verify(&token), key.verify(&token), "known by now");

        let other = self::key();
        assert_eq!(key.verify(&other.sign(&claims)), Err(VerifyError::Foreign));
        let parts: Vec<&str> = token.split('.').collect();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let swapped = encode(&json!({"sub": "admin", "exp": 1}));
        assert_eq!(key.verify(&format!("{}.{swapped}.{}", parts[0], parts[2])), Err(VerifyError::Forged));
        assert_eq!(key.verify(&format!("{}.{}.", parts[0], parts[1])), Err(VerifyError::Forged));
        for header in [
            json!({"alg": "none", "kid": key.id}),
            json!({"alg": "HS256", "kid": key.id}),
            json!({"alg": "ES256"}),
            json!({"alg": "ES256", "kid": key.id, "crit": ["x"]}),
        ] {
            let forged = format!("{}.{}.{}", encode(&header), parts[1], parts[2]);
            assert_eq!(key.verify(&forged), Err(VerifyError::Foreign), "{header}");
        }
    }

    #[test]
    fn key_id_is_hash_of_public_key() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = SigningKey::from_pkcs8(pair.serialized_der()).unwrap();
        let spki = rcgen::PublicKeyData::subject_public_key_info(&pair);
        assert_eq!(key.id, URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &spki)));
        assert_eq!(key.key_set()["keys"][0]["kid"], key.id.as_str());
    }

    proptest! {
        #[test]
        fn random_text_is_not_a_token(text in ".{0,80}") {
            prop_assert!(key().verify(&text).is_err());
        }
    }
}
