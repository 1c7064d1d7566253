//! Compares recorded responses of a real Kubernetes with responses of a new `longshore serve`, and with responses of a
//! new real cluster, which proves that the recordings are reproducible.
//!
//! The recordings and the program that replays them are outside the project, at `LONGSHORE_CORPUS`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::devcluster::DevclusterGuard;
use crate::project::{Project, in_ci, output};
use crate::tools::{ControlPlane, HelmProgram};

/// Steps in which the embedded cluster differs from Kubernetes, with the cause. Any other difference is a failure, and
/// so is a listed step whose response has become equal.
#[rustfmt::skip]
const EXPECTED_DIFFERENCES: &[(&str, &str)] = &[
    ("auth/reviews/01 the administrator may", ADMINISTRATOR_DIFFERENCE),
    ("kinds/cluster/10 POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurat", WEBHOOK_DIFFERENCE),
    ("kinds/cluster/11 POST /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfiguratio", WEBHOOK_DIFFERENCE),
    ("kinds/pod/13 change what cannot change", "recorded without ServiceAccount admission: the pod has no ServiceAccount name"),
];
const ADMINISTRATOR_DIFFERENCE: &str =
    "recorded as a member of system:masters; replayed as a ServiceAccount that RBAC allows everything";
const WEBHOOK_DIFFERENCE: &str = "the embedded cluster stores webhooks without calling them, and warns";

/// Programs that the recorded command lines call.
pub struct ReplayPrograms<'a> {
    pub plane: &'a ControlPlane,
    pub helms: &'a [HelmProgram],
}

/// Returns the folder of recordings. If it is missing, the comparison is reported as skipped; in CI it is an error.
pub fn corpus() -> Result<Option<PathBuf>> {
    let corpus = env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir());
    if corpus.is_none() {
        if in_ci() {
            bail!("LONGSHORE_CORPUS names no folder with recorded answers");
        }
        println!("skipped: recorded answers of a real Kubernetes: LONGSHORE_CORPUS names no folder");
    }
    Ok(corpus)
}

/// Replays the recordings against a new `longshore serve`. Returns one line for the summary.
pub fn replay(
    project: &Project,
    longshore: &Path,
    corpus: &Path,
    programs: &ReplayPrograms,
) -> Result<String> {
    let server = ParityServer::start(project, longshore)?;
    let token = server.administrator_token(&programs.plane.kubectl)?;
    let access = ["--server", &server.url, "--insecure", "--token", &token].map(OsString::from);
    let verdicts = replay_areas(project, "serve", corpus, &access, programs)?;
    let unexpected = unexpected_results(&verdicts, EXPECTED_DIFFERENCES);
    if !unexpected.is_empty() {
        bail!("recordings, longshore serve:\n  {}", unexpected.join("\n  "));
    }
    let equal = verdicts.iter().filter(|verdict| verdict.is_equal).count();
    Ok(format!(
        "recordings, longshore serve: {equal} of {} answers equal to Kubernetes 1.36.3, {} expected differences",
        verdicts.len(),
        EXPECTED_DIFFERENCES.len()
    ))
}

/// Replays the recordings against a new real cluster, where every response must be equal. Returns one line for the
/// summary.
pub fn replay_on_devcluster(project: &Project, corpus: &Path, programs: &ReplayPrograms) -> Result<String> {
    let cluster = DevclusterGuard::start(programs.plane, &project.target().join("devcluster-bare"), true)?;
    let access = ["--kubeconfig".into(), cluster.kubeconfig.clone().into_os_string()];
    let verdicts = replay_areas(project, "control", corpus, &access, programs)?;
    let unexpected = unexpected_results(&verdicts, &[]);
    if !unexpected.is_empty() {
        bail!("a real cluster answers differently than recorded:\n  {}", unexpected.join("\n  "));
    }
    Ok(format!("recordings, devcluster --bare: {} answers equal to Kubernetes 1.36.3", verdicts.len()))
}

/// Result of comparing one recorded response.
#[derive(Clone, Debug, PartialEq)]
struct StepVerdict {
    /// `area/scenario/step`
    step: String,
    is_equal: bool,
}

/// Returns differences that are not expected, and expected ones that no longer occur.
fn unexpected_results(verdicts: &[StepVerdict], expected: &[(&str, &str)]) -> Vec<String> {
    let differs = |step: &str| verdicts.iter().any(|verdict| verdict.step == step && !verdict.is_equal);
    let new = verdicts.iter().filter(|verdict| !verdict.is_equal).filter_map(|verdict| {
        let is_expected = expected.iter().any(|(step, _)| *step == verdict.step);
        (!is_expected).then(|| format!("{} differs", verdict.step))
    });
    let gone = expected.iter().filter(|(step, _)| !differs(step));
    new.chain(gone.map(|(step, _)| format!("{step} is equal: remove it from the expected differences")))
        .collect()
}

/// Replays every area and returns the verdicts. The tool's output is stored beside its list, in the target folder.
fn replay_areas(
    project: &Project,
    name: &str,
    corpus: &Path,
    access: &[OsString],
    programs: &ReplayPrograms,
) -> Result<Vec<StepVerdict>> {
    let list = project.target().join(format!("parity-{name}.list"));
    let log = project.target().join(format!("parity-{name}.log"));
    if list.exists() {
        fs::remove_file(&list)?;
    }
    let mut tool = Command::new(corpus.join("tools/kube-parity"));
    tool.arg("run").arg("--diff").args(access).arg("--list").arg(&list);
    tool.arg("--kubectl").arg(&programs.plane.kubectl);
    for (flag, version) in [("--helm4", "4.3.1"), ("--helm3", "3.22.0")] {
        let helm = programs.helms.iter().find(|helm| helm.version == version);
        tool.arg(flag).arg(&helm.with_context(|| format!("there is no helm {version}"))?.path);
    }
    // The tool exits with 1 if any response differs. The list decides, not the status.
    let status = tool.stdout(fs::File::create(&log)?).status();
    let status = status.with_context(|| format!("cannot start kube-parity in {}", corpus.display()))?;
    let text = fs::read_to_string(&list).with_context(|| {
        format!("kube-parity ended with {status} and wrote no list, see {}", log.display())
    })?;
    let verdicts =
        parse_verdicts(&text).with_context(|| format!("{} is no list of verdicts", list.display()))?;
    if verdicts.is_empty() {
        bail!("kube-parity compared nothing, see {}", log.display());
    }
    Ok(verdicts)
}

/// Parses lines `area/scenario/step<TAB>verdict`. A skipped step counts as different, because all tools are installed.
fn parse_verdicts(list: &str) -> Option<Vec<StepVerdict>> {
    let line = |line: &str| {
        let (step, verdict) = line.split_once('\t')?;
        Some(StepVerdict { step: step.to_owned(), is_equal: verdict == "equal" })
    };
    list.lines().map(line).collect()
}

/// A server on free ports with an empty data folder. Killed on drop.
struct ParityServer {
    child: Child,
    kubeconfig: PathBuf,
    /// URL of the Kubernetes API.
    url: String,
}

impl ParityServer {
    fn start(project: &Project, program: &Path) -> Result<Self> {
        let folder = project.target().join("parity");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let log = fs::File::create(folder.join("serve.log"))?;
        let (data, kubeconfig) = (folder.join("data"), folder.join("kubeconfig"));
        let mut serve = Command::new(program);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--kube-listen", "127.0.0.1:0", "--data"]).arg(&data);
        let child = serve.stdout(Stdio::piped()).stderr(log).spawn().context("cannot start longshore")?;
        let mut server = Self { child, kubeconfig, url: String::new() };
        server.url = server.wait_until_ready(&folder)?;
        let text = output(Command::new(program).args(["kubeconfig", "--data"]).arg(&data))?;
        fs::write(&server.kubeconfig, text)?;
        Ok(server)
    }

    /// Returns the token of a ServiceAccount with all permissions. The recordings also send tokens of other users,
    /// which the client certificate of the kubeconfig would override.
    fn administrator_token(&self, kubectl: &Path) -> Result<String> {
        let run = |args: &[&str]| {
            output(Command::new(kubectl).arg("--kubeconfig").arg(&self.kubeconfig).args(args))
        };
        run(&["--namespace=kube-system", "create", "serviceaccount", "parity"])?;
        let subject = "--serviceaccount=kube-system:parity";
        run(&["create", "clusterrolebinding", "parity", "--clusterrole=cluster-admin", subject])?;
        let token = run(&["--namespace=kube-system", "create", "token", "parity", "--duration=4h"])?;
        Ok(token.trim().to_owned())
    }

    /// Waits for the line `ready URL kube URL` and returns the second URL.
    fn wait_until_ready(&mut self, folder: &Path) -> Result<String> {
        let said = self.child.stdout.take().expect("its output is piped to us");
        for line in BufReader::new(said).lines() {
            if let Some((_, kube)) = line?.strip_prefix("ready ").and_then(|urls| urls.split_once(" kube ")) {
                return Ok(kube.to_owned());
            }
        }
        bail!("longshore ended before it was ready, see {}", folder.join("serve.log").display());
    }
}

impl Drop for ParityServer {
    fn drop(&mut self) {
        // The folder's content is not needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unexpected_results_lists_new_and_stale_differences() {
        let read = parse_verdicts("a/b/01 x\tequal\na/b/02 y\tdiffers\na/b/03 z\tskipped\n").unwrap();
        assert_eq!(unexpected_results(&read, &[]), ["a/b/02 y differs", "a/b/03 z differs"]);
        let expected = [("a/b/02 y", "cause"), ("a/b/03 z", "cause")];
        assert_eq!(unexpected_results(&read, &expected), Vec::<String>::new());
        let stale = [("a/b/01 x", "cause"), ("a/b/02 y", "cause"), ("a/b/03 z", "cause")];
        assert_eq!(
            unexpected_results(&read, &stale),
            ["a/b/01 x is equal: remove it from the expected differences"]
        );
        assert_eq!(parse_verdicts("Traceback"), None);
    }
}
