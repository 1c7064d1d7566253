//! The order of ports in Kubernetes.
//!
//! Kubernetes sorts them by a hash of their Go representation. Clients compare whole lists, so the order must be the same here.

use super::slice::Port;

/// 128-bit FNV-1a.
fn hash(text: &str) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// Formats a nullable pointer as Go does.
fn format_pointer<T: ToString>(kind: &str, value: Option<&T>) -> String {
    format!("(*{kind}){}", value.map_or_else(|| "<nil>".to_owned(), ToString::to_string))
}

/// Returns the sort key of a port of an `EndpointSlice`.
pub fn slice_port_key(port: &Port) -> u128 {
    hash(&format!(
        "(v1.EndpointPort){{Name:{} Protocol:{} Port:{} AppProtocol:{}}}",
        format_pointer("string", port.name.as_ref()),
        format_pointer("v1.Protocol", port.protocol.as_ref()),
        format_pointer("int32", port.number.as_ref()),
        format_pointer("string", port.app_protocol.as_ref()),
    ))
}

/// Returns the sort key of a port of an `Endpoints` object.
pub fn endpoints_port_key(port: &Port) -> u128 {
    hash(&format!(
        "(v1.EndpointPort){{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:{}}}",
        port.name.as_deref().unwrap_or_default(),
        port.number.unwrap_or_default(),
        port.protocol.as_deref().unwrap_or_default(),
        format_pointer("string", port.app_protocol.as_ref()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values were computed by Kubernetes' own functions.
    #[test]
    fn ports_hash_as_in_kubernetes() {
        let port = |name: &str, app: Option<&str>| Port {
            name: Some(name.to_owned()),
            number: Some(80),
            protocol: Some("TCP".to_owned()),
            app_protocol: app.map(str::to_owned),
        };
        assert_eq!(slice_port_key(&port("http", None)), 0xb6c4_d325_122a_5ba6_f795_b0bb_ffce_bb6f);
        assert_eq!(slice_port_key(&port("", Some("https"))), 0x56b4_d554_2278_e707_88dd_5983_1c43_b639);
        assert_eq!(endpoints_port_key(&port("http", None)), 0x754b_003f_50f1_33a5_39c6_0d18_cfb3_0a55);
        assert_eq!(endpoints_port_key(&port("", Some("x y"))), 0x9fd6_e334_e41d_d23e_c49b_ae34_80cc_c155);
    }
}
