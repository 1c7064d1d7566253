//! Cryptographic functions: keys, certificates, passwords, encryption.
//!
//! This module decides the content of certificates and the encoding of keys. The host generates keys and signs.

#![expect(clippy::unnecessary_wraps, reason = "rows of a table have one type")]

mod certificates;
mod cipher;
mod der;
mod keys;
mod passwords;
mod pem;

use std::rc::Rc;

use self::certificates::{Certificate, IssueRequest, Signer};
use crate::env::{KeyKind, PrivateKey};
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go;
use crate::value::{Str, Type, Value};

const CERTIFICATE: Type = Type::Object(certificates::CERTIFICATE_TYPE);

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("bcrypt",                   &[Type::String],                                                              false, FunctionBody::Machine(bcrypt)),
    ("htpasswd",                 &[Type::String, Type::String],                                                false, FunctionBody::Machine(htpasswd)),
    ("derivePassword",           &[Type::Uint32, Type::String, Type::String, Type::String, Type::String],      false, FunctionBody::Plain(derive_password)),
    ("encryptAES",               &[Type::String, Type::String],                                                false, FunctionBody::Machine(encrypt)),
    ("decryptAES",               &[Type::String, Type::String],                                                false, FunctionBody::Plain(decrypt)),
    ("genPrivateKey",            &[Type::String],                                                              false, FunctionBody::Machine(private_key)),
    ("buildCustomCert",          &[Type::String, Type::String],                                                false, FunctionBody::Plain(build_custom_cert)),
    ("genCA",                    &[Type::String, Type::Int],                                                   false, FunctionBody::Machine(authority)),
    ("genCAWithKey",             &[Type::String, Type::Int, Type::String],                                     false, FunctionBody::Machine(authority)),
    ("genSelfSignedCert",        &[Type::String, Type::List, Type::List, Type::Int],                           false, FunctionBody::Machine(self_signed)),
    ("genSelfSignedCertWithKey", &[Type::String, Type::List, Type::List, Type::Int, Type::String],             false, FunctionBody::Machine(self_signed)),
    ("genSignedCert",            &[Type::String, Type::List, Type::List, Type::Int, CERTIFICATE],              false, FunctionBody::Machine(signed)),
    ("genSignedCertWithKey",     &[Type::String, Type::List, Type::List, Type::Int, CERTIFICATE, Type::String], false, FunctionBody::Machine(signed)),
];

/// The key of a certificate for which the chart brings none.
pub const DEFAULT_KEY: KeyKind = KeyKind::Rsa { bits: 2048 };

/// Functions that generate one such key per call.
pub const DEFAULT_KEY_FUNCTIONS: &[&str] = &["genCA", "genSelfSignedCert", "genSignedCert"];

fn bytes(arguments: &[Value], at: usize) -> &[u8] {
    arguments.get(at).and_then(Value::string_bytes).unwrap_or_default()
}

fn bcrypt(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    Ok(passwords::bcrypt(bytes(arguments, 0), machine.env.random).into())
}

fn htpasswd(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    let user = bytes(arguments, 0);
    Ok(Value::string_from_bytes(if user.contains(&b':') {
        [b"invalid username: ", user].concat()
    } else {
        let hash = passwords::bcrypt(bytes(arguments, 1), machine.env.random);
        [user, b":", hash.as_bytes()].concat()
    }))
}

fn derive_password(arguments: &[Value]) -> Result<Value, Str> {
    let counter = match arguments.first() {
        Some(Value::Uint64(n)) => u32::try_from(*n).unwrap_or_default(),
        _ => 0,
    };
    let kind = arguments.get(1).and_then(Value::text).unwrap_or_default();
    let [password, user, site] = [2, 3, 4].map(|at| bytes(arguments, at));
    Ok(passwords::derive(counter, &kind, password, user, site).into())
}

fn encrypt(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    Ok(cipher::encrypt(bytes(arguments, 0), bytes(arguments, 1), machine.env.random).into())
}

fn decrypt(arguments: &[Value]) -> Result<Value, Str> {
    cipher::decrypt(bytes(arguments, 0), bytes(arguments, 1)).map(Value::string_from_bytes)
}

/// Charged steps to generate a key. RSA and DSA generation time varies randomly; charts are charged a third of the typical time, so
/// that a chart that needs a few keys still gets them.
fn steps_to_generate(kind: KeyKind) -> u64 {
    match kind {
        KeyKind::Rsa { bits: ..=2048 } => 1_000_000,
        KeyKind::Rsa { .. } | KeyKind::Dsa => 10_000_000,
        KeyKind::Ecdsa | KeyKind::Ed25519 => 10_000,
    }
}

/// Generates a private key as PEM. An error becomes the result text.
fn private_key(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    let kind = arguments.first().and_then(Value::text).unwrap_or_default();
    let crypto = machine.env.crypto;
    let kind = match kind.as_ref() {
        "" | "rsa" => KeyKind::Rsa { bits: 4096 },
        "dsa" => KeyKind::Dsa,
        "ecdsa" => KeyKind::Ecdsa,
        "ed25519" => KeyKind::Ed25519,
        other => return Ok(format!("Unknown type {other}").into()),
    };
    machine.charge(steps_to_generate(kind))?;
    let written = crypto.generate(kind).and_then(|key| keys::write(&key, crypto));
    Ok(written.unwrap_or_else(|why| format!("failed to generate private key: {why}")).into())
}

/// `buildCustomCert`: checks and returns a certificate and a key that the chart supplies.
fn build_custom_cert(arguments: &[Value]) -> Result<Value, Str> {
    let cert = go::base64_decode(bytes(arguments, 0)).map_err(|_| "unable to decode base64 certificate")?;
    let key = go::base64_decode(bytes(arguments, 1)).map_err(|_| "unable to decode base64 private key")?;
    let block = pem::decode(&cert).ok_or("unable to decode certificate")?;
    certificates::check(&block.bytes)
        .map_err(|why| format!("error parsing certificate: decodedCert.Bytes: {why}"))?;
    keys::read(&key).map_err(|why| format!("error parsing private key: {why}"))?;
    Ok(certificate_value(Certificate {
        cert: Value::string_from_bytes(cert),
        key: Value::string_from_bytes(key),
    }))
}

fn certificate_value(certificate: Certificate) -> Value {
    Value::Object(Rc::new(certificate))
}

fn authority(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    let [cn, days, own @ ..] = arguments else { return Err("two arguments are missing".into()) };
    let own = supplied_key(own.first())?;
    issue(machine, &IssueRequest::authority(cn, number(days))?, own, None)
}

fn self_signed(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    let [cn, addresses, names, days, own @ ..] = arguments else {
        return Err("four arguments are missing".into());
    };
    let own = supplied_key(own.first())?;
    issue(machine, &IssueRequest::new(cn, addresses, names, number(days))?, own, None)
}

fn signed(machine: &mut Machine<'_>, arguments: &[Value]) -> Result<Value, Str> {
    let [cn, addresses, names, days, Value::Object(authority), own @ ..] = arguments else {
        return Err("five arguments are missing".into());
    };
    let authority = authority.as_any().downcast_ref::<Certificate>().ok_or("that is no certificate")?;
    let own = supplied_key(own.first())?;
    let signer = Signer::parse(authority)?;
    issue(machine, &IssueRequest::new(cn, addresses, names, number(days))?, own, Some(&signer))
}

/// The private key that the chart supplies, if any.
fn supplied_key(key: Option<&Value>) -> Result<Option<PrivateKey>, Str> {
    key.map(|key| {
        keys::read(key.string_bytes().unwrap_or_default())
            .map_err(|why| format!("parsing private key: {why}").into())
    })
    .transpose()
}

fn issue(
    machine: &mut Machine<'_>,
    request: &IssueRequest,
    own: Option<PrivateKey>,
    signer: Option<&Signer>,
) -> Result<Value, Str> {
    let outside = machine.env;
    let key = match own {
        Some(key) => key,
        None => {
            outside.crypto.generate(DEFAULT_KEY).map_err(|why| format!("error generating rsa key: {why}"))?
        }
    };
    certificates::issue(request, &key, signer, outside, machine.functions.profile).map(certificate_value)
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        _ => 0,
    }
}
