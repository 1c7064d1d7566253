//! Keys and certificates from template functions, read back by an independent parser.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use helm_host::Host;
use helm_template::budget::Budget;
use helm_template::env::KeyKind;
use helm_template::exec::{Machine, Templates};
use helm_template::functions;
use helm_template::parse::parse;
use helm_template::profile::Profile;
use helm_template::value::Value;
use x509_parser::pem::Pem;
use x509_parser::prelude::*;

fn render(host: &Host, text: &str) -> String {
    let functions = functions::table(Profile::Helm4);
    let parsed = parse("t", text, &functions).unwrap();
    let templates = Templates::default().with(parsed.into_iter().map(Arc::new));
    let budget = Budget::default();
    let mut machine = Machine::new(templates, &functions, host.render_env(), &budget);
    match machine.run("t", Value::Nil) {
        Ok(out) => String::from_utf8(out).unwrap(),
        Err(why) => why.to_string(),
    }
}

/// All PEM blocks of a text.
fn pem_blocks(text: &str) -> Vec<Pem> {
    Pem::iter_from_buffer(text.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn common_name(name: &X509Name<'_>) -> String {
    name.iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}

#[test]
fn gen_signed_cert_is_signed_by_ca() {
    let text = r#"{{ $ca := genCA "the authority" 365 }}
        {{- $c := genSignedCert "web" (list "10.0.0.1" "::1") (list "web.example" "*.web") 10 $ca }}
        {{- $ca.Cert }}{{ $c.Cert }}{{ $c.Key }}"#;
    let blocks = pem_blocks(&render(&Host::new(), text));
    let labels: Vec<_> = blocks.iter().map(|block| block.label.as_str()).collect();
    assert_eq!(labels, ["CERTIFICATE", "CERTIFICATE", "RSA PRIVATE KEY"]);

    let authority = blocks[0].parse_x509().unwrap();
    assert_eq!(common_name(authority.subject()), "the authority");
    assert!(authority.is_ca() && authority.key_usage().unwrap().unwrap().value.key_cert_sign());
    authority.verify_signature(None).unwrap();

    let server = blocks[1].parse_x509().unwrap();
    assert_eq!((common_name(server.subject()), server.is_ca()), ("web".to_owned(), false));
    assert_eq!(server.issuer(), authority.subject());
    server.verify_signature(Some(authority.public_key())).unwrap();
    let validity = server.validity();
    assert_eq!(validity.not_after.timestamp() - validity.not_before.timestamp(), 10 * 24 * 3_600);
    let names = &server.subject_alternative_name().unwrap().unwrap().value.general_names;
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "DNSName(web.example)",
            "DNSName(*.web)",
            "IPAddress(0a:00:00:01)",
            "IPAddress(00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:01)"
        ]
    );
    let purposes = server.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.server_auth && purposes.client_auth);
}

#[test]
fn gen_self_signed_cert_accepts_each_key_type() {
    for (kind, label) in [("ecdsa", "EC PRIVATE KEY"), ("ed25519", "PRIVATE KEY")] {
        let text = format!(
            r#"{{{{ $c := genSelfSignedCertWithKey "x" nil nil 1 (genPrivateKey "{kind}") }}}}{{{{ $c.Cert }}}}{{{{ $c.Key }}}}"#
        );
        let blocks = pem_blocks(&render(&Host::new(), &text));
        assert_eq!(blocks[1].label, label);
        blocks[0].parse_x509().unwrap().verify_signature(None).unwrap();
    }
}

#[test]
fn gen_signed_cert_fails_when_ca_key_does_not_match() {
    let text = r#"{{ $a := genCA "a" 1 }}{{ $b := genCA "b" 1 }}
        {{- genSignedCert "x" nil nil 1 (buildCustomCert (b64enc $a.Cert) (b64enc $b.Key)) }}"#;
    let why = render(&Host::new(), text);
    assert!(why.ends_with("x509: provided PrivateKey doesn't match parent's PublicKey"), "{why}");
}

#[test]
fn prepared_keys_are_distinct() {
    let host = Host::new();
    host.render_env().crypto.prepare(KeyKind::Rsa { bits: 2048 }, 3);
    let made: Vec<_> = (0..4).map(|_| render(&host, r#"{{ (genCA "x" 1).Key }}"#)).collect();
    for (at, key) in made.iter().enumerate() {
        assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
        assert!(!made[..at].contains(key), "one key twice");
    }
}
