//! Private addresses are never dialled, whether given literally, by name, by redirect or by DNS rebinding.

use outbound::{DialError, FetchError};
use proptest::prelude::*;

use crate::fake_network::{FakeNetwork, PUBLIC, ok, redirect};

/// Private addresses in the spellings known from SSRF attacks.
const PRIVATE: &[&str] = &[
    "127.0.0.1",
    "127.8.9.10",
    "10.1.2.3",
    "172.20.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.100.100.200",
    "0.0.0.0",
    "224.0.0.251",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::169.254.169.254]",
    "[2002:7f00:1::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "metadata.example",
];

fn redirecting_network(leads_to: String) -> FakeNetwork {
    let answer = move |request: &http::Request<hyper::body::Incoming>| {
        if request.uri().path() == "/on" { redirect(&leads_to) } else { ok("what nobody should read") }
    };
    let network = FakeNetwork::new(answer).with_host("public.example", &[&[PUBLIC]]);
    ["localhost", "localhost.", "metadata.example"]
        .into_iter()
        .fold(network, |network, name| network.with_host(name, &[&["169.254.169.254"]]))
}

#[tokio::test]
async fn nobody_is_led_to_what_is_private() {
    let mut attempts = 0;
    for host in PRIVATE {
        for scheme in ["http", "https"] {
            for port in ["", ":80", ":443", ":6443", ":10250"] {
                let address = format!("{scheme}://{host}{port}/latest/meta-data");
                let direct = redirecting_network(String::new());
                let said = direct.get(&address).await.unwrap_err();
                assert!(matches!(said, FetchError::Dial(DialError::Refused { .. })), "{address}: {said}");
                assert_eq!(said.kind(), domain::ErrorKind::Forbidden);
                assert_eq!(direct.dialled(), [], "{address}");

                let led = redirecting_network(address.clone());
                let said = led.get("http://public.example/on").await.unwrap_err();
                assert!(matches!(said, FetchError::Dial(DialError::Refused { .. })), "{address}: {said}");
                assert_eq!(led.dialled(), [format!("{PUBLIC}:80").parse().unwrap()], "{address}");
                attempts += 2;
            }
        }
    }
    assert!(attempts >= 500, "{attempts}");
}

#[tokio::test]
async fn dns_rebinding_dials_only_checked_addresses() {
    // The first answer is checked, and an address of that answer is dialled.
    let rebinding =
        redirecting_network(String::new()).with_host("rebind.example", &[&[PUBLIC], &["127.0.0.1"]]);
    rebinding.get("http://rebind.example/").await.unwrap();
    assert_eq!(
        (rebinding.dialled(), rebinding.resolved()),
        (vec![format!("{PUBLIC}:80").parse().unwrap()], 1)
    );
    let said = rebinding.get("http://rebind.example/").await.unwrap_err();
    assert!(matches!(said, FetchError::Dial(DialError::Refused { .. })), "{said}");
    assert!(!said.to_string().contains("127.0.0.1"), "the resolved address is not disclosed: {said}");
    assert_eq!(rebinding.dialled().len(), 1);
}

#[tokio::test]
async fn host_with_public_and_private_address_is_refused() {
    for answer in [["127.0.0.1", PUBLIC], [PUBLIC, "127.0.0.1"], [PUBLIC, "::ffff:10.0.0.1"]] {
        let network = redirecting_network(String::new()).with_host("both.example", &[&answer]);
        let said = network.get("http://both.example/").await.unwrap_err();
        assert!(matches!(said, FetchError::Dial(DialError::Refused { .. })), "{said}");
        assert_eq!(network.dialled(), [], "{answer:?}");
    }
}

#[tokio::test]
async fn unresolved_host_is_named_in_the_error() {
    let network = redirecting_network(String::new()).with_host("empty.example", &[&[]]);
    let said = network.get("http://empty.example/?token=canary").await.unwrap_err().to_string();
    assert_eq!(said, "cannot resolve `empty.example`: no address found");
    let said = network.get("http://unknown.example/?token=canary").await.unwrap_err().to_string();
    assert_eq!(said, "cannot resolve `unknown.example`: no such name");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Only allowed addresses are dialled, wherever a redirect points.
    #[test]
    fn redirect_never_dials_denied_address(
        scheme in "(http|https|HTTP|file|gopher|//|)",
        user in "(|a@|a:b@|public.example@)",
        host in "(127\\.0\\.0\\.1|[0-9]{1,10}|0x[0-9a-f]{1,8}|\\[[0-9a-f:]{2,12}\\]|localhost|public\\.example|[a-z.%\\\\]{1,9})",
        port in "(|:[0-9]{1,5})",
        path in "[a-z/?#@\\\\]{0,8}",
    ) {
        let to = if scheme.is_empty() { format!("//{user}{host}{port}/{path}") } else { format!("{scheme}://{user}{host}{port}/{path}") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let dialled = runtime.block_on(async {
            let network = redirecting_network(to.clone());
            let _ = network.get("http://public.example/on").await;
            network.dialled()
        });
        for address in dialled {
            prop_assert!(outbound::EgressPolicy::default().check(address.ip()).is_ok(), "{to}: {address}");
        }
    }
}
