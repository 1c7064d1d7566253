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
const MOST_BYTES: usize = 16 * 1024;
/// Capacity of the cache of verified tokens. The cache is cleared when full.
const MOST_KNOWN: usize = 1_000;

/// The signing key of `ServiceAccount` tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    /// Key id, in token headers and in the published key set.
    id: String,
    /// Claims of tokens with a valid signature, by the token's hash. A valid signature stays valid, and verification takes longer than the
    /// rest of a GET.
    known: Mutex<HashMap<TokenHash, Arc<Value>>>,
}

type TokenHash = [u8; digest::SHA256_OUTPUT_LEN];

/// Why a token is not one of this server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
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
        Some(Self { pair, id, known: Mutex::default() })
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
    pub fn verify(&self, token: &str) -> Result<Arc<Value>, Bad> {
        if token.len() > MOST_BYTES {
            return Err(Bad::Foreign);
        }
        let mut hash = TokenHash::default();
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        if let Some(claims) = self.known.lock().get(&hash) {
            return Ok(claims.clone());
        }
        let claims = Arc::new(self.check(token)?);
        let mut known = self.known.lock();
        if known.len() == MOST_KNOWN {
            known.clear();
        }
        known.insert(hash, claims.clone());
        Ok(claims)
    }

    fn check(&self, token: &str) -> Result<Value, Bad> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Bad::Foreign)?;
        let (header, claims) = signed.split_once('.').ok_or(Bad::Foreign)?;
        let decode = |part: &str| -> Result<Value, Bad> {
            let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Bad::Foreign)?;
            serde_json::from_slice(&bytes).map_err(|_| Bad::Foreign)
        };
        let header = decode(header)?;
        // `crit` lists mandatory extensions, and none are supported.
        if header["alg"] != "ES256" || header["kid"] != self.id.as_str() || !header["crit"].is_null() {
            return Err(Bad::Foreign);
        }
        let claims = decode(claims)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Bad::Forged)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| Bad::Forged)?;
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
    fn no_more_tokens_are_remembered_than_allowed() {
        let key = key();
        for n in 0..=MOST_KNOWN {
            let claims = json!({"jti": n});
            assert_eq!(key.verify(&key.sign(&claims)), Ok(Arc::new(claims)));
        }
        assert_eq!(key.known.lock().len(), 1);
    }

    #[test]
    fn only_what_this_key_signed_is_ours() {
        let key = key();
        let claims = json!({"sub": "a", "exp": 1});
        let token = key.sign(&claims);
        assert_eq!(key.verify(&token), Ok(Arc::new(claims.clone())));
        assert_eq!(key.verify(&token), key.verify(&token), "known by now");

        let other = self::key();
        assert_eq!(key.verify(&other.sign(&claims)), Err(Bad::Foreign));
        let parts: Vec<&str> = token.split('.').collect();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let swapped = encode(&json!({"sub": "admin", "exp": 1}));
        assert_eq!(key.verify(&format!("{}.{swapped}.{}", parts[0], parts[2])), Err(Bad::Forged));
        assert_eq!(key.verify(&format!("{}.{}.", parts[0], parts[1])), Err(Bad::Forged));
        for header in [
            json!({"alg": "none", "kid": key.id}),
            json!({"alg": "HS256", "kid": key.id}),
            json!({"alg": "ES256"}),
            json!({"alg": "ES256", "kid": key.id, "crit": ["x"]}),
        ] {
            let forged = format!("{}.{}.{}", encode(&header), parts[1], parts[2]);
            assert_eq!(key.verify(&forged), Err(Bad::Foreign), "{header}");
        }
    }

    #[test]
    fn the_key_id_is_the_hash_of_the_public_key() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = SigningKey::from_pkcs8(pair.serialized_der()).unwrap();
        let spki = rcgen::PublicKeyData::subject_public_key_info(&pair);
        assert_eq!(key.id, URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &spki)));
        assert_eq!(key.key_set()["keys"][0]["kid"], key.id.as_str());
    }

    proptest! {
        #[test]
        fn no_text_is_a_token_by_accident(text in ".{0,80}") {
            prop_assert!(key().verify(&text).is_err());
        }
    }
}
