//! URL parsing.

use super::address::check_ipv6;
use super::escape::{UrlPart, unescape};
use super::{Url, User};
use crate::go::quote_bytes;
use crate::profile::Profile;

impl Url {
    pub fn parse(text: &[u8], profile: Profile) -> Result<Self, String> {
        let (rest, fragment) = cut(text, b'#');
        let blame = |text: &[u8], why: String| format!("parse {}: {why}", quote_bytes(text));
        let mut url = parse(rest, profile).map_err(|why| blame(rest, why))?;
        url.fragment = unescape(fragment, UrlPart::Fragment).map_err(|why| blame(text, why))?;
        Ok(url)
    }
}

/// Parses the userinfo of a URL (the part before `@`).
pub fn parse_userinfo(text: &[u8], profile: Profile) -> Result<Option<User>, String> {
    let whole = [b"proto://", text, b"@host"].concat();
    Ok(Url::parse(&whole, profile)?.user)
}

fn cut(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match memchr::memchr(at, text) {
        Some(place) => (&text[..place], &text[place + 1..]),
        None => (text, &[]),
    }
}

fn parse(text: &[u8], profile: Profile) -> Result<Url, String> {
    if text.iter().any(u8::is_ascii_control) {
        return Err("net/url: invalid control character in URL".into());
    }
    let mut url = Url::default();
    if text == b"*" {
        url.path = text.to_vec();
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = cut(rest, b'?');
    url.query = query.to_vec();
    if !rest.starts_with(b"/") {
        if !scheme.is_empty() {
            url.opaque = rest.to_vec();
            return Ok(url);
        }
        // Go rejects a colon in the first segment of a relative path, because it could be confused with a scheme.
        if cut(rest, b'/').0.contains(&b':') {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    if (!scheme.is_empty() || !rest.starts_with(b"///")) && rest.starts_with(b"//") {
        let after = &rest[2..];
        let end = memchr::memchr(b'/', after).unwrap_or(after.len());
        let authority = &after[..end];
        rest = &after[end..];
        (url.user, url.host) = user_and_host(&url.scheme, authority, profile)?;
    }
    url.path = unescape(rest, UrlPart::Path)?;
    Ok(url)
}

fn scheme(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok((&[], text))
}

fn user_and_host(
    scheme: &[u8],
    authority: &[u8],
    profile: Profile,
) -> Result<(Option<User>, Vec<u8>), String> {
    let Some(at) = memchr::memrchr(b'@', authority) else {
        return Ok((None, host(scheme, authority, profile)?));
    };
    let host = host(scheme, &authority[at + 1..], profile)?;
    let info = &authority[..at];
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !info.iter().all(fine) {
        return Err("net/url: invalid userinfo".into());
    }
    let (name, password) = cut(info, b':');
    let name = unescape(name, UrlPart::User)?;
    let password = info.contains(&b':').then(|| unescape(password, UrlPart::User)).transpose()?;
    Ok((Some(User { name, password }), host))
}

fn host(scheme: &[u8], host: &[u8], profile: Profile) -> Result<Vec<u8>, String> {
    let bracket = memchr::memrchr(b'[', host);
    if profile == Profile::Helm4 && bracket.is_some_and(|at| at > 0) {
        return Err("invalid IP-literal".into());
    }
    if host.starts_with(b"[") {
        return bracketed(host, profile);
    }
    let last = memchr::memrchr(b':', host);
    // Lists of hosts with ports are not valid URLs but occur in database connection strings, so Go is strict only for HTTP.
    let strict = profile == Profile::Helm4 && matches!(scheme, b"http" | b"https");
    let colon = if strict { memchr::memchr(b':', host) } else { last };
    if let Some(colon) = colon {
        check_port(&host[colon..])?;
    }
    unescape(host, UrlPart::Host)
}

/// An IPv6 address in brackets, with an optional zone and port.
fn bracketed(host: &[u8], profile: Profile) -> Result<Vec<u8>, String> {
    let end = memchr::memrchr(b']', host).ok_or("missing ']' in host")?;
    let (inside, port) = (&host[1..end], &host[end + 1..]);
    check_port(port)?;
    let zone = memchr::memmem::find(inside, b"%25");
    // Before Go 1.26 the address was not validated, and the brackets were part of the unescaped host.
    if profile == Profile::Helm3 {
        let Some(zone) = zone else { return unescape(host, UrlPart::Host) };
        let (before, rest) = host.split_at(zone + 1);
        let mut all = unescape(before, UrlPart::Host)?;
        all.extend(unescape(&rest[..end - before.len()], UrlPart::Zone)?);
        all.extend_from_slice(&host[end..]);
        return Ok(all);
    }
    let (before, zone) = inside.split_at(zone.unwrap_or(inside.len()));
    let mut address = unescape(before, UrlPart::Host)?;
    address.extend(unescape(zone, UrlPart::Zone)?);
    check_ipv6(&address)?;
    Ok([b"[", address.as_slice(), b"]", port].concat())
}

fn check_port(port: &[u8]) -> Result<(), String> {
    match port {
        [] => Ok(()),
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => Ok(()),
        port => Err(format!("invalid port {} after host", quote_bytes(port))),
    }
}
