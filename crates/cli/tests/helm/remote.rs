//! Remote charts: a repository and a registry on loopback, also used by the real Helm.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri};
use chart_store::Digest;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::program::{HELMS, Printed, helm_program, run_helm, run_longshore};

/// File server, optionally with basic authentication.
struct FileServer {
    _runtime: Runtime,
    address: String,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    fn new(login: Option<&'static str>) -> Self {
        let (files, asked) =
            (Arc::<Mutex<HashMap<String, Vec<u8>>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (given, record) = (files.clone(), asked.clone());
        let answer = move |uri: Uri, headers: HeaderMap| async move {
            let found = given.lock().unwrap().get(uri.path()).cloned();
            let shown = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            record.lock().unwrap().push(format!("{uri} {}", shown.as_deref().unwrap_or("-")));
            match found {
                _ if login.is_some() && shown.as_deref() != login => Err(StatusCode::UNAUTHORIZED),
                None => Err(StatusCode::NOT_FOUND),
                Some(found) => Ok(found),
            }
        };
        let runtime = Runtime::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, Router::new().fallback(answer)).await.unwrap();
        });
        Self { _runtime: runtime, address, files, requests: asked }
    }

    fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), content.into());
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A user's folders, with two versions and a prerelease of a packed chart.
struct HelmFixture {
    folder: TempDir,
}

impl HelmFixture {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        for (name, version) in [("web", "1.0.0"), ("web", "1.2.0"), ("web", "2.0.0-rc.1"), ("nginx", "0.3.0")]
        {
            let chart = desk.path("charts").join(name);
            fs::create_dir_all(chart.join("templates")).unwrap();
            let about = format!(
                "apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: v{version}\ndescription: serves <pages> & more\nkeywords: [http]\n"
            );
            fs::write(chart.join("Chart.yaml"), about).unwrap();
            let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Chart.Version }}\n";
            fs::write(chart.join("templates/map.yaml"), map).unwrap();
            let (chart, packed) = (chart.to_string_lossy().into_owned(), desk.path("packed"));
            let made = run_longshore(&["package", &chart, "-d", &packed.to_string_lossy()]);
            assert_eq!(made.error, None);
        }
        let packed = desk.path("packed").to_string_lossy().into_owned();
        assert_eq!(run_longshore(&["repo", "index", &packed]).error, None);
        desk
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn read_packed(&self, name: &str) -> Vec<u8> {
        fs::read(self.path("packed").join(name)).unwrap()
    }

    fn serve(&self, login: Option<&'static str>) -> FileServer {
        let served = FileServer::new(login);
        for entry in fs::read_dir(self.path("packed")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            served.put(&format!("/charts/{name}"), fs::read(entry.path()).unwrap());
        }
        served
    }

    fn path_args(&self) -> [String; 4] {
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        [
            "--repository-config".into(),
            path("config/repositories.yaml"),
            "--repository-cache".into(),
            path("cache"),
        ]
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        let places = self.path_args();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        run_longshore(&[arguments, &places].concat())
    }

    fn run_ok(&self, arguments: &[&str]) -> String {
        let Printed { output, error } = self.run(arguments);
        assert_eq!(error, None, "{arguments:?}");
        output
    }

    fn run_err(&self, arguments: &[&str]) -> String {
        self.run(arguments).error.unwrap_or_else(|| panic!("{arguments:?} was done"))
    }
}

#[test]
fn repo_add_search_use_remove() {
    let desk = HelmFixture::new();
    let served = desk.serve(None);
    let url = format!("{}/charts", served.url());
    assert_eq!(desk.run_err(&["search", "repo"]), "no repositories configured");
    assert_eq!(desk.run_ok(&["repo", "add", "here", &url]), "\"here\" has been added to your repositories\n");
    let again = desk.run_ok(&["repo", "add", "here", &url]);
    assert_eq!(again, "\"here\" already exists with the same configuration, skipping\n");
    let other = desk.run_err(&["repo", "add", "here", "http://127.0.0.1:1/"]);
    assert_eq!(other, "repository name (here) already exists, please specify a different name");
    assert_eq!(
        desk.run_ok(&["repo", "list", "-o", "json"]),
        format!("[{{\"name\":\"here\",\"url\":\"{url}\"}}]\n")
    );
    let mode = fs::metadata(desk.path("config/repositories.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let table = desk.run_ok(&["search", "repo"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("here/web  \t1.2.0        \tv1.2.0"), "{table}");
    for (words, versions) in [
        (&["web"][..], "1.2.0"),
        (&["web", "--devel"], "2.0.0-rc.1"),
        (&["web", "-l"], "1.2.0 1.0.0"),
        (&["web", "--version", "<1.1"], "1.0.0"),
        (&["pages", "-l"], "0.3.0 1.2.0 1.0.0"),
        (&["-r", "^ng"], "0.3.0"),
        (&["nothing"], ""),
    ] {
        let found = desk.run_ok(&[&["search", "repo", "-o", "json"], words].concat());
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let found: Vec<_> =
            found.as_array().unwrap().iter().map(|row| row["version"].as_str().unwrap()).collect();
        assert_eq!(found.join(" "), versions, "{words:?}");
    }
    assert_eq!(desk.run_ok(&["search", "repo", "nothing"]), "No results found\n");
    assert_eq!(desk.run_err(&["search", "repo", "nothing", "--fail-on-no-result"]), "no results found");

    let here = desk.path("pulled").to_string_lossy().into_owned();
    fs::create_dir(&here).unwrap();
    assert_eq!(desk.run_ok(&["pull", "here/web", "-d", &here]), "");
    assert_eq!(fs::read(desk.path("pulled/web-1.2.0.tgz")).unwrap(), desk.read_packed("web-1.2.0.tgz"));
    desk.run_ok(&["pull", &format!("{url}/nginx-0.3.0.tgz"), "-d", &here]);
    desk.run_ok(&["pull", "web", "--repo", &url, "--version", "~1.0", "-d", &here]);
    assert!(desk.path("pulled/nginx-0.3.0.tgz").exists() && desk.path("pulled/web-1.0.0.tgz").exists());
    let shown = desk.run_ok(&["show", "chart", "here/web", "--version", "1.0.0"]);
    assert!(shown.contains("version: 1.0.0\n"), "{shown}");
    let rendered = desk.run_ok(&["template", "x", "here/web", "--version", "^1"]);
    assert!(rendered.contains("name: 1.2.0"), "{rendered}");
    let values = desk.run(&["values", "web", "--repo", &url]);
    assert_eq!(values.error, None);

    let updated = desk.run_ok(&["repo", "update"]);
    assert!(
        updated.contains("...Successfully got an update from the \"here\" chart repository\n"),
        "{updated}"
    );
    assert_eq!(
        desk.run_ok(&["repo", "remove", "here"]),
        "\"here\" has been removed from your repositories\n"
    );
    assert!(!desk.path("cache/here-index.yaml").exists());
    assert_eq!(desk.run_err(&["template", "x", "here/web"]), "repo here not found");
}

#[test]
fn pull_untar_is_atomic_and_never_overwrites() {
    let desk = HelmFixture::new();
    let served = desk.serve(None);
    let url = format!("{}/charts", served.url());
    let here = desk.folder.path().join("out").to_string_lossy().into_owned();
    desk.run_ok(&["pull", "web", "--repo", &url, "--untar", "-d", &here]);
    let about = fs::read_to_string(desk.path("out/web/Chart.yaml")).unwrap();
    assert!(about.contains("version: 1.2.0"), "{about}");
    assert!(desk.path("out/web/templates/map.yaml").exists());
    let again = desk.run_err(&["pull", "web", "--repo", &url, "--untar", "-d", &here]);
    assert!(again.contains("a file or directory with the name"), "{again}");
    // A symbolic link in the target's place is not followed.
    std::os::unix::fs::symlink(desk.path("elsewhere"), desk.path("out/nginx")).unwrap();
    desk.run_err(&["pull", "nginx", "--repo", &url, "--untar", "-d", &here]);
    assert!(!desk.path("elsewhere").exists());
    let left: Vec<_> =
        fs::read_dir(desk.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // The chart's name must not be used as a path.
    let evil = desk.path("evil");
    fs::create_dir_all(evil.join("c")).unwrap();
    fs::write(evil.join("c/Chart.yaml"), "apiVersion: v2\nname: ..\nversion: 1.0.0\n").unwrap();
    let tar = std::process::Command::new("tar").args(["czf", "evil.tgz", "c"]).current_dir(&evil).status();
    assert!(tar.unwrap().success());
    served.put("/charts/evil.tgz", fs::read(evil.join("evil.tgz")).unwrap());
    desk.run_err(&["pull", &format!("{url}/evil.tgz"), "--untar", "-d", &here]);
    assert_eq!(fs::read_dir(desk.path("out")).unwrap().count(), 2);
}

const LOGIN: &str = "Basic bWU6Y2FuYXJ5";

#[test]
fn repo_password_is_private_and_sent_to_its_repository_only() {
    let desk = HelmFixture::new();
    let (served, other) = (desk.serve(Some(LOGIN)), desk.serve(None));
    let index = String::from_utf8(desk.read_packed("index.yaml")).unwrap();
    served.put("/charts/index.yaml", index.replace("- nginx-", &format!("- {}/charts/nginx-", other.url())));
    let url = format!("{}/charts", served.url());
    let said = desk.run_err(&["repo", "add", "here", &url]);
    assert!(said.starts_with("looks like") && said.ends_with("returned status 401"), "{said}");
    assert!(!desk.path("config/repositories.yaml").exists());
    let said = desk.run_err(&["repo", "add", "here", &url, "--username", "me"]);
    assert_eq!(said, "--username requires --password or --password-stdin");
    desk.run_ok(&["repo", "add", "here", &url, "--username", "me", "--password", "canary"]);
    served.take_requests();
    let here = desk.folder.path().to_string_lossy().into_owned();
    desk.run_ok(&["pull", "here/web", "-d", &here]);
    desk.run_ok(&["pull", "here/nginx", "-d", &here]);
    desk.run_ok(&["pull", &format!("{url}/web-1.0.0.tgz"), "-d", &here]);
    let sent = [format!("/charts/web-1.2.0.tgz {LOGIN}"), format!("/charts/web-1.0.0.tgz {LOGIN}")];
    assert_eq!(served.take_requests(), sent);
    assert_eq!(other.take_requests(), ["/charts/nginx-0.3.0.tgz -"]);
    let said = desk.run_err(&["repo", "add", "there", "http://me:canary@127.0.0.1/"]);
    assert!(!said.contains("canary"), "{said}");
    for command in [&["repo", "list"][..], &["repo", "list", "-o", "yaml"], &["repo", "update"]] {
        assert!(!desk.run_ok(command).contains("canary"));
    }
}

#[test]
fn pull_errors_name_the_missing_object() {
    let desk = HelmFixture::new();
    let served = desk.serve(None);
    served.put("/broken/index.yaml", "<html>");
    let url = format!("{}/charts", served.url());
    desk.run_ok(&["repo", "add", "here", &url]);
    fs::remove_file(desk.path("cache/here-index.yaml")).unwrap();
    let rows = [
        (vec!["pull", "here/web"], "no cached repo found. (try 'longshore repo update')"),
        (vec!["pull", "there/web"], "repo there not found"),
        (vec!["pull", "web"], "non-absolute URLs should be in form of repo_name/path_to_chart, got: web"),
        (vec!["pull", "none", "--repo", &url], "has no chart `none`"),
        (vec!["pull", "web", "--repo", &url, "--version", "9"], "chart \"web\" matching 9 not found in"),
        (vec!["pull", "ftp://a.example/x.tgz"], "unsupported URL scheme `ftp`"),
        (vec!["pull", "http://127.0.0.1:1/x.tgz"], "`127.0.0.1` does not answer"),
        (vec!["repo", "add", "a/b", &url], "contains '/'"),
        (vec!["repo", "add", "..", &url], "is not a valid file name"),
        (vec!["repo", "remove", "none"], "no repo named \"none\" found"),
        (vec!["repo", "update", "none"], "no repositories found matching 'none'.  Nothing will be updated"),
        (vec!["template", "x", "./none"], "path \"./none\" not found"),
    ];
    for (command, words) in rows {
        let said = desk.run_err(&command);
        assert!(said.contains(words), "{command:?}: {said}");
    }
    let broken = format!("{}/broken", served.url());
    let said = desk.run_err(&["repo", "add", "broken", &broken]);
    assert!(said.contains("is not a valid chart repository or cannot be reached"), "{said}");
    assert_eq!(desk.run_ok(&["repo", "list", "--no-headers"]).lines().count(), 1);
    fs::write(desk.path("config/repositories.yaml"), "repositories:\n- canary").unwrap();
    let said = desk.run_err(&["repo", "list"]);
    assert!(said.contains("is not a valid repositories file") && !said.contains("canary"), "{said}");
}

#[test]
fn pull_from_oci_registry() {
    let desk = HelmFixture::new();
    let served = FileServer::new(None);
    let bytes = desk.read_packed("web-1.0.0.tgz");
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let digest = Digest::sha256(&bytes);
    let manifest = json!({
        "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest.to_string(), "size": 2},
        "layers": [{"mediaType": layer, "digest": digest.to_string(), "size": bytes.len()}],
    });
    served.put("/v2/charts/web/manifests/1.0.0", manifest.to_string());
    served.put(&format!("/v2/charts/web/blobs/{digest}"), bytes.clone());
    served.put("/v2/charts/web/tags/list", json!({"tags": ["1.0.0", "latest"]}).to_string());
    let reference = format!("oci://{}/charts/web", served.address);
    let here = desk.folder.path().to_string_lossy().into_owned();
    let said = desk.run_ok(&["pull", &reference, "--version", "^1", "--plain-http", "-d", &here]);
    assert_eq!(said, format!("Pulled: {}/charts/web:1.0.0\nDigest: {digest}\n", served.address));
    assert_eq!(fs::read(desk.path("web-1.0.0.tgz")).unwrap(), bytes);
    let rendered = desk.run_ok(&["template", "x", &reference, "--plain-http"]);
    assert!(rendered.contains("name: 1.0.0"), "{rendered}");
}

/// Longshore and Helm print the same for the same repositories file and cache.
#[test]
fn repository_files_are_interchangeable_with_helm() {
    for helm in HELMS {
        let Some(program) = helm_program(helm) else { continue };
        let desk = HelmFixture::new();
        let served = desk.serve(Some(LOGIN));
        let url = format!("{}/charts", served.url());
        let login = ["--username", "me", "--password", "canary"];
        let places = desk.path_args();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let them = |home: &Path, arguments: &[&str]| run_helm(&program, home, &[arguments, &places].concat());
        desk.run_ok(&[&["repo", "add", "mine", &url], &login[..]].concat());
        let added = them(desk.folder.path(), &[&["repo", "add", "theirs", &url], &login[..]].concat());
        assert_eq!(added.error, None);
        for command in [
            &["repo", "list"][..],
            &["repo", "list", "-o", "json"],
            &["repo", "list", "-o", "yaml"],
            &["search", "repo"],
            &["search", "repo", "-l"],
            &["search", "repo", "nginx", "--max-col-width", "7"],
            &["search", "repo", "http", "-o", "json"],
            &["search", "repo", "web", "--devel", "-o", "yaml"],
            &["search", "repo", "pages", "--version", "<1.1"],
            &["search", "repo", "nothing"],
            &["template", "x", "theirs/web"],
            &["template", "x", "mine/web", "--version", "1.0.0"],
            &["show", "chart", "theirs/web", "--devel"],
        ] {
            let (our, their) = (desk.run(command), them(desk.folder.path(), command));
            assert_eq!(our, their, "{command:?} of Helm {helm}");
        }
        let (our, their) = (desk.path("our"), desk.path("their"));
        fs::create_dir_all(&our).unwrap();
        fs::create_dir_all(&their).unwrap();
        desk.run_ok(&["pull", "theirs/web", "--untar", "-d", &our.to_string_lossy()]);
        let pulled =
            them(desk.folder.path(), &["pull", "mine/web", "--untar", "-d", &their.to_string_lossy()]);
        assert_eq!(pulled.error, None);
        for file in ["Chart.yaml", "templates/map.yaml"] {
            let read = |folder: &Path| fs::read(folder.join("web").join(file)).unwrap();
            assert_eq!(read(&our), read(&their));
        }
        desk.run_ok(&["repo", "remove", "theirs"]);
        let listed = them(desk.folder.path(), &["repo", "list", "-o", "json"]);
        assert_eq!(listed.output, format!("[{{\"name\":\"mine\",\"url\":\"{url}\"}}]\n"));
    }
}
