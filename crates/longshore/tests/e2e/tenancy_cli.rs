//! The command line of platform users: output on stdout and stderr, exit codes, files, and secrets that must not leak.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::platform::unused_phone;
use crate::program::longshore;
use crate::target::{Cluster, only_on_embedded};

const PASSWORD: &str = "canary of a password";

/// A user on this machine, where a server runs on the default data folder.
struct LocalUser {
    home: PathBuf,
    /// All output that the user has read.
    transcript: String,
}

impl LocalUser {
    fn at(cluster: &Cluster) -> Self {
        let home = cluster.folder.path().join("home");
        fs::create_dir_all(home.join("data")).unwrap();
        symlink(cluster.folder.path().join("data"), home.join("data/longshore")).unwrap();
        Self { home, transcript: String::new() }
    }

    /// Runs a command with this stdin. Returns exit code, stdout and stderr.
    fn run(&mut self, line: &str, input: &str) -> (i32, String, String) {
        let mut command: Command = longshore(line.split_whitespace());
        let home = |folder: &str| self.home.join(folder);
        command
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", home("config"))
            .env("XDG_DATA_HOME", home("data"));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let came = child.wait_with_output().unwrap();
        let (out, notes) = (String::from_utf8(came.stdout).unwrap(), String::from_utf8(came.stderr).unwrap());
        assert!(!format!("{out}{notes}").contains('\u{1b}'), "colours where no terminal is: {line}");
        self.transcript.push_str(&out);
        self.transcript.push_str(&notes);
        (came.status.code().unwrap(), out, notes)
    }

    /// Stdout of a command that must succeed.
    fn run_ok(&mut self, line: &str) -> String {
        let (code, out, notes) = self.run(line, "");
        assert_eq!(code, 0, "{line}: {out}{notes}");
        out
    }
}

fn mode(path: &PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn register_login_work_and_logout() {
    // A server on a real cluster writes no endpoints file on this machine.
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let mut ana = LocalUser::at(&cluster);
    let phone = unused_phone();
    let (email, workspace) = (format!("cli{phone}@example.com"), format!("cli-{phone}"));
    cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/user-{phone}"));
    cluster.remove_at_end(format!("/apis/longshore.dev/v1alpha1/workspaces/{workspace}"));

    // The server on this machine is found without `--server`.
    let register = format!("register --email {email} --phone {phone} --organization Acme --password-stdin");
    let (code, told, notes) = ana.run(&register, PASSWORD);
    assert!(code == 0 && told.starts_with("lsh_"), "{notes}");
    let (code, out, notes) = ana.run(&format!("login --account {email} --password-stdin"), PASSWORD);
    assert!(code == 0 && out.starts_with(&format!("signed in to {} as u", server.url)), "{out}{notes}");
    let file = ana.home.join("config/longshore/contexts.yaml");
    assert_eq!((mode(&file), mode(&file.parent().unwrap().to_owned())), (0o600, 0o700));
    let kept = fs::read_to_string(&file).unwrap();
    let token = kept.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap().to_owned();

    assert!(ana.run_ok("whoami").contains(&email));
    assert_eq!(
        ana.run_ok(&format!("workspace create {workspace}")),
        format!("workspace/{workspace} created\n")
    );
    assert!(ana.run_ok("workspace list -o name").contains(&format!("workspace/{workspace}\n")));
    let kubeconfig = ana.home.join("kubeconfig");
    ana.run_ok(&format!("kubeconfig --user -o {}", kubeconfig.display()));
    assert_eq!(mode(&kubeconfig), 0o600);

    for (line, code, part) in [
        ("workspace get nowhere", 1, "error: workspace `nowhere` not found (request "),
        ("user list", 1, "error: "),
        ("whoami --server http://127.0.0.1:1", 1, "error: not signed in to http://127.0.0.1:1"),
        ("whoami --context nowhere", 1, "error: context `nowhere` not found"),
        ("login http://example.com", 2, "error: `http://example.com` would send secrets unencrypted"),
        ("workspace frobnicate", 2, "error: unrecognized subcommand"),
        ("workspace delete", 2, "error: the following required arguments"),
    ] {
        let (is, out, notes) = ana.run(line, "");
        assert_eq!((is, out.as_str()), (code, ""), "{line}: {notes}");
        assert!(notes.starts_with(part), "{line}: {notes}");
    }

    assert_eq!(ana.run_ok("logout"), format!("signed out of {}\n", server.url));
    let (code, _, notes) = ana.run("whoami", "");
    assert!(code == 1 && notes.contains("longshore login"), "{notes}");
    assert!(!fs::read_to_string(&file).unwrap().contains(&token));

    let bearer = fs::read_to_string(&kubeconfig).unwrap();
    let bearer = bearer.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    for secret in [&token, PASSWORD, bearer] {
        assert!(!ana.transcript.contains(secret) && !server.log().contains(secret));
    }
    assert_eq!(ana.transcript.matches(told.trim()).count(), 1);
    assert!(!server.log().contains(told.trim()));
}
