//! Host names and email addresses.

use std::net::Ipv6Addr;

use helm_template::go::quote;

use super::{invalid, quoted};

pub fn hostname(text: &str) -> Result<(), String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return invalid("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return invalid("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return invalid("label starts with hyphen");
        }
        if label.ends_with('-') {
            return invalid("label ends with hyphen");
        }
        if let Some(c) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return invalid(format!("invalid character {}", quoted(c)));
        }
    }
    Ok(())
}

pub fn ipv4(text: &str) -> Result<(), String> {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return invalid("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return invalid("leading zeros");
        }
        match group.parse::<i64>() {
            Ok(0..=255) => {}
            Ok(_) => return invalid("decimal must be between 0 and 255"),
            Err(_) => return invalid(format!("strconv.Atoi: parsing {}: invalid syntax", quote(group))),
        }
    }
    Ok(())
}

pub fn ipv6(text: &str) -> Result<(), String> {
    if !text.contains(':') {
        return invalid("missing colon");
    }
    if text.contains('%') {
        return invalid("zone id is not a part of ipv6 address");
    }
    match text.parse::<Ipv6Addr>() {
        Ok(_) => Ok(()),
        Err(_) => invalid(format!("ParseAddr({}): unable to parse IP", quote(text))),
    }
}

pub fn email(text: &str) -> Result<(), String> {
    if text.len() > 254 {
        return invalid("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else { return invalid("missing @") };
    if local.len() > 64 {
        return invalid("local part more than 64 characters long");
    }
    match local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inside) => {
            if inside.contains(['\\', '"']) {
                return invalid("backslash and quote are not allowed within quoted local part");
            }
        }
        None => unquoted(local)?,
    }
    if let Some(literal) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match literal.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|why| format!("invalid ipv6 address: {why}")),
            None => ipv4(literal).map_err(|why| format!("invalid ipv4 address: {why}")),
        };
    }
    hostname(domain).map_err(|why| format!("invalid domain: {why}"))
}

fn unquoted(local: &str) -> Result<(), String> {
    if local.starts_with('.') {
        return invalid("starts with dot");
    }
    if local.ends_with('.') {
        return invalid("ends with dot");
    }
    if local.contains("..") {
        return invalid("consecutive dots");
    }
    match local.chars().find(|c| !c.is_ascii_alphanumeric() && !".!#$%&'*+-/=?^_`{|}~".contains(*c)) {
        Some(c) => invalid(format!("invalid character {}", quoted(c))),
        None => Ok(()),
    }
}

/// Helm 3's email check: also accepts a display name in front.
pub fn is_mailbox(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let is_atom = |atom: &str| {
        let plain = |c: char| c.is_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
        !atom.is_empty() && atom.chars().all(plain)
    };
    let is_quoted = |local: &str| local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        (local.split('.').all(is_atom) || is_quoted(local)) && domain.split('.').all(is_atom)
    })
}
