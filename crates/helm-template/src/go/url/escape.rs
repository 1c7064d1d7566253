//! Percent-encoding of URL parts.

use crate::go::quote_bytes;

/// A part of a URL, each with its own escaping rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlPart {
    Path,
    Host,
    /// The zone of an IPv6 address: `%25eth0`.
    Zone,
    User,
    Fragment,
}

/// Whether the byte must be percent-encoded in this part.
fn needs_escape(byte: u8, part: UrlPart) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        UrlPart::Host | UrlPart::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        UrlPart::Path => !b"$&+,/:;=@".contains(&byte),
        UrlPart::User => !b"$&+,;=".contains(&byte),
        UrlPart::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

pub(super) fn escape(text: &[u8], part: UrlPart) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if needs_escape(*byte, part) {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(*byte);
        }
    }
    out
}

/// Decodes percent escapes. Fails if one is malformed or not allowed in this part.
pub(super) fn unescape(text: &[u8], part: UrlPart) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            if matches!(part, UrlPart::Host | UrlPart::Zone) && byte.is_ascii() && needs_escape(*byte, part) {
                let shown = quote_bytes(&[*byte]);
                return Err(format!("invalid character {shown} in host name"));
            }
            out.push(*byte);
            rest = after;
            continue;
        }
        let shown = &rest[..rest.len().min(3)];
        let bad = || format!("invalid URL escape {}", quote_bytes(shown));
        let hex = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (hex(0), hex(1)) else { return Err(bad()) };
        let value = u8::try_from(high * 16 + low).unwrap_or_default();
        let allowed = match part {
            // In a host, only non-ASCII bytes may be escaped, and the percent sign before a zone.
            UrlPart::Host => high >= 8 || shown == b"%25",
            UrlPart::Zone => shown == b"%25" || value == b' ' || !needs_escape(value, UrlPart::Host),
            UrlPart::Path | UrlPart::User | UrlPart::Fragment => true,
        };
        if !allowed {
            return Err(bad());
        }
        out.push(value);
        rest = &rest[3..];
    }
    Ok(out)
}
