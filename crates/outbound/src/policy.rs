//! Policy of reachable IP addresses.
//!
//! Addresses of this host, of private networks and of the provider's metadata services are refused, so that users
//! cannot reach addresses through the platform that they cannot reach directly (SSRF). Configuration can allow
//! networks. An IPv6 address that embeds an IPv4 address is checked by the embedded address too.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, `192.0.2.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpNetwork {
    base: IpAddr,
    bits: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network: expected one like 10.0.0.0/8, fd00::/8 or 192.0.2.7")]
pub struct ParseNetworkError(String);

impl FromStr for IpNetwork {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let bad = || ParseNetworkError(domain::ids::truncate_for_error(text));
        let (base, bits) = match text.split_once('/') {
            Some((base, bits)) => (base, Some(bits)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| bad())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), str::parse).map_err(|_| bad())?;
        if bits > width { Err(bad()) } else { Ok(Self { base, bits }) }
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

impl IpNetwork {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let differ = base.to_bits() ^ address.to_bits();
                differ.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let differ = base.to_bits() ^ address.to_bits();
                differ.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// IPv4 ranges that are refused unless allowed, with the reason.
#[rustfmt::skip]
const DENIED_V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::UNSPECIFIED,           8, "is unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0),      8, "is private"),
    (Ipv4Addr::new(100, 64, 0, 0),   10, "is shared by a provider's customers"),
    (Ipv4Addr::new(127, 0, 0, 0),     8, "is this machine"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "is a provider's metadata service"),
    (Ipv4Addr::new(169, 254, 0, 0),  16, "is link-local, as metadata services are"),
    (Ipv4Addr::new(172, 16, 0, 0),   12, "is private"),
    (Ipv4Addr::new(192, 0, 0, 0),    24, "is reserved for protocols"),
    (Ipv4Addr::new(192, 88, 99, 0),  24, "is a relay"),
    (Ipv4Addr::new(192, 168, 0, 0),  16, "is private"),
    (Ipv4Addr::new(198, 18, 0, 0),   15, "is reserved for benchmarks"),
    (Ipv4Addr::new(224, 0, 0, 0),     4, "is multicast"),
    (Ipv4Addr::new(240, 0, 0, 0),     4, "is reserved"),
];

#[rustfmt::skip]
const DENIED_V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED,                              128, "is unspecified"),
    (Ipv6Addr::LOCALHOST,                                128, "is this machine"),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0),       48, "is translated locally"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0),           64, "is discarded"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),          23, "is reserved for protocols"),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0),          16, "is reserved for routing"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),           7, "is private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),          10, "is link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0),          10, "is site-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0),           8, "is multicast"),
];

/// Reachable addresses. The default allows public addresses only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    allowed: Vec<IpNetwork>,
}

impl EgressPolicy {
    /// Additionally allows these networks.
    pub fn with_allowed(allow: impl IntoIterator<Item = IpNetwork>) -> Self {
        Self { allowed: allow.into_iter().collect() }
    }

    /// Allows everything, for the command line: its user can reach the same addresses without it.
    pub fn allow_all() -> Self {
        let all = |base| IpNetwork { base, bits: 0 };
        Self::with_allowed([all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into())])
    }

    /// Checks an address. The error names the kind of a denied address.
    pub fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        let allowed = |address| self.allowed.iter().any(|network| network.contains(address));
        if allowed(address) {
            return Ok(());
        }
        // An IPv6 address with embedded IPv4 addresses is checked by each of them and as a whole.
        let meant = embedded_ipv4(address).into_iter().filter(|meant| !allowed(*meant));
        meant.chain([address]).find_map(denied_reason).map_or(Ok(()), Err)
    }
}

fn denied_reason(address: IpAddr) -> Option<&'static str> {
    let within = |base: IpAddr, bits| IpNetwork { base, bits }.contains(address);
    let v4 = DENIED_V4.iter().map(|(base, bits, what)| (IpAddr::from(*base), *bits, *what));
    let v6 = DENIED_V6.iter().map(|(base, bits, what)| (IpAddr::from(*base), *bits, *what));
    v4.chain(v6).find(|(base, bits, _)| within(*base, *bits)).map(|(_, _, what)| what)
}

/// IPv4 addresses embedded in an IPv6 address: mapped, compatible, translated (NAT64), 6to4, ISATAP.
fn embedded_ipv4(address: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = address else { return Vec::new() };
    let segments = v6.segments();
    let at = |place: usize| {
        let bits = u32::from(segments[place]) << 16 | u32::from(segments[place + 1]);
        IpAddr::from(Ipv4Addr::from_bits(bits))
    };
    let at_its_end = match segments {
        // `::` and `::1` embed nothing.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..]
        | [.., 0 | 0x200, 0x5efe, _, _] => Some(at(6)),
        _ => None,
    };
    let behind_6to4 = (segments[0] == 0x2002).then(|| at(1));
    at_its_end.into_iter().chain(behind_6to4).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn policy_denies_non_public_addresses_in_every_spelling() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.255.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:0:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2001::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2002:a9fe:a9fe::5efe:1.1.1.1",
            "2002:101:101::5efe:10.0.0.1",
            "fe80::1",
            "fe80::5efe:10.0.0.1",
            "2a00::5efe:10.0.0.1",
            "2a00::200:5efe:c0a8:101",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
        ];
        for address in refused {
            assert!(EgressPolicy::default().check(ip(address)).is_err(), "{address}");
            assert!(EgressPolicy::allow_all().check(ip(address)).is_ok(), "{address}");
        }
        let everybodys = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "203.0.113.9",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ];
        for address in everybodys {
            assert_eq!(EgressPolicy::default().check(ip(address)), Ok(()), "{address}");
        }
    }

    #[test]
    fn policy_allows_configured_networks_in_every_spelling() {
        let policy = EgressPolicy::with_allowed(
            ["10.1.0.0/16", "fd00::/8", "127.0.0.1"].map(|text| text.parse().unwrap()),
        );
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd12::1", "127.0.0.1"] {
            assert_eq!(policy.check(ip(address)), Ok(()), "{address}");
        }
        for address in ["10.2.0.1", "::ffff:10.2.0.1", "fc00::1", "127.0.0.2", "::1"] {
            assert!(policy.check(ip(address)).is_err(), "{address}");
        }
    }

    #[test]
    fn invalid_network_is_named_in_the_error() {
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "10.0.0.0/x", "10.0.0.0/", "example.com"] {
            let said = wrong.parse::<IpNetwork>().unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{wrong}` is not a network")), "{said}");
        }
        assert_eq!("fd00::/8".parse::<IpNetwork>().unwrap().to_string(), "fd00::/8");
    }

    proptest! {
        /// An embedded IPv4 address gets the same result as the plain one.
        #[test]
        fn embedded_ipv4_is_denied_like_plain_ipv4(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let policy = EgressPolicy::default();
            if policy.check(v4.into()).is_err() {
                let [a, b, c, d] = v4.octets();
                let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                let spellings = [
                    v4.to_ipv6_mapped(),
                    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                    Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                ];
                for v6 in spellings {
                    prop_assert!(policy.check(v6.into()).is_err(), "{v6}");
                }
            }
        }
    }
}
