//! Password functions: bcrypt hashes, htpasswd entries, and passwords derived from a master password.

use blowfish::Blowfish;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::env::Random;

const COST: u32 = 10;
const MAX_PASSWORD_LEN: usize = 72;
const BCRYPT_ALPHABET: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The plaintext that bcrypt encrypts repeatedly.
const MAGIC: [u32; 6] = [0x4f72_7068, 0x6561_6e42, 0x6568_6f6c, 0x6465_7253, 0x6372_7944, 0x6f75_6274];

/// Hashes with bcrypt. An error becomes the result text.
pub fn bcrypt(password: &[u8], random: &dyn Random) -> String {
    if password.len() > MAX_PASSWORD_LEN {
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".into();
    }
    let mut salt = [0; 16];
    random.fill(&mut salt);
    bcrypt_with(password, &salt)
}

fn bcrypt_with(password: &[u8], salt: &[u8; 16]) -> String {
    // bcrypt includes the terminating NUL of the C string in the key, up to the maximum length.
    let mut key = password.to_vec();
    key.push(0);
    key.truncate(MAX_PASSWORD_LEN);
    let mut cipher = Blowfish::bc_init_state();
    cipher.salted_expand_key(salt, &key);
    for _ in 0..1 << COST {
        cipher.bc_expand_key(&key);
        cipher.bc_expand_key(salt);
    }
    let mut hash = Vec::with_capacity(24);
    for pair in MAGIC.as_chunks().0 {
        let pair = (0..64).fold(*pair, |pair, _| cipher.bc_encrypt(pair));
        hash.extend(pair.iter().flat_map(|half| half.to_be_bytes()));
    }
    // The original implementation dropped the last byte, and the format kept it that way.
    hash.truncate(23);
    format!("$2a${COST}${}{}", bcrypt_base64(salt), bcrypt_base64(&hash))
}

/// bcrypt's base64: a different alphabet, and no padding.
fn bcrypt_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().enumerate().fold(0, |bits, (at, &byte)| bits | usize::from(byte) << (16 - 8 * at));
        for at in 0..=group.len() {
            out.push(char::from(BCRYPT_ALPHABET[bits >> (18 - 6 * at) & 63]));
        }
    }
    out
}

/// Password templates by kind. The seed selects one template of a kind; each character names a class of [`letters`].
const PASSWORD_TEMPLATES: &[(&str, &[&str])] = &[
    ("maximum", &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"]),
    (
        "long",
        &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
    ),
    ("medium", &["CvcnoCvc", "CvcCvcno"]),
    ("short", &["Cvcn"]),
    ("basic", &["aaanaaan", "aannaaan", "aaannaaa"]),
    ("pin", &["nnnn"]),
];

fn letters(class: u8) -> &'static [u8] {
    match class {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The Master Password algorithm: deterministic for the same arguments.
pub fn derive(counter: u32, kind: &str, password: &[u8], user: &[u8], site: &[u8]) -> String {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let Some((_, forms)) = PASSWORD_TEMPLATES.iter().find(|(name, _)| *name == kind) else {
        return format!("cannot find password template {kind}");
    };
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let salt = [SEED, &length(user), user].concat();
    let mut key = [0; 64];
    let done = scrypt::Params::new(15, 8, 2)
        .map_err(|why| why.to_string())
        .and_then(|how| scrypt::scrypt(password, &salt, &how, &mut key).map_err(|why| why.to_string()));
    if let Err(why) = done {
        return format!("failed to derive password: {why}");
    }
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(&key) else {
        return "failed to derive password: no key".into();
    };
    let message = [SEED, &length(site), site, &counter.to_be_bytes()].concat();
    let seed = mac.chain_update(&message).finalize().into_bytes();
    let pick = |at: usize, of: usize| usize::from(seed.get(at).copied().unwrap_or_default()) % of;
    let form = forms[pick(0, forms.len())];
    let letter = |(at, class): (usize, u8)| {
        let letters = letters(class);
        char::from(letters[pick(at + 1, letters.len())])
    };
    form.bytes().enumerate().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::NullEnv;

    #[test]
    fn bcrypt_hashes_match_go() {
        // Each hash was verified by golang.org/x/crypto/bcrypt.
        let table: &[(&str, &str)] = &[
            ("", "$2a$10$......................F5mzCEQ5E01or2Zs1UUMeqS/7rfVb16"),
            ("hello", "$2a$10$......................XU8f/mEvQ1skCJ77497QrBjPb3Ajnqy"),
            (
                "72 bytes: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "$2a$10$......................iNNqVMXIDPfh2oahOoa0EzU9jll7zZ.",
            ),
        ];
        for (password, expected) in table {
            assert_eq!(bcrypt(password.as_bytes(), &NullEnv), *expected, "{password:?}");
        }
    }

    #[test]
    fn bcrypt_rejects_long_password() {
        assert_eq!(
            bcrypt(&[b'x'; 73], &NullEnv),
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
        );
    }

    #[test]
    fn derive_matches_helm() {
        // (counter, kind, password, user, site, result of Helm)
        let table: &[(u32, &str, &str, &str, &str, &str)] = &[
            (1, "long", "a", "b", "c", "NameLetbDewr8_"),
            (1, "maximum", "p", "user", "example.com", "ItQEdPo6GCv9^7Hgbz0["),
            (3, "short", "é", "ü", "ß", "Mar0"),
            (4, "basic", "", "", "", "vy43KaQ5"),
            (1, "nope", "a", "b", "c", "cannot find password template nope"),
        ];
        for (counter, kind, password, user, site, expected) in table {
            let got = derive(*counter, kind, password.as_bytes(), user.as_bytes(), site.as_bytes());
            assert_eq!(got, *expected, "{kind}");
        }
    }
}
