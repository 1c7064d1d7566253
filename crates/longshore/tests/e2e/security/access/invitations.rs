//! Invitations accepted by the wrong user.

use http::Method;
use serde_json::{Value, json};

use crate::platform::{PlatformUser, call, unused_phone};
use crate::target::Cluster;

#[tokio::test]
async fn invitation_hijacked_by_registering_the_invited_address() {
    let (cluster, server) = Cluster::with_platform().await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let invitee = PlatformUser::register(&server, &cluster).await;
    let space = format!("inv{}", &ana.id[1..9]);
    ana.workspace(&cluster, &space).await;
    let (phone, platform) = (unused_phone(), server.platform());
    let address = format!("boss{phone}@example.com");
    let invitations = format!("workspaces/{space}/invitations");
    let mut codes = Vec::new();
    for to in [&address, &phone] {
        let made = ana.call(Method::POST, &invitations, Some(&json!({"to": to, "role": "admin"}))).await;
        assert_eq!(made.code, 201, "{}", made.text);
        codes.push(made.json()["code"].clone());
    }

    // Email addresses and phone numbers are not verified, so anyone can register them.
    cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/user-{phone}"));
    let body = json!({"email": address, "phone": phone, "organization": "Mallory"});
    let mallory = call(&platform, None, Method::POST, "users", Some(&body)).await;
    assert_eq!(mallory.code, 201, "{}", mallory.text);
    let token = mallory.json()["token"].as_str().unwrap().to_owned();
    let as_mallory = async |method: Method, path: &str, body: Option<&Value>| {
        call(&platform, Some(&token), method, path, body).await
    };
    let listed = as_mallory(Method::GET, "invitations", None).await;
    assert_eq!(listed.json()["items"], json!([]), "{}", listed.text);
    let accept = format!("invitations/{space}");
    for body in [
        None,
        Some(json!({})),
        Some(json!({"code": ""})),
        Some(json!({"code": "abcdefghijkmnpqrstuvwxyz23"})),
    ] {
        let accepted = as_mallory(Method::POST, &accept, body.as_ref()).await;
        assert_eq!(accepted.code, 404, "{body:?}: {}", accepted.text);
    }
    let declined = as_mallory(Method::DELETE, &accept, None).await;
    assert_eq!(declined.code, 404, "{}", declined.text);
    let members = ana.get(&format!("workspaces/{space}/members")).await;
    assert_eq!(members["items"].as_array().unwrap().len(), 1, "{members}");

    // The invitation code admits its holder, once.
    let body = json!({"code": codes[0]});
    let joined = invitee.call(Method::POST, &accept, Some(&body)).await;
    assert_eq!((joined.code, joined.json()["role"].as_str()), (200, Some("admin")), "{}", joined.text);
    let again = as_mallory(Method::POST, &accept, Some(&body)).await;
    assert_eq!(again.code, 404, "{}", again.text);
}
