//! The recorded answers of a real Kubernetes, asked again of a fresh `longshore serve`.
//!
//! The recordings and the program that replays them live outside the project, at `LONGSHORE_CORPUS`.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::project::{Project, in_ci, output};

/// Of a hundred answers, how many must be equal.
const GOAL: usize = 92;

/// Areas that need what the embedded cluster does not have yet: controllers with nodes, and the helm programs.
const LEFT_OUT: &str = "controllers,cli";

/// Prints the table of equal answers and answers it in one line; `None` where there are no recordings.
pub fn replay(project: &Project) -> Result<Option<String>> {
    let Some(corpus) = env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir())
    else {
        if in_ci() {
            bail!("LONGSHORE_CORPUS names no folder with recorded answers");
        }
        println!("skipped: recorded answers of a real Kubernetes: LONGSHORE_CORPUS names no folder");
        return Ok(None);
    };
    let server = Server::start(project)?;
    let mut tool = Command::new(corpus.join("tools/kube-parity"));
    tool.args(["run", "--skip", LEFT_OUT, "--kubeconfig"]).arg(&server.kubeconfig).stdout(Stdio::piped());
    let mut tool =
        tool.spawn().with_context(|| format!("cannot start kube-parity in {}", corpus.display()))?;
    let mut said = String::new();
    for line in BufReader::new(tool.stdout.take().expect("its output is piped to us")).lines() {
        let line = line?;
        println!("{line}");
        said.push_str(&line);
        said.push('\n');
    }
    // It exits with 1 as soon as one answer differs: the count decides, not the status.
    tool.wait()?;
    let (equal, of) = count(&said).context("kube-parity did not say how many answers are equal")?;
    if of == 0 || equal * 100 < of * GOAL {
        bail!("{equal} of {of} answers are equal to Kubernetes, the goal is {GOAL} %");
    }
    Ok(Some(format!("recorded Kubernetes 1.36.3 ({equal} of {of} answers equal, {LEFT_OUT} left out)")))
}

/// `12 of 34 answers equal to Kubernetes`
fn count(said: &str) -> Option<(usize, usize)> {
    let line = said.lines().rev().find_map(|line| line.strip_suffix(" answers equal to Kubernetes"))?;
    let (equal, of) = line.split_once(" of ")?;
    Some((equal.parse().ok()?, of.parse().ok()?))
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
    use super::count;

    #[test]
    fn the_count_is_read_from_the_last_line() {
        assert_eq!(count("area 1 of 2\n\n3 s\n12 of 34 answers equal to Kubernetes\n"), Some((12, 34)));
        assert_eq!(count("Traceback: 12 of 34\n"), None);
    }
}
