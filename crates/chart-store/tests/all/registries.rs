//! Honest and hostile registries.

use bytes::Bytes;
use chart_store::oci::OciReference;
use chart_store::{ChartError, Digest, LoadedChart};
use domain::ErrorKind;
use outbound::Access;

use crate::fake_registry::{FakeRegistry, RegistryAuth, TOKEN};
use crate::fake_server::{FakeServer, LOGIN, fetcher, login_access, response};
use crate::fixtures::chart_archive;

async fn pull(
    served: &FakeServer,
    rest: &str,
    version: &str,
    access: &Access,
) -> Result<LoadedChart, ChartError> {
    let reference: OciReference = format!("oci://{}/{rest}", served.host).parse().unwrap();
    fetcher().from_registry(&reference, version, access, true).await
}

#[tokio::test]
async fn registry_resolves_tag_digest_and_range() {
    let content = FakeRegistry::default();
    let mut digests = Vec::new();
    for version in ["1.0.0", "1.1.0", "1.2.0+build.5", "2.0.0-rc.1", "0.1.0"] {
        digests.push(content.put("charts/web", &version.replace('+', "_"), &chart_archive("web", version)));
    }
    content.put("charts/web", "latest", &chart_archive("web", "9.9.9"));
    let served = content.serve(RegistryAuth::Open).await;
    for (rest, version, expected) in [
        ("charts/web", "", "1.2.0+build.5"),
        ("charts/web", "1.0.0", "1.0.0"),
        ("charts/web", "~1.1", "1.1.0"),
        ("charts/web", "1.2.0+build.5", "1.2.0+build.5"),
        ("charts/web", ">0-0", "2.0.0-rc.1"),
        ("charts/web:1.1.0", "", "1.1.0"),
        ("charts/web:1.1.0", "1.1.0", "1.1.0"),
        ("charts/web:latest", "", "9.9.9"),
        (&format!("charts/web@{}", digests[0]), "", "1.0.0"),
        (&format!("charts/web:1.1.0@{}", digests[1]), "", "1.1.0"),
    ] {
        let fetched = pull(&served, rest, version, &Access::anonymous()).await.unwrap();
        assert_eq!(fetched.version(), expected, "{rest} {version}");
    }
    for (rest, version, kind) in [
        ("charts/none", "1.0.0", ErrorKind::NotFound),
        ("charts/none", "", ErrorKind::NotFound),
        ("charts/web", ">7", ErrorKind::NotFound),
        ("charts/web:1.1.0", "1.0.0", ErrorKind::Invalid),
        ("charts/web", "no range", ErrorKind::Invalid),
        (&format!("charts/web@{}", Digest::sha256(b"")), "", ErrorKind::NotFound),
    ] {
        let said = pull(&served, rest, version, &Access::anonymous()).await.unwrap_err();
        assert_eq!(said.kind(), kind, "{rest} {version}: {said}");
    }
}

#[tokio::test]
async fn resolved_tag_is_cached() {
    let content = FakeRegistry::default();
    content.put("web", "1.0.0", &chart_archive("web", "1.0.0"));
    let served = content.serve(RegistryAuth::Open).await;
    let reference: OciReference = format!("oci://{}/web:1.0.0", served.host).parse().unwrap();
    let (fetcher, access) = (fetcher(), Access::anonymous());
    for _ in 0..10 {
        fetcher.from_registry(&reference, "", &access, true).await.unwrap();
    }
    assert_eq!(served.requests().len(), 2, "the manifest and the archive");
}

#[tokio::test]
async fn registry_accepts_password_and_token() {
    let content = FakeRegistry::default();
    content.put("web", "1.0.0", &chart_archive("web", "1.0.0"));
    let served = content.serve(RegistryAuth::Basic).await;
    pull(&served, "web", "1.0.0", &login_access()).await.unwrap();
    let said = pull(&served, "web", "1.0.0", &Access::anonymous()).await.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Forbidden);

    // A token service on another host is called without credentials.
    let giver = FakeServer::new(|_| response(200, "{\"token\":\"a-token\"}")).await;
    let served = content.serve(RegistryAuth::Token(format!("{}/token", giver.address))).await;
    pull(&served, "web", "1.0.0", &login_access()).await.unwrap();
    assert_eq!(giver.requests(), ["GET /token?service=here&scope=repository%3Ax%3Apull -"]);
    let asked = served.requests();
    assert!(asked.iter().all(|line| line.ends_with(TOKEN) || line.ends_with(" -")), "{asked:?}");
}

/// A token service of the registry itself receives the credentials.
#[tokio::test]
async fn credentials_are_sent_to_the_registrys_own_token_service() {
    let web = chart_archive("web", "1.0.0");
    let manifest = {
        let content = FakeRegistry::default();
        content.put("web", "1.0.0", &web);
        let open = content.serve(RegistryAuth::Open).await;
        pull(&open, "web", "1.0.0", &Access::anonymous()).await.unwrap();
        content
    };
    let inner = manifest.serve(RegistryAuth::Open).await;
    drop(inner);
    let own = FakeServer::new(|request| {
        let login = request.headers().get("authorization").map(|login| login.to_str().unwrap().to_owned());
        match (request.uri().path(), login.as_deref()) {
            ("/token", Some(LOGIN)) => response(200, "{\"access_token\":\"a-token\"}"),
            ("/token", _) => response(401, ""),
            (_, Some(TOKEN)) => response(404, ""),
            _ => {
                let host = request.headers()["host"].to_str().unwrap();
                let challenge = format!("Bearer realm=\"http://{host}/token\"");
                http::Response::builder()
                    .status(401)
                    .header("www-authenticate", challenge)
                    .body(Bytes::new())
                    .unwrap()
            }
        }
    })
    .await;
    let said = pull(&own, "web", "1.0.0", &login_access()).await.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::NotFound, "it let us in, and has nothing: {said}");
    assert_eq!(own.requests()[1], format!("GET /token?scope=repository%3Aweb%3Apull {LOGIN}"));
}

#[tokio::test]
async fn private_token_service_is_refused() {
    let content = FakeRegistry::default();
    content.put("web", "1.0.0", &chart_archive("web", "1.0.0"));
    for realm in ["http://169.254.169.254/token", "http://10.0.0.1/", "file:///etc/passwd", "no address"] {
        let served = content.serve(RegistryAuth::Token(realm.to_owned())).await;
        let said = pull(&served, "web", "1.0.0", &login_access()).await.unwrap_err();
        assert!(matches!(said.kind(), ErrorKind::Forbidden | ErrorKind::Unavailable), "{said}");
        assert!(!format!("{said:?}").contains("canary"));
    }
}

#[tokio::test]
async fn invalid_registry_responses_are_rejected() {
    let (web, helm) = (chart_archive("web", "1.0.0"), "application/vnd.cncf.helm.config.v1+json");
    let content = FakeRegistry::default();
    content.put_with_media_type("other", "1.0.0", &web, helm, Digest::sha256(b"what was promised"));
    content.put_with_media_type(
        "image",
        "1.0.0",
        &web,
        "application/vnd.oci.image.config.v1+json",
        Digest::sha256(&web),
    );
    content.put("broken", "1.0.0", &Bytes::from_static(b"no archive"));
    let served = content.serve(RegistryAuth::Open).await;
    for (rest, kind, words) in [
        ("other", ErrorKind::Unavailable, "has digest sha256:"),
        ("image", ErrorKind::Invalid, "media type is `application/vnd.oci.image.config.v1+json`"),
        ("broken", ErrorKind::Invalid, "the archive is not a chart"),
    ] {
        let said = pull(&served, rest, "1.0.0", &Access::anonymous()).await.unwrap_err();
        assert!(said.kind() == kind && said.to_string().contains(words), "{rest}: {said}");
    }
    // Bytes that do not match the digest, also of the manifest.
    let liar = FakeServer::new(|_| response(200, "{}")).await;
    let said =
        pull(&liar, &format!("web@{}", Digest::sha256(b"")), "", &Access::anonymous()).await.unwrap_err();
    assert!(said.to_string().contains("has digest"), "{said}");
    for body in ["", "[]", "{\"tags\": 7}"] {
        let liar = FakeServer::new(move |_| response(200, body)).await;
        assert!(pull(&liar, "web", "", &Access::anonymous()).await.is_err());
    }
}
