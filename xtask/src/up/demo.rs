//! `cargo xtask up --demo`: creates an account and example releases on a server that has just started.
//!
//! It runs the commands that a user would type. Existing objects are left unchanged.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::project::{Project, run};

const EMAIL: &str = "demo@example.com";

/// A demo release: name, chart and further arguments of `install`.
struct DemoRelease {
    name: &'static str,
    chart: &'static str,
    extra_args: &'static [&'static str],
}

const DEMO_RELEASES: &[DemoRelease] = &[
    DemoRelease { name: "shop", chart: "shop", extra_args: &["--wait"] },
    DemoRelease { name: "orders", chart: "orders", extra_args: &["--wait"] },
    DemoRelease { name: "reports", chart: "reports", extra_args: &[] },
    DemoRelease { name: "broken", chart: "broken", extra_args: &["--wait", "--timeout", "5s"] },
];

/// Creates the account and the releases on a server that is ready.
pub fn create(project: &Project, program: &Path, data: &Path, server: &str) -> Result<()> {
    Demo { project, program, data, server }.create()
}

struct Demo<'a> {
    project: &'a Project,
    program: &'a Path,
    data: &'a Path,
    server: &'a str,
}

impl Demo<'_> {
    fn create(&self) -> Result<()> {
        let token = self.account_token()?;
        let longshore = |words: &[&str]| {
            let mut command = self.longshore(words);
            command.env("LONGSHORE_TOKEN", &token);
            command
        };
        for wish in DEMO_RELEASES {
            let there =
                longshore(&["status", wish.name]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            if there.success() {
                continue;
            }
            let chart = format!("xtask/demo/{}", wish.chart);
            let words = [&["install", wish.name, &chart], wish.extra_args].concat();
            println!("\n$ longshore {}", words.join(" "));
            // One release fails on purpose, so the status is ignored.
            longshore(&words).status()?;
            if wish.name == "shop" {
                let words = ["upgrade", "shop", &chart, "--set", "replicas=3,greeting=Hello"];
                println!("\n$ longshore {}", words.join(" "));
                run(&mut longshore(&words))?;
            }
        }
        println!("\n$ longshore list");
        run(&mut longshore(&["list"]))?;
        let env = self.data.join("demo.env");
        let program = self.program.parent().unwrap_or(Path::new(".")).display();
        println!(
            "\nIn another terminal:\n\n  \
             source {env}          # the program, the platform, and a token for it\n  \
             longshore status broken                     # what is wrong with it\n  \
             longshore history shop\n  \
             longshore diff shop 1 2\n  \
             longshore logs shop --tail 3\n  \
             longshore upgrade shop xtask/demo/shop --reuse-values --set replicas=5 --wait\n  \
             longshore pause shop && longshore recover shop --wait\n  \
             longshore rollback shop 1 --wait\n",
            env = self.display_path(&env),
        );
        write_private(
            &env,
            &format!(
                "export LONGSHORE_SERVER={}\nexport LONGSHORE_TOKEN={token}\nexport PATH=\"{program}:$PATH\"\n",
                self.server
            ),
        )
    }

    /// The token of the demo account: the saved one if it is still valid, otherwise a new one.
    fn account_token(&self) -> Result<String> {
        let kept = fs::read_to_string(self.data.join("demo.env")).unwrap_or_default();
        let kept =
            kept.lines().find_map(|line| line.strip_prefix("export LONGSHORE_TOKEN=")).map(str::to_owned);
        if let Some(token) = kept {
            let mut whoami = self.longshore(&["whoami"]);
            if whoami
                .env("LONGSHORE_TOKEN", &token)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?
                .success()
            {
                return Ok(token);
            }
        }
        let person = ["--email", EMAIL, "--phone", "10000000000", "--organization", "Demo"];
        let made = self.longshore(&[&["register"], &person[..]].concat()).output()?;
        if made.status.success() {
            return Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned());
        }
        self.token_by_password_reset()
            .with_context(|| String::from_utf8_lossy(&made.stderr).trim().to_owned())
    }

    /// Resets the password of an account whose token is lost. Access to the data folder is enough for that.
    fn token_by_password_reset(&self) -> Result<String> {
        let data = self.data;
        let kubeconfig = crate::project::output(self.longshore(&["kubeconfig", "--data"]).arg(data))?;
        let file = data.join("kubeconfig");
        write_private(&file, &kubeconfig)?;
        let reset =
            self.longshore(&["admin", "reset-password", EMAIL, "--kubeconfig"]).arg(&file).output()?;
        let said = String::from_utf8_lossy(&reset.stdout).into_owned();
        let password = said.split_whitespace().next_back().context("no password was printed")?;
        let home = data.join("demo");
        let mut login = self.longshore(&["login", self.server, "--account", EMAIL, "--password-stdin"]);
        let mut login =
            login.env("XDG_CONFIG_HOME", &home).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        login.stdin.take().context("no way in")?.write_all(password.as_bytes())?;
        if !login.wait()?.success() {
            bail!("cannot sign in as {EMAIL}");
        }
        let mut token = self.longshore(&["token", "create", "--name", "demo"]);
        Ok(crate::project::output(token.env("XDG_CONFIG_HOME", &home))?.trim().to_owned())
    }

    fn longshore(&self, words: &[&str]) -> Command {
        let mut command = self.project.command(&self.program.to_string_lossy(), words);
        command.env("LONGSHORE_SERVER", self.server).env_remove("LONGSHORE_KUBE_KUBECONFIG");
        command.env_remove("LONGSHORE_TOKEN").env_remove("LONGSHORE_NAMESPACE");
        command
    }

    fn display_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.project.root).unwrap_or(path).display().to_string()
    }
}

/// Writes a file with mode 0600.
fn write_private(file: &Path, text: &str) -> Result<()> {
    let open = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(file);
    open.and_then(|mut open| open.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write `{}`", file.display()))
}
