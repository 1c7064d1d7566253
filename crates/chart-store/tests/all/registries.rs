//! Honest and hostile registries.

use bytes::Bytes;
use chart_store::oci::Reference;
use chart_store::{ChartError, Digest, Fetched};
use domain::Kind;
use outbound::Access;

use crate::made::archive;
use crate::registry::{Content, Gate, TOKEN};
use crate::served::{LOGIN, Served, access, answer, fetcher};

async fn pull(served: &Served, rest: &str, version: &str, access: &Access) -> Result<Fetched, ChartError> {
    let reference: Reference = format!("oci://{}/{rest}", served.host).parse().unwrap();
    fetcher().from_registry(&reference, version, access, true).await
}

#[tokio::test]
async fn a_tag_a_digest_or_a_range_finds_its_chart() {
    let content = Content::default();
    let mut digests = Vec::new();
    for version in ["1.0.0", "1.1.0", "1.2.0+build.5", "2.0.0-rc.1", "0.1.0"] {
        digests.push(content.put("charts/web", &version.replace('+', "_"), &archive("web", version)));
    }
    content.put("charts/web", "latest", &archive("web", "9.9.9"));
    let served = content.serve(Gate::Open).await;
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
        let fetched = pull(&served, rest, version, &Access::none()).await.unwrap();
        assert_eq!(fetched.version(), expected, "{rest} {version}");
    }
    for (rest, version, kind) in [
        ("charts/none", "1.0.0", Kind::NotFound),
        ("charts/none", "", Kind::NotFound),
        ("charts/web", ">7", Kind::NotFound),
        ("charts/web:1.1.0", "1.0.0", Kind::Invalid),
        ("charts/web", "no range", Kind::Invalid),
        (&format!("charts/web@{}", Digest::of(b"")), "", Kind::NotFound),
    ] {
        let said = pull(&served, rest, version, &Access::none()).await.unwrap_err();
        assert_eq!(said.kind(), kind, "{rest} {version}: {said}");
    }
}

#[tokio::test]
async fn a_registry_is_asked_once_for_many() {
    let content = Content::default();
    content.put("web", "1.0.0", &archive("web", "1.0.0"));
    let served = content.serve(Gate::Open).await;
    let reference: Reference = format!("oci://{}/web:1.0.0", served.host).parse().unwrap();
    let (fetcher, access) = (fetcher(), Access::none());
    for _ in 0..10 {
        fetcher.from_registry(&reference, "", &access, true).await.unwrap();
    }
    assert_eq!(served.asked().len(), 2, "the manifest and the archive");
}

#[tokio::test]
async fn one_is_let_in_by_a_password_or_a_token() {
    let content = Content::default();
    content.put("web", "1.0.0", &archive("web", "1.0.0"));
    let served = content.serve(Gate::Basic).await;
    pull(&served, "web", "1.0.0", &access()).await.unwrap();
    let said = pull(&served, "web", "1.0.0", &Access::none()).await.unwrap_err();
    assert_eq!(said.kind(), Kind::Forbidden);

    // A token service on another host is called without credentials.
    let giver = Served::new(|_| answer(200, "{\"token\":\"a-token\"}")).await;
    let served = content.serve(Gate::Token(format!("{}/token", giver.address))).await;
    pull(&served, "web", "1.0.0", &access()).await.unwrap();
    assert_eq!(giver.asked(), ["GET /token?service=here&scope=repository%3Ax%3Apull -"]);
    let asked = served.asked();
    assert!(asked.iter().all(|line| line.ends_with(TOKEN) || line.ends_with(" -")), "{asked:?}");
}

/// A token service of the registry itself receives the credentials.
#[tokio::test]
async fn the_registrys_own_giver_of_tokens_is_told_who_we_are() {
    let web = archive("web", "1.0.0");
    let manifest = {
        let content = Content::default();
        content.put("web", "1.0.0", &web);
        let open = content.serve(Gate::Open).await;
        pull(&open, "web", "1.0.0", &Access::none()).await.unwrap();
        content
    };
    let inner = manifest.serve(Gate::Open).await;
    drop(inner);
    let own = Served::new(|request| {
        let login = request.headers().get("authorization").map(|login| login.to_str().unwrap().to_owned());
        match (request.uri().path(), login.as_deref()) {
            ("/token", Some(LOGIN)) => answer(200, "{\"access_token\":\"a-token\"}"),
            ("/token", _) => answer(401, ""),
            (_, Some(TOKEN)) => answer(404, ""),
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
    let said = pull(&own, "web", "1.0.0", &access()).await.unwrap_err();
    assert_eq!(said.kind(), Kind::NotFound, "it let us in, and has nothing: {said}");
    assert_eq!(own.asked()[1], format!("GET /token?scope=repository%3Aweb%3Apull {LOGIN}"));
}

#[tokio::test]
async fn a_giver_of_tokens_may_not_be_private() {
    let content = Content::default();
    content.put("web", "1.0.0", &archive("web", "1.0.0"));
    for realm in ["http://169.254.169.254/token", "http://10.0.0.1/", "file:///etc/passwd", "no address"] {
        let served = content.serve(Gate::Token(realm.to_owned())).await;
        let said = pull(&served, "web", "1.0.0", &access()).await.unwrap_err();
        assert!(matches!(said.kind(), Kind::Forbidden | Kind::Unavailable), "{said}");
        assert!(!format!("{said:?}").contains("canary"));
    }
}

#[tokio::test]
async fn a_registry_that_lies_is_found_out() {
    let (web, helm) = (archive("web", "1.0.0"), "application/vnd.cncf.helm.config.v1+json");
    let content = Content::default();
    content.put_as("other", "1.0.0", &web, helm, Digest::of(b"what was promised"));
    content.put_as("image", "1.0.0", &web, "application/vnd.oci.image.config.v1+json", Digest::of(&web));
    content.put("broken", "1.0.0", &Bytes::from_static(b"no archive"));
    let served = content.serve(Gate::Open).await;
    for (rest, kind, words) in [
        ("other", Kind::Unavailable, "is not what it should be"),
        ("image", Kind::Invalid, "is of the kind `application/vnd.oci.image.config.v1+json`"),
        ("broken", Kind::Invalid, "the archive is no chart"),
    ] {
        let said = pull(&served, rest, "1.0.0", &Access::none()).await.unwrap_err();
        assert!(said.kind() == kind && said.to_string().contains(words), "{rest}: {said}");
    }
    // Bytes that do not match the digest, also of the manifest.
    let liar = Served::new(|_| answer(200, "{}")).await;
    let said = pull(&liar, &format!("web@{}", Digest::of(b"")), "", &Access::none()).await.unwrap_err();
    assert!(said.to_string().contains("it has the digest"), "{said}");
    for body in ["", "[]", "{\"tags\": 7}"] {
        let liar = Served::new(move |_| answer(200, body)).await;
        assert!(pull(&liar, "web", "", &Access::none()).await.is_err());
    }
}
