//! Server processes: start, measurements from `/proc`, stop.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The kernel's CPU time unit for user space, on every current Linux machine.
const TICKS_PER_SECOND: u32 = 100;
/// Timeout of a graceful stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running server process, killed on drop.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts the process with its output in `log`.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    /// Fails if the process has ended, so that no caller waits for it forever.
    pub fn ensure_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended: {status}", self.name),
            None => Ok(()),
        }
    }

    /// CPU time of all its threads, including ended ones.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(self.proc_path("stat"))?;
        parse_cpu(&stat).with_context(|| format!("cannot read the CPU time of {}", self.name))
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(self.proc_path("status"))?;
        parse_memory(&status, "VmRSS:").with_context(|| format!("cannot read the memory of {}", self.name))
    }

    /// Peak resident memory, in bytes.
    pub fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(self.proc_path("status"))?;
        parse_memory(&status, "VmHWM:").with_context(|| format!("cannot read the memory of {}", self.name))
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        if !asked.success() {
            bail!("cannot stop {}", self.name);
        }
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > STOP_TIMEOUT {
                bail!("{} does not stop", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn proc_path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name in parentheses may contain spaces and parentheses; utime and stime are the 12th and 13th field after it.
fn parse_cpu(stat: &str) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(Duration::from_secs(1) * (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn parse_memory(status: &str, what: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_cpu_adds_user_and_system_time() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 5 0 1 2 3";
        assert_eq!(parse_cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(parse_cpu("7 (cut"), None);
    }

    #[test]
    fn parse_memory_returns_bytes() {
        assert_eq!(parse_memory("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n", "VmRSS:"), Some(2 << 20));
        assert_eq!(parse_memory("Name:\tx\n", "VmRSS:"), None);
    }
}
