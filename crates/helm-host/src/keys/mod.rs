//! Key generation and signatures, by aws-lc.

mod dsa;
mod rsa_pool;

use aws_lc_rs::agreement;
use aws_lc_rs::encoding::{AsBigEndian, AsDer, EcPrivateKeyBin, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use helm_template::env::{Crypto, Curve, KeyKind, PrivateKey};
use helm_template::value::Str;

use self::rsa_pool::RsaKeyPool;

/// The [`Crypto`] implementation of the host.
#[derive(Default)]
pub struct HostCrypto {
    rsa_pool: RsaKeyPool,
}

impl Crypto for HostCrypto {
    fn prepare(&self, kind: KeyKind, count: usize) {
        if let KeyKind::Rsa { bits } = kind {
            self.rsa_pool.announce(bits, count);
        }
    }

    fn generate(&self, kind: KeyKind) -> Result<PrivateKey, Str> {
        match kind {
            // Only RSA generation is slow enough to be parallelised.
            KeyKind::Rsa { bits } => self.rsa_pool.take(bits).map(PrivateKey::Rsa),
            KeyKind::Ecdsa => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(to_message)?;
                let secret: EcPrivateKeyBin = pair.private_key().as_be_bytes().map_err(to_message)?;
                Ok(PrivateKey::Ecdsa { curve: Curve::P256, secret: secret.as_ref().to_vec() })
            }
            KeyKind::Ed25519 => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(to_message)?;
                Ok(PrivateKey::Ed25519(seed))
            }
            KeyKind::Dsa => {
                let numbers = dsa::generate(dsa::DEFAULT_SIZE).map_err(to_message)?;
                Ok(PrivateKey::Dsa(numbers.map(|number| number.to_bytes_be())))
            }
        }
    }

    fn public_key(&self, key: &PrivateKey) -> Result<Vec<u8>, Str> {
        Ok(match key {
            PrivateKey::Rsa(pkcs1) => rsa_key_pair(pkcs1)?.public_key().as_ref().to_vec(),
            PrivateKey::Ecdsa { curve, secret } => public_point(*curve, secret)?,
            PrivateKey::Ed25519(seed) => ed25519_key_pair(seed)?.public_key().as_ref().to_vec(),
            PrivateKey::Dsa(_) => return Err("keys of DSA are not used here".into()),
        })
    }

    fn sign(&self, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, Str> {
        let random = SystemRandom::new();
        match key {
            PrivateKey::Rsa(pkcs1) => {
                let pair = rsa_key_pair(pkcs1)?;
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(to_message)?;
                Ok(signature)
            }
            PrivateKey::Ecdsa { curve, secret } => {
                let point = public_point(*curve, secret)?;
                let pair =
                    EcdsaKeyPair::from_private_key_and_public_key(ecdsa_algorithm(*curve), secret, &point)
                        .map_err(to_message)?;
                Ok(pair.sign(&random, message).map_err(to_message)?.as_ref().to_vec())
            }
            PrivateKey::Ed25519(seed) => Ok(ed25519_key_pair(seed)?.sign(message).as_ref().to_vec()),
            PrivateKey::Dsa(_) => Err("keys of DSA are not used here".into()),
        }
    }
}

fn to_message(why: impl std::fmt::Display) -> Str {
    why.to_string().into()
}

/// Length of the PKCS#8 header before the PKCS#1 key: sequence, version, algorithm and octet string. Constant for these key sizes.
const PKCS8_HEADER_LEN: usize = 26;

/// Generates an RSA key as PKCS#1 in DER.
fn generate_rsa(bits: u32) -> Result<Vec<u8>, Str> {
    let size = match bits {
        2048 => KeySize::Rsa2048,
        4096 => KeySize::Rsa4096,
        _ => return Err(format!("keys of {bits} bits are not made here").into()),
    };
    let pair = RsaKeyPair::generate(size).map_err(to_message)?;
    let wrapped: Pkcs8V1Der<'_> = pair.as_der().map_err(to_message)?;
    match wrapped.as_ref().split_at_checked(PKCS8_HEADER_LEN) {
        Some(([.., 0x04, 0x82, _, _], pkcs1)) => Ok(pkcs1.to_vec()),
        _ => Err("the new key has an unknown form".into()),
    }
}

fn rsa_key_pair(pkcs1: &[u8]) -> Result<RsaKeyPair, Str> {
    RsaKeyPair::from_der(pkcs1).map_err(to_message)
}

fn ed25519_key_pair(seed: &[u8]) -> Result<Ed25519KeyPair, Str> {
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(to_message)
}

fn ecdsa_algorithm(curve: Curve) -> &'static EcdsaSigningAlgorithm {
    match curve {
        Curve::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
        Curve::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
        Curve::P521 => &ECDSA_P521_SHA512_ASN1_SIGNING,
    }
}

fn public_point(curve: Curve, secret: &[u8]) -> Result<Vec<u8>, Str> {
    let curve = match curve {
        Curve::P256 => &agreement::ECDH_P256,
        Curve::P384 => &agreement::ECDH_P384,
        Curve::P521 => &agreement::ECDH_P521,
    };
    let key = agreement::PrivateKey::from_private_key(curve, secret).map_err(to_message)?;
    Ok(key.compute_public_key().map_err(to_message)?.as_ref().to_vec())
}
