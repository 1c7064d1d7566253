//! URLs, as far as Go's `net/url` rejects them.

use helm_template::go::quote;

use super::address::ipv6;
use super::invalid;

/// The scheme of a URL that Go can parse.
pub fn scheme(text: &str) -> Result<Option<&str>, String> {
    let bad = |why: &str| invalid(format!("parse {}: {why}", quote(text)));
    if text.chars().any(|c| c.is_ascii_control()) {
        return bad("net/url: invalid control character in URL");
    }
    let whole = text.split_once('#').map_or(text, |(text, _)| text);
    let (scheme, rest) = match whole.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)) {
        Some(0) if whole.starts_with(':') => return bad("missing protocol scheme"),
        Some(colon)
            if whole[colon..].starts_with(':') && whole.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            (Some(&whole[..colon]), &whole[colon + 1..])
        }
        _ => (None, whole),
    };
    if let Some(escape) = bad_escape(rest) {
        return bad(&format!("invalid URL escape {}", quote(escape)));
    }
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    match path.strip_prefix("//") {
        Some(after) => {
            let host = after.split('/').next().unwrap_or_default();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            if let Some(c) =
                host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '}' | '|'))
            {
                return bad(&format!("invalid character {} in host name", quote(&c.to_string())));
            }
            if let Some(inside) = host.strip_prefix('[') {
                let Some((address, _)) = inside.split_once(']') else { return bad("missing ']' in host") };
                ipv6(address).map_err(|why| format!("invalid ipv6 address: {why}"))?;
            } else if let Some((_, port)) = host.rsplit_once(':')
                && !port.bytes().all(|byte| byte.is_ascii_digit())
            {
                return bad(&format!("invalid port {} after host", quote(&format!(":{port}"))));
            }
        }
        None if scheme.is_none() && path.split('/').next().is_some_and(|first| first.contains(':')) => {
            return bad("first path segment in URL cannot contain colon");
        }
        None => {}
    }
    Ok(scheme)
}

fn bad_escape(text: &str) -> Option<&str> {
    let path = text.split_once('?').map_or(text, |(path, _)| path);
    let is_hex = |at: usize| path.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    let bad = path.match_indices('%').map(|(at, _)| at).find(|at| !is_hex(at + 1) || !is_hex(at + 2))?;
    path.get(bad..bad + 3).or_else(|| path.get(bad..))
}

pub fn absolute(text: &str) -> Result<(), String> {
    match scheme(text)? {
        Some(_) => Ok(()),
        None => invalid("relative url"),
    }
}

pub fn reference(text: &str) -> Result<(), String> {
    if text.contains('\\') {
        return invalid("contains \\");
    }
    scheme(text).map(drop)
}
