//! Validation of IPv6 addresses in brackets, as in Go's `net/netip`.

use crate::go::quote_bytes;

/// An error message and the address text from the error on.
type Ipv6Error<'a> = (&'static str, &'a [u8]);

pub(super) fn check_ipv6(address: &[u8]) -> Result<(), String> {
    let checked = match address.iter().find(|byte| b".:%".contains(byte)) {
        // IPv4 addresses are not allowed in brackets.
        Some(b'.') => match ipv4(address) {
            Ok(()) => return Err("invalid IP-literal".into()),
            Err(flaw) => Err(flaw),
        },
        Some(b':') => ipv6(address),
        Some(_) => Err(("missing IPv6 address", [].as_slice())),
        None => Err(("unable to parse IP", [].as_slice())),
    };
    checked.map_err(|(says, from)| {
        let at = if from.is_empty() { String::new() } else { format!(" (at {})", quote_bytes(from)) };
        format!("invalid host: ParseAddr({}): {says}{at}", quote_bytes(address))
    })
}

fn ipv4(text: &[u8]) -> Result<(), Ipv6Error<'_>> {
    let (mut value, mut digits, mut dots) = (0, 0, 0);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", &[]));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", &[]));
                }
            }
            b'.' => {
                if digits == 0 || at == text.len() - 1 {
                    return Err(("IPv4 field must have at least one digit", &text[at..]));
                }
                if dots == 3 {
                    return Err(("IPv4 address too long", &[]));
                }
                (value, digits) = (0, 0);
                dots += 1;
            }
            _ => return Err(("unexpected character", &text[at..])),
        }
    }
    if dots < 3 { Err(("IPv4 address too short", &[])) } else { Ok(()) }
}

fn ipv6(address: &[u8]) -> Result<(), Ipv6Error<'_>> {
    let mut rest = address;
    if let Some(at) = memchr::memchr(b'%', address) {
        if at + 1 == address.len() {
            return Err(("zone must be a non-empty string", &[]));
        }
        rest = &address[..at];
    }
    let mut shortened = false;
    if let Some(after) = rest.strip_prefix(b"::") {
        if after.is_empty() {
            return Ok(());
        }
        (rest, shortened) = (after, true);
    }
    // Eight groups of two bytes.
    let mut groups = 0;
    while groups < 8 {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        match digits {
            0 => return Err(("each colon-separated field must have at least one digit", rest)),
            1..=4 => {}
            _ => return Err(("each group must have 4 or less digits", rest)),
        }
        let after = &rest[digits..];
        if after.starts_with(b".") {
            if !shortened && groups != 6 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if groups > 6 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            ipv4(rest)?;
            rest = &[];
            groups += 2;
            break;
        }
        groups += 1;
        rest = match after {
            [] => after,
            [b':'] => return Err(("colon must be followed by more characters", after)),
            [b':', more @ ..] => more,
            _ => return Err(("unexpected character, want colon", after)),
        };
        if rest.is_empty() {
            break;
        }
        if let Some(after) = rest.strip_prefix(b":") {
            if shortened {
                return Err(("multiple :: in address", rest));
            }
            (rest, shortened) = (after, true);
            if rest.is_empty() {
                break;
            }
        }
    }
    match (rest.is_empty(), groups, shortened) {
        (false, ..) => Err(("trailing garbage after address", rest)),
        (_, 8, true) => Err(("the :: must expand to at least one field of zeros", &[])),
        (_, 8, false) | (_, _, true) => Ok(()),
        _ => Err(("address string too short", &[])),
    }
}
