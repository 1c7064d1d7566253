//! Installation of many releases: through the platform's API, and by concurrent `helm install` processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::cluster::BenchCluster;
use crate::platform_server::{BenchUser, PlatformServer};

/// A Longshore server with users and the uploaded chart.
pub struct PlatformInstaller {
    pub server: PlatformServer,
    pub people: Vec<BenchUser>,
    package: String,
}

/// Namespace and name of a release.
pub type ReleaseName = (String, String);

impl PlatformInstaller {
    /// Registers users, raises their quotas and uploads the chart.
    pub async fn new(
        server: PlatformServer,
        cluster: &BenchCluster,
        people: usize,
        archive: &Path,
    ) -> Result<Self> {
        let people = try_join_all((0..people).map(|number| server.register(number))).await?;
        cluster.raise_quotas(&people).await?;
        let package = upload_chart(&server, &people[0], archive).await?;
        Ok(Self { server, people, package })
    }

    /// Requests one release.
    pub async fn request_release(&self, person: &BenchUser, name: &str) -> Result<()> {
        let body = json!({"namespace": person.id, "name": name, "chart": {"package": self.package}});
        self.server.call_json(Some(person), Method::POST, "releases", Some(&body), 201).await.map(drop)
    }

    /// Every user installs `each` releases sequentially, waiting until each is deployed.
    pub async fn install_sequentially(
        &self,
        cluster: &BenchCluster,
        prefix: &str,
        each: usize,
    ) -> Result<Duration> {
        let began = Instant::now();
        try_join_all(self.people.iter().map(async |person| {
            for number in 0..each {
                let name = format!("{prefix}-{number}");
                self.request_release(person, &name).await?;
                cluster.wait_until_deployed(&person.id, &name).await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(began.elapsed())
    }

    /// Every user requests `each` releases without waiting. Returns when all are deployed.
    pub async fn install_concurrently(
        &self,
        cluster: &BenchCluster,
        prefix: &str,
        each: usize,
    ) -> Result<Duration> {
        let began = Instant::now();
        try_join_all(self.people.iter().map(async |person| {
            for number in 0..each {
                self.request_release(person, &format!("{prefix}-{number}")).await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        let names: Vec<ReleaseName> = self.release_names(prefix, each).collect();
        cluster.wait_until_all_deployed(&names).await?;
        Ok(began.elapsed())
    }

    pub fn release_names(&self, prefix: &str, each: usize) -> impl Iterator<Item = ReleaseName> {
        let numbers = move |person: &BenchUser| {
            let id = person.id.clone();
            (0..each).map(move |number| (id.clone(), format!("{prefix}-{number}")))
        };
        self.people.iter().flat_map(numbers)
    }

    /// Deletes the releases and waits until they are gone.
    pub async fn remove(&self, prefix: &str, each: usize) -> Result<()> {
        try_join_all(self.people.iter().map(async |person| {
            for number in 0..each {
                let path = format!("releases/host/{}/{prefix}-{number}", person.id);
                self.server.call_json(Some(person), Method::DELETE, &path, None, 202).await?;
            }
            self.wait_for_list(person, |list| list["total"] == 0, &format!("q={prefix}-")).await
        }))
        .await
        .map(drop)
    }

    /// Resolves when all releases of all users are ready.
    pub async fn wait_until_ready(&self, each: usize) -> Result<()> {
        try_join_all(self.people.iter().map(|person| {
            self.wait_for_list(person, move |list| list["total"] == each, "field=state=active")
        }))
        .await
        .map(drop)
    }

    async fn wait_for_list(
        &self,
        person: &BenchUser,
        condition: impl Fn(&Value) -> bool,
        query: &str,
    ) -> Result<()> {
        let began = Instant::now();
        let path = format!("releases?ns={}&limit=1&{query}", person.id);
        loop {
            let list = self.server.call_json(Some(person), Method::GET, &path, None, 200).await?;
            if condition(&list) {
                return Ok(());
            }
            ensure!(began.elapsed() < Duration::from_mins(5), "{path} stays at {}", list["total"]);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

async fn upload_chart(server: &PlatformServer, person: &BenchUser, archive: &Path) -> Result<String> {
    let archive = Bytes::from(std::fs::read(archive)?);
    let (status, told) =
        server.send(Some(person), Method::POST, "packages", "application/gzip", archive).await?;
    let told = String::from_utf8_lossy(&told).into_owned();
    ensure!(status == 200, "the chart was not taken: {status} {told}");
    let told: Value = serde_json::from_str(&told)?;
    told["package"].as_str().map(str::to_owned).context("a package without a name")
}

/// The real Helm, for the same namespaces.
pub struct HelmInstaller {
    pub program: PathBuf,
    pub kubeconfig: PathBuf,
    pub archive: PathBuf,
    /// Its own home with caches.
    pub home: PathBuf,
}

impl HelmInstaller {
    /// Every user installs `each` releases sequentially, all users concurrently.
    pub async fn install_sequentially(
        &self,
        people: &[BenchUser],
        prefix: &str,
        each: usize,
    ) -> Result<Duration> {
        let began = Instant::now();
        try_join_all(people.iter().map(async |person| {
            for number in 0..each {
                let name = format!("{prefix}-{number}");
                let archive = self.archive.to_string_lossy();
                self.run(&["install", &name, &archive, "--namespace", &person.id]).await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(began.elapsed())
    }

    pub async fn remove(&self, people: &[BenchUser], prefix: &str, each: usize) -> Result<()> {
        try_join_all(people.iter().map(async |person| {
            let names: Vec<String> = (0..each).map(|number| format!("{prefix}-{number}")).collect();
            let mut args = vec!["uninstall", "--namespace", &person.id];
            args.extend(names.iter().map(String::as_str));
            self.run(&args).await
        }))
        .await
        .map(drop)
    }

    async fn run(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(args).env("HOME", &self.home).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        let done = spawn_blocking(move || command.output()).await??;
        if !done.status.success() {
            bail!("helm {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr));
        }
        Ok(())
    }
}
