//! Snapshots of the scripts, and runs of them in a shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

fn join_params<'a>(authorities: &'a [String], pool: Option<&'a str>) -> JoinParams<'a> {
    JoinParams {
        server: "kube.example.com:6443",
        token: "abcdef.0123456789abcdef",
        ca_digests: authorities,
        namespace: "uaaaaaaaaaa",
        prefix: "uaaaaaaaaaa-",
        pool,
    }
}

fn downloaded_tool() -> JoinTool {
    let sum = "ab".repeat(32);
    let sums = format!("amd64={sum},arm64={sum}");
    JoinTool::parse("https://example.com/yurtadm-{arch}.tar.gz", &sums).unwrap()
}

#[test]
fn the_scripts_as_people_get_them() {
    let authorities = [format!("sha256:{}", "cd".repeat(32))];
    let text = [
        join_script(&JoinTool::Installed, &join_params(&authorities, None)),
        join_script(&downloaded_tool(), &join_params(&authorities, Some("hangzhou"))),
        reset_script(&JoinTool::Installed),
    ];
    insta::assert_snapshot!(text.join("\n----\n"));
}

/// Writes a program into `folder` for the script to call.
fn write_program(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the script in a shell with these programs first in `PATH`.
fn run_script(script: &str, programs: &[(&str, &str)]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    write_program(folder.path(), "id", "echo 0");
    for (name, text) in programs {
        write_program(folder.path(), name, text);
    }
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let ran = Command::new("sh").args(["-c", script]).env("PATH", path).output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap())
}

const PRINT_ARGS: &str = "for word in \"$@\"; do echo \"[$word]\"; done";

#[test]
fn join_script_passes_all_arguments_to_an_installed_tool() {
    let authorities = [format!("sha256:{}", "cd".repeat(32))];
    let script = join_script(&JoinTool::Installed, &join_params(&authorities, Some("hangzhou")));
    let (fine, said) = run_script(&script, &[("yurtadm", PRINT_ARGS), ("uname", "echo Edge_1.example.com")]);
    assert!(fine, "{said}");
    let words: Vec<&str> = said.lines().collect();
    assert_eq!(
        words,
        [
            "[join]",
            "[kube.example.com:6443]",
            "[--node-name=uaaaaaaaaaa-edge-1-example-com]",
            "[--token=abcdef.0123456789abcdef]",
            "[--node-type=edge]",
            "[--organizations=openyurt:tenant:uaaaaaaaaaa]",
            &format!("[--discovery-token-ca-cert-hash={}]", authorities[0]),
            "[--nodepool-name=hangzhou]",
            "joining as node uaaaaaaaaaa-edge-1-example-com",
        ]
    );
    let (fine, said) = run_script(&reset_script(&JoinTool::Installed), &[("yurtadm", PRINT_ARGS)]);
    assert!(fine && said.lines().collect::<Vec<_>>() == ["[reset]", "[--force]"], "{said}");
    let (fine, said) = run_script(&script, &[("id", "echo 1000"), ("yurtadm", PRINT_ARGS)]);
    assert!(!fine && said == "run this as root\n", "{said}");
}

#[test]
fn join_script_builds_node_name_from_prefix_and_host_name() {
    let script = join_script(&JoinTool::Installed, &join_params(&[], None));
    let named = |host: &str| {
        let uname = format!("printf '%s' '{host}'");
        run_script(&script, &[("yurtadm", PRINT_ARGS), ("uname", &uname)])
    };
    let long = "h".repeat(80);
    #[rustfmt::skip]
    let table = [
        ("edge-1",             "uaaaaaaaaaa-edge-1".to_owned()),
        ("uaaaaaaaaaa-edge-1", "uaaaaaaaaaa-edge-1".to_owned()),
        ("Box.local",          "uaaaaaaaaaa-box-local".to_owned()),
        (long.as_str(),        format!("uaaaaaaaaaa-{}", "h".repeat(51))),
    ];
    for (host, expected) in table {
        let (fine, said) = named(host);
        assert!(fine && said.contains(&format!("[--node-name={expected}]\n")), "{said}");
    }
    for host in ["", "--", "..."] {
        let (fine, said) = named(host);
        assert!(
            !fine && said == "the machine has no host name: give a name as the first argument\n",
            "{said}"
        );
    }
}

#[test]
fn join_script_runs_a_download_only_with_matching_checksum() {
    // Writes the download to the requested file.
    let curl = "while [ \"$1\" != -o ]; do shift; done\nprintf '#!/bin/sh\\necho ran \"$@\"\\n' > \"$2\"\necho \"from $3\"";
    let sum = "6b9d1a3ab0f9a3cd7b03d8bb3e0da7a6dc8a6c5d12ba4e3d7e1ec5ecb9c0a7d1";
    let right = {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(b"#!/bin/sh\necho ran \"$@\"\n");
        digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    };
    for (sum, expected) in [(sum, false), (right.as_str(), true)] {
        let tool = JoinTool::parse("https://example.com/{arch}/yurtadm", &format!("amd64={sum},arm64={sum}"))
            .unwrap();
        let (fine, said) = run_script(&reset_script(&tool), &[("curl", curl), ("uname", "echo aarch64")]);
        assert_eq!(fine, expected, "{said}");
        assert!(said.contains("from https://example.com/arm64/yurtadm"), "{said}");
        assert_eq!(said.contains("ran reset --force"), expected, "{said}");
    }
    let (fine, said) =
        run_script(&reset_script(&downloaded_tool()), &[("curl", "echo fetched"), ("uname", "echo riscv64")]);
    assert!(!fine && said == "no join tool for riscv64\n", "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_is_put_into_a_script_stays_one_word(text in "[ -~\n]{0,40}") {
        let authorities = [text.clone()];
        let join_with = JoinParams { server: &text, token: &text, namespace: &text, ..join_params(&authorities, Some(&text)) };
        let (fine, said) = run_script(&join_script(&JoinTool::Installed, &join_with), &[("yurtadm", "printf '%s\\0' \"$@\"")]);
        prop_assert!(fine);
        let words: Vec<&str> = said.split('\0').collect();
        prop_assert_eq!(words.len(), 9);
        prop_assert_eq!(words[1], &text);
        prop_assert_eq!(words[7], format!("--nodepool-name={text}"));
    }
}
