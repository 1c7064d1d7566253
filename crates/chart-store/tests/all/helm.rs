//! The real Helm programs push to and pull from our test registry, and our client pulls the charts that they pushed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use chart_store::oci::OciReference;
use outbound::Access;
use tokio::process::Command;

use crate::fake_registry::{FakeRegistry, RegistryAuth};
use crate::fake_server::{LOGIN, fetcher, login_access};
use crate::fixtures::chart_archive;

/// The available Helm programs.
fn helm_binaries() -> Vec<PathBuf> {
    let named = ["LONGSHORE_HELM_3_17", "LONGSHORE_HELM_4_3"].map(|name| (name, std::env::var_os(name)));
    let found = named.into_iter().filter_map(|(name, program)| {
        let program = program.map(PathBuf::from).filter(|program| program.exists());
        if program.is_none() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            // Bypasses the captured output, which is hidden for passing tests.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {name} names no program");
        }
        program
    });
    found.collect()
}

async fn run_helm(program: &Path, home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("HOME", home).current_dir(home).kill_on_drop(true);
    let done = command.output().await.unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    done
}

#[tokio::test]
async fn registry_pull_is_compatible_with_helm() {
    for program in helm_binaries() {
        for gate in [RegistryAuth::Open, RegistryAuth::Basic] {
            let home = tempfile::tempdir().unwrap();
            let served = FakeRegistry::default().serve(gate.clone()).await;
            let bytes = chart_archive("web", "1.2.3+build.4");
            std::fs::write(home.path().join("web.tgz"), &bytes).unwrap();
            let place = format!("oci://{}/charts", served.host);
            if gate == RegistryAuth::Basic {
                let login = ["registry", "login", &served.host, "-u", "me", "-p", "canary", "--plain-http"];
                // Helm 3.17 logs in to plain HTTP registries only with `--insecure`.
                let insecure = ["registry", "login", &served.host, "-u", "me", "-p", "canary", "--insecure"];
                let helm4 = program.to_string_lossy().contains("helm-4");
                run_helm(&program, home.path(), if helm4 { &login } else { &insecure }).await;
            }
            run_helm(&program, home.path(), &["push", "web.tgz", &place, "--plain-http"]).await;

            let reference: OciReference = format!("{place}/web").parse().unwrap();
            let ours = if gate == RegistryAuth::Basic { login_access() } else { Access::anonymous() };
            for version in ["1.2.3+build.4", "^1", ""] {
                let fetched = fetcher().from_registry(&reference, version, &ours, true).await.unwrap();
                assert_eq!(fetched.bytes, bytes, "{version}");
            }
            let pulled = home.path().join("web-1.2.3+build.4.tgz");
            run_helm(
                &program,
                home.path(),
                &["pull", &format!("{place}/web"), "--version", "^1", "--plain-http"],
            )
            .await;
            assert_eq!(std::fs::read(pulled).unwrap(), bytes);
            let asked = served.requests();
            assert_eq!(asked.iter().any(|line| line.ends_with(LOGIN)), gate == RegistryAuth::Basic);
        }
    }
}
