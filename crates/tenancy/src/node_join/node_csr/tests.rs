//! Certificate requests as OpenSSL creates them.

use super::*;

/// A kubelet's request.
const KUBELET_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHuMIGWAgEAMDQxFTATBgNVBAoMDHN5c3RlbTpub2RlczEbMBkGA1UEAwwSc3lz
dGVtOm5vZGU6ZWRnZS0xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEi1mhXSwj
bWC4+xDWr+lp+jIavVSUXw0mzWx+wzt5IQYUZ87MFiRS7fiD8/GTmQv934r8Me/k
/Dygtui73l0eG6AAMAoGCCqGSM49BAMCA0cAMEQCIBfgurkNK3G43+RF9igpTOmF
pjRGdngOXIR/auI49ZotAiALw0I8CYZr3I2bKtHMaqCsHHjBmew9aQr2bv6ruEJ2
6A==
-----END CERTIFICATE REQUEST-----
";
/// A request of yurthub, with three organizations.
const YURTHUB_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIIBMDCB1wIBADB1MRkwFwYDVQQKDBBvcGVueXVydDp5dXJ0aHViMRUwEwYDVQQK
DAxzeXN0ZW06bm9kZXMxJDAiBgNVBAoMG29wZW55dXJ0OnRlbmFudDp1YWFhYWFh
YWFhYTEbMBkGA1UEAwwSc3lzdGVtOm5vZGU6ZWRnZS0xMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEi1mhXSwjbWC4+xDWr+lp+jIavVSUXw0mzWx+wzt5IQYUZ87M
FiRS7fiD8/GTmQv934r8Me/k/Dygtui73l0eG6AAMAoGCCqGSM49BAMCA0gAMEUC
IBoF3csUAuf5EHUdloWvJi9ocasGTUQIO/3lv2kWhgsPAiEAyffUXWI5bi9T4e6t
/y8HOKdMrfwiU11oFTDScpDkFpY=
-----END CERTIFICATE REQUEST-----
";
/// With an organizational unit, which is not allowed.
const ORGANIZATIONAL_UNIT_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIH7MIGiAgEAMEAxFTATBgNVBAoMDHN5c3RlbTpub2RlczEKMAgGA1UECwwBeDEb
MBkGA1UEAwwSc3lzdGVtOm5vZGU6ZWRnZS0xMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEi1mhXSwjbWC4+xDWr+lp+jIavVSUXw0mzWx+wzt5IQYUZ87MFiRS7fiD
8/GTmQv934r8Me/k/Dygtui73l0eG6AAMAoGCCqGSM49BAMCA0gAMEUCIQDgCaeW
z7Wf9zl5C7AtFVuvGEvfgl9ZEnKOo6nwtVKUQAIgH7McJSxOWVT0WuEWDls6tN/D
PgJp19WNdhZ6kxVPgiI=
-----END CERTIFICATE REQUEST-----
";
/// With two common names.
const TWO_NAMES_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIIBDDCBswIBADBRMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxGzAZBgNVBAMMEnN5
c3RlbTpub2RlOmVkZ2UtMTEbMBkGA1UEAwwSc3lzdGVtOm5vZGU6ZWRnZS0yMFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEi1mhXSwjbWC4+xDWr+lp+jIavVSUXw0m
zWx+wzt5IQYUZ87MFiRS7fiD8/GTmQv934r8Me/k/Dygtui73l0eG6AAMAoGCCqG
SM49BAMCA0gAMEUCIQD5eZiSiTnvq9k9tPacXUYaiOkWNs6+Ngkix0ESl41AjAIg
XINe4YFEDSnUeAEU0lcrUSD/rzmXrQYCYuf4uWN3DqM=
-----END CERTIFICATE REQUEST-----
";
/// With an address of the cluster itself.
const SAN_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIIBHjCBxgIBADA0MRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxGzAZBgNVBAMMEnN5
c3RlbTpub2RlOmVkZ2UtMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABItZoV0s
I21guPsQ1q/pafoyGr1UlF8NJs1sfsM7eSEGFGfOzBYkUu34g/Pxk5kL/d+K/DHv
5Pw8oLbou95dHhugMDAuBgkqhkiG9w0BCQ4xITAfMB0GA1UdEQQWMBSCEmt1YmVy
bmV0ZXMuZGVmYXVsdDAKBggqhkjOPQQDAgNHADBEAiBrvrP3d70miP/l5GPGuMdJ
fSyeqdS88Cxr7XIThLX30AIgf83YAUgEBbBO+HqL2+3PQRn5CkoW4dsIuoN5yDqQ
SXk=
-----END CERTIFICATE REQUEST-----
";
/// Without an organization.
const NO_ORGANIZATION_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHXMH8CAQAwHTEbMBkGA1UEAwwSc3lzdGVtOm5vZGU6ZWRnZS0xMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEi1mhXSwjbWC4+xDWr+lp+jIavVSUXw0mzWx+wzt5
IQYUZ87MFiRS7fiD8/GTmQv934r8Me/k/Dygtui73l0eG6AAMAoGCCqGSM49BAMC
A0gAMEUCIQCS2tMmyWeOKfzvbUn/P9sitQc2yHL5lvILdSPciWFC1wIgE0GRWGZC
4dweKZTIsybwfX1kZVKt8y7y/7ID6uE+jI8=
-----END CERTIFICATE REQUEST-----
";
/// With an invalid signature.
const FORGED_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHuMIGWAgEAMDQxFTATBgNVBAoMDHN5c3RlbTpub2RlczEbMBkGA1UEAwwSc3lz
dGVtOm5vZGU6ZWRnZS0xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEi1mhXSwj
bWC4+xDWr+lp+jIavVSUXw0mzWx+wzt5IQYUZ87MFiRS7fiD8/GTmQv934r8Me/k
/Dygtui73l0eG6AAMAoGCCqGSM49BAMCA0cAMEQCIBfgurkNK3G43+RF9igpTOmF
pjRGdngOXIR/auI49ZotAiALw0I8CYZr3I2bKtHMaqCsHHjBmew9aQr2bv6ruEJ2
6Q==
-----END CERTIFICATE REQUEST-----
";

fn parse_csr(pem: &str, signer: &str) -> NodeCsr {
    NodeCsr {
        uid: String::new(),
        user: String::new(),
        groups: Vec::new(),
        signer: signer.to_owned(),
        usages: Vec::new(),
        created: Timestamp::UNIX_EPOCH,
        expiration_seconds: None,
        subject: CsrSubject::parse(pem.as_bytes()),
    }
}

#[test]
fn csr_subject_identifies_exactly_one_node() {
    let two = format!("{KUBELET_PEM}{KUBELET_PEM}");
    let table = [
        (KUBELET_PEM, KUBELET_SIGNER, Some(NodeProgram::Kubelet)),
        (KUBELET_PEM, CLIENT_SIGNER, None),
        (YURTHUB_PEM, CLIENT_SIGNER, Some(NodeProgram::Yurthub)),
        (YURTHUB_PEM, KUBELET_SIGNER, None),
        (ORGANIZATIONAL_UNIT_PEM, KUBELET_SIGNER, None),
        (TWO_NAMES_PEM, KUBELET_SIGNER, None),
        (SAN_PEM, KUBELET_SIGNER, None),
        (NO_ORGANIZATION_PEM, KUBELET_SIGNER, None),
        (FORGED_PEM, KUBELET_SIGNER, None),
        (two.as_str(), KUBELET_SIGNER, None),
        ("", KUBELET_SIGNER, None),
        (
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
            KUBELET_SIGNER,
            None,
        ),
    ];
    for (pem, signer, expected) in table {
        let csr = parse_csr(pem, signer);
        let identity = csr.node_and_program("uaaaaaaaaaa");
        assert_eq!(identity, expected.map(|program| ("edge-1", program)), "{pem}");
    }
    assert_eq!(parse_csr(FORGED_PEM, KUBELET_SIGNER).subject, None);
    assert_eq!(
        parse_csr(NO_ORGANIZATION_PEM, KUBELET_SIGNER).subject.unwrap().organizations,
        Vec::<String>::new()
    );
}
