//! The recorded answers of a real Kubernetes, asked again: of a fresh `longshore serve`, and of a fresh real cluster,
//! which shows that what is asked can be answered.
//!
//! The recordings and the program that replays them live outside the project, at `LONGSHORE_CORPUS`.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::devcluster::Held;
use crate::project::{Project, in_ci, output};
use crate::tools::{ControlPlane, Helm};

/// Of a hundred answers of `longshore serve`, how many must be equal, in some areas and over all of them.
const GOALS: &[(&str, usize)] = &[("controllers", 88), ("cli", 88), (EVERYTHING, 92)];
const EVERYTHING: &str = "everything";

/// The programs that the recorded command lines call.
pub struct Programs<'a> {
    pub plane: &'a ControlPlane,
    pub helms: &'a [Helm],
}

/// The folder with the recordings; without it, a line says so, but on a build machine it is a failure.
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

/// Asks a fresh `longshore serve` and judges it; answers one line.
pub fn replay(project: &Project, corpus: &Path, programs: &Programs) -> Result<String> {
    let server = Server::start(project)?;
    let tallies = ask(corpus, &server.kubeconfig, programs)?;
    for (area, goal) in GOALS {
        let Tally { equal, of } = sum(&tallies, |name| *area == EVERYTHING || name == *area);
        if of == 0 || equal * 100 < of * goal {
            bail!("{area}: {equal} of {of} answers are equal to Kubernetes, the goal is {goal} %");
        }
    }
    let Tally { equal, of } = sum(&tallies, |_| true);
    Ok(format!("recordings, longshore serve: {equal} of {of} answers equal to Kubernetes 1.36.3"))
}

/// Asks a fresh real cluster, of which every answer must be equal; answers one line.
pub fn control(project: &Project, corpus: &Path, programs: &Programs) -> Result<String> {
    let cluster = Held::start(programs.plane, &project.target().join("devcluster"), true)?;
    let Tally { equal, of } = sum(&ask(corpus, &cluster.kubeconfig, programs)?, |_| true);
    if of == 0 || equal < of {
        bail!("a real cluster gave {equal} of {of} recorded answers: the recordings or devcluster are wrong");
    }
    Ok(format!("recordings, devcluster --bare: {equal} of {of} answers equal to Kubernetes 1.36.3"))
}

/// How many answers of an area are equal, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    equal: usize,
    of: usize,
}

fn sum(tallies: &[(String, Tally)], counts: impl Fn(&str) -> bool) -> Tally {
    let counted = tallies.iter().filter(|(area, _)| counts(area));
    counted.fold(Tally::default(), |sum, (_, tally)| Tally {
        equal: sum.equal + tally.equal,
        of: sum.of + tally.of,
    })
}

/// Replays every area, passes on what the tool prints, and answers its table.
fn ask(corpus: &Path, kubeconfig: &Path, programs: &Programs) -> Result<Vec<(String, Tally)>> {
    let mut tool = Command::new(corpus.join("tools/kube-parity"));
    tool.arg("run").arg("--kubeconfig").arg(kubeconfig);
    tool.arg("--kubectl").arg(&programs.plane.kubectl);
    for (flag, version) in [("--helm4", "4.3.1"), ("--helm3", "3.22.0")] {
        let helm = programs.helms.iter().find(|helm| helm.version == version);
        tool.arg(flag).arg(&helm.with_context(|| format!("there is no helm {version}"))?.path);
    }
    let tool = tool.stdout(Stdio::piped()).spawn();
    let mut tool = tool.with_context(|| format!("cannot start kube-parity in {}", corpus.display()))?;
    let mut said = String::new();
    for line in BufReader::new(tool.stdout.take().expect("its output is piped to us")).lines() {
        let line = line?;
        println!("{line}");
        said.push_str(&line);
        said.push('\n');
    }
    // It exits with 1 as soon as one answer differs: the table decides, not the status.
    tool.wait()?;
    table(&said).context("kube-parity printed no table that fits its last line")
}

/// The rows `area scenarios equal of` of the tool's table, if they add up to `12 of 34 answers equal to Kubernetes`.
fn table(said: &str) -> Option<Vec<(String, Tally)>> {
    let whole = said.lines().rev().find_map(|line| line.strip_suffix(" answers equal to Kubernetes"))?;
    let (equal, of) = whole.split_once(" of ")?;
    let whole = Tally { equal: equal.parse().ok()?, of: of.parse().ok()? };
    let rows: Vec<(String, Tally)> = said
        .lines()
        .filter_map(|line| {
            let [area, _, equal, of] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
            Some((area.to_owned(), Tally { equal: equal.parse().ok()?, of: of.parse().ok()? }))
        })
        .collect();
    (sum(&rows, |_| true) == whole).then_some(rows)
}

/// A server of its own, on free ports and an empty folder; killed when dropped.
struct Server {
    child: Child,
    kubeconfig: PathBuf,
}

impl Server {
    fn start(project: &Project) -> Result<Self> {
        let program = project.build_longshore(false)?;
        let folder = project.target().join("parity");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let log = fs::File::create(folder.join("serve.log"))?;
        let (data, kubeconfig) = (folder.join("data"), folder.join("kubeconfig"));
        let mut serve = Command::new(&program);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--kube-listen", "127.0.0.1:0", "--data"]).arg(&data);
        let child = serve.stdout(Stdio::piped()).stderr(log).spawn().context("cannot start longshore")?;
        let mut server = Self { child, kubeconfig };
        server.await_ready(&folder)?;
        let text = output(Command::new(&program).args(["kubeconfig", "--data"]).arg(&data))?;
        fs::write(&server.kubeconfig, text)?;
        Ok(server)
    }

    fn await_ready(&mut self, folder: &Path) -> Result<()> {
        let said = self.child.stdout.take().expect("its output is piped to us");
        for line in BufReader::new(said).lines() {
            if line?.starts_with("ready ") {
                return Ok(());
            }
        }
        bail!("longshore ended before it was ready, see {}", folder.join("serve.log").display());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing in the folder is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_if_it_adds_up() {
        let said =
            "cli/x/01 a b c: differs\n\narea  scenarios  equal  of\ncli 5 10 20\nwatch 3 2 14\n\n3 s\n";
        let row = |area: &str, equal, of| (area.to_owned(), Tally { equal, of });
        assert_eq!(
            table(&format!("{said}12 of 34 answers equal to Kubernetes\n")),
            Some(vec![row("cli", 10, 20), row("watch", 2, 14)])
        );
        assert_eq!(table(&format!("{said}13 of 34 answers equal to Kubernetes\n")), None);
        assert_eq!(table("Traceback: 12 of 34\n"), None);
    }
}
