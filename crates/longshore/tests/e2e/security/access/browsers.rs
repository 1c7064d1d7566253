//! Cross-site requests: pages of other sites that send requests to the platform through a user's browser.

use http::Request;
use serde_json::json;

use crate::platform::unused_phone;
use crate::request::send;
use crate::target::Cluster;

#[tokio::test]
async fn page_of_another_site_registers_an_account() {
    let (cluster, server) = Cluster::with_platform().await;
    let platform = server.platform();
    let register = async |path: &str, headers: &[(&str, &str)]| {
        let phone = unused_phone();
        cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/user-{phone}"));
        let email = format!("x{phone}@example.com");
        let body = if path == "/register" {
            format!("email={email}&mobilephone={phone}&organization=Acme")
        } else {
            json!({"email": email, "phone": phone, "organization": "Acme"}).to_string()
        };
        let media =
            if path == "/register" { "application/x-www-form-urlencoded" } else { "application/json" };
        let mut request = Request::post(path).header("content-type", media);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(&platform, request.body(body.into_bytes()).unwrap()).await
    };
    for path in ["/register", "/api/longshore/v1/users"] {
        for headers in [
            [("sec-fetch-site", "cross-site")],
            [("sec-fetch-site", "same-site")],
            [("origin", "https://evil.example")],
            [("origin", "null")],
        ] {
            let refused = register(path, &headers).await;
            assert_eq!(refused.code, 403, "{path} {headers:?}: {}", refused.text);
            assert!(refused.text.contains("cross-site"), "{}", refused.text);
        }
        // DNS rebinding: a foreign host name that resolves to this address.
        let rebound = register(path, &[("host", "evil.example")]).await;
        assert_eq!(rebound.code, 403, "{path}: {}", rebound.text);
        assert!(rebound.text.contains("[server] hosts"), "{}", rebound.text);
        let own = server.url.clone();
        let well = register(path, &[("origin", &own)]).await;
        assert!((200..300).contains(&well.code), "{path}: {} {}", well.code, well.text);
    }
    let request = Request::get("/api/longshore/v1/auth/methods").header("host", "evil.example");
    let rebound = send(&platform, request.body(Vec::new()).unwrap()).await;
    assert_eq!(rebound.code, 403, "{}", rebound.text);
}
