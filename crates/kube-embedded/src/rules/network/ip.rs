//! IP addresses and CIDRs, with the error messages of Kubernetes.
//!
//! Old fields used to be parsed leniently: `010.0.0.1` was valid. Since 1.36 new values must be strict;
//! existing ones may stay.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::check::PathValue;

/// Parses an address leniently: leading zeros are skipped.
pub fn parse(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| lenient_v4(text).map(IpAddr::V4))
}

fn lenient_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = text.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse::<u8>().ok()).flatten()
    });
    let parts = [octets.next()??, octets.next()??, octets.next()??, octets.next()??];
    octets.next().is_none().then(|| Ipv4Addr::from(parts))
}

/// Formats an address as Go does: IPv4-mapped IPv6 is written as IPv4.
pub fn canonical(ip: IpAddr) -> String {
    ip.to_canonical().to_string()
}

pub fn is_v6(text: &str) -> bool {
    parse(text).is_some_and(|ip| ip.to_canonical().is_ipv6())
}

/// A CIDR: address and prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub ip: IpAddr,
    pub prefix: u8,
}

impl Cidr {
    /// Parses leniently, as [`parse`].
    pub fn parse(text: &str) -> Option<Self> {
        let (ip, prefix) = text.split_once('/')?;
        let ip = parse(ip)?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|prefix| digits && *prefix <= Self::bits(ip))?;
        Some(Self { ip, prefix })
    }

    fn bits(ip: IpAddr) -> u8 {
        if ip.is_ipv4() { 32 } else { 128 }
    }

    /// The first address of the range.
    pub fn network_address(self) -> IpAddr {
        match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                Ipv4Addr::from(u32::from(ip) & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                Ipv6Addr::from(u128::from(ip) & mask).into()
            }
        }
    }

    pub fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4()
            && Self { ip, prefix: self.prefix }.network_address() == self.network_address()
    }

    pub fn canonical(self) -> String {
        format!("{}/{}", self.network_address(), self.prefix)
    }
}

/// Errors of an address that must be strict.
fn strict_ip_errors(text: &str) -> Vec<&'static str> {
    let Some(ip) = parse(text) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"];
    };
    if text.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s"];
    }
    if ip.is_ipv6() && ip.to_canonical().is_ipv4() {
        return vec!["must not be an IPv4-mapped IPv6 address"];
    }
    Vec::new()
}

/// An address in a legacy field; `known` are the previous values.
pub fn validate_legacy_ip(at: &PathValue, known: &HashSet<&str, impl BuildHasher>, errs: &mut FieldErrors) {
    if known.contains(at.text()) {
        return;
    }
    errs.extend(
        strict_ip_errors(at.text()).into_iter().map(|words| FieldError::invalid(&at.path, at.text(), words)),
    );
}

/// An address in its canonical form.
pub fn validate_strict_ip(at: &PathValue, errs: &mut FieldErrors) {
    let before = errs.len();
    validate_legacy_ip(at, &HashSet::<&str>::new(), errs);
    let canonical = parse(at.text()).map(canonical).unwrap_or_default();
    if errs.len() == before && canonical != at.text() {
        let words = format!("must be in canonical form ({canonical:?})");
        errs.push(FieldError::invalid(&at.path, at.text(), words));
    }
}

/// An address that can be an endpoint.
pub fn validate_endpoint_ip(at: &PathValue, errs: &mut FieldErrors) {
    let text = at.text();
    let mut refuse = |words: String| errs.push(FieldError::invalid(&at.path, text, words));
    let Some(ip) = parse(text).map(|ip| ip.to_canonical()) else {
        refuse("must be a valid IP address".to_owned());
        return;
    };
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => {
            (ip.is_unicast_link_local(), ip.octets()[0] == 0xff && ip.octets()[1] & 0x0f == 0x02)
        }
    };
    if ip.is_unspecified() {
        refuse(format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
}

/// The error of a CIDR that must be strict.
fn strict_cidr_error(text: &str) -> Option<&'static str> {
    let Some(range) = Cidr::parse(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (ip, prefix) = text.split_once('/').unwrap_or((text, ""));
    if ip.parse::<IpAddr>().is_err() || (prefix.len() > 1 && prefix.starts_with('0')) {
        return Some("must not have leading 0s in IP or prefix length");
    }
    if range.ip.is_ipv6() && range.ip.to_canonical().is_ipv4() {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    (range.network_address() != range.ip).then_some("must not have bits set beyond the prefix length")
}

/// A CIDR in a legacy field; `known` are the previous values.
pub fn validate_legacy_cidr(
    text: &str,
    path: &Path,
    known: &HashSet<&str, impl BuildHasher>,
    errs: &mut FieldErrors,
) {
    if !known.contains(text) {
        errs.extend(strict_cidr_error(text).map(|words| FieldError::invalid(path, text, words)));
    }
}

/// A CIDR in its canonical form.
pub fn validate_strict_cidr(at: &PathValue, errs: &mut FieldErrors) {
    let before = errs.len();
    validate_legacy_cidr(at.text(), &at.path, &HashSet::<&str>::new(), errs);
    let canonical = Cidr::parse(at.text()).map(Cidr::canonical).unwrap_or_default();
    if errs.len() == before && canonical != at.text() {
        let words = format!("must be in canonical form ({canonical:?})");
        errs.push(FieldError::invalid(&at.path, at.text(), words));
    }
}

/// A warning about an address in a non-standard notation.
pub fn ip_warning(at: &PathValue) -> Option<String> {
    let (path, text) = (&at.path, at.text());
    let ip = parse(text)?;
    let odd = text.parse::<IpAddr>().is_err() || ip.is_ipv6() && ip.to_canonical().is_ipv4();
    if odd {
        let better = canonical(ip);
        return Some(format!("{path}: non-standard IP address {text:?} is invalid: use {better:?}"));
    }
    (ip.is_ipv6() && ip.to_string() != text).then(|| {
        format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({:?})", ip.to_string())
    })
}

/// Warnings about a CIDR in a non-standard notation.
pub fn cidr_warnings(at: &PathValue) -> Vec<String> {
    let (path, text) = (&at.path, at.text());
    let Some(range) = Cidr::parse(text) else { return Vec::new() };
    let mut warnings = Vec::new();
    let canonical = range.canonical();
    if range.network_address() != range.ip {
        let alone = format!("{}/{}", range.ip, Cidr::bits(range.ip));
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be {canonical:?} or {alone:?}?)"
        ));
    }
    let (ip, prefix) = text.split_once('/').unwrap_or((text, ""));
    let zeros = prefix.len() > 1 && prefix.starts_with('0');
    let mapped = range.ip.is_ipv6() && range.ip.to_canonical().is_ipv4();
    if ip.parse::<IpAddr>().is_err() || zeros || mapped {
        warnings.push(format!("{path}: non-standard CIDR value {text:?} is invalid: use {canonical:?}"));
    }
    let shown = format!("{}/{}", range.ip, range.prefix);
    if warnings.is_empty() && range.ip.is_ipv6() && shown != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({shown:?})"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_leniently_and_validated_strictly() {
        assert_eq!(parse("010.1.1.1"), Some(Ipv4Addr::new(10, 1, 1, 1).into()));
        for bad in ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "a::b::c", "fe80::1%eth0", "+1.2.3.4"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        let table = [
            ("10.0.0.1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
        ];
        for (text, words) in table {
            assert_eq!(strict_ip_errors(text).first().copied(), words, "{text}");
        }
        let table = [
            ("10.0.0.0/8", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            ("10.0.0.0/33", Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
            ("::/0", None),
        ];
        for (text, words) in table {
            assert_eq!(strict_cidr_error(text), words, "{text}");
        }
        assert!(Cidr::parse("10.96.0.0/16").unwrap().contains("10.96.255.1".parse().unwrap()));
        assert!(!Cidr::parse("10.96.0.0/16").unwrap().contains("10.97.0.1".parse().unwrap()));
    }
}
