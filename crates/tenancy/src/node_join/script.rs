//! Shell scripts with which a machine joins and leaves. Pure: no I/O, no clock.
//!
//! Invariant: every inserted value stands between single quotes, so that a shell reads it as one word and executes none of it.

use std::fmt::Write;

use super::join_tool::{ARCH_PLACEHOLDER, JoinTool};

const WRITE_IS_INFALLIBLE: &str = "writing to a String cannot fail";

/// The parameters of the join script.
pub(super) struct JoinParams<'a> {
    /// Host and port of the API server.
    pub server: &'a str,
    /// `<id>.<secret>`
    pub token: &'a str,
    /// Digests of the cluster's CA certificates, as `sha256:<hex>`.
    pub ca_digests: &'a [String],
    pub namespace: &'a str,
    /// The prefix of the names of the account's nodes.
    pub prefix: &'a str,
    pub pool: Option<&'a str>,
}

/// The script that joins the machine on which it runs.
pub(super) fn join_script(tool: &JoinTool, join: &JoinParams<'_>) -> String {
    let mut words = vec![
        shell_quote(join.server),
        "--node-name=\"$name\"".to_owned(),
        format!("--token={}", shell_quote(join.token)),
        "--node-type=edge".to_owned(),
        format!("--organizations={}", shell_quote(&format!("openyurt:tenant:{}", join.namespace))),
    ];
    words.extend(
        join.ca_digests.iter().map(|hash| format!("--discovery-token-ca-cert-hash={}", shell_quote(hash))),
    );
    words.extend(join.pool.map(|pool| format!("--nodepool-name={}", shell_quote(pool))));
    let run = words.join(" \\\n  ");
    let what =
        "Makes this machine a node of your account, under its host name or the name given as first argument.";
    format!("{}{}\"$tool\" join {run}\n", prepare_tool_snippet(tool, what), node_name_snippet(join.prefix))
}

/// Sets `$name` to the node's name: the prefix, then the host name as Kubernetes accepts it, 63 characters at most.
fn node_name_snippet(prefix: &str) -> String {
    let prefix = shell_quote(prefix);
    format!(
        "prefix={prefix}\n\
         host=$(printf %s \"${{1:-$(uname -n)}}\" | tr 'A-Z' 'a-z' | tr -c 'a-z0-9-' '-')\n\
         name=$(printf %s \"$prefix${{host#\"$prefix\"}}\" | cut -c 1-63 | sed 's/-*$//')\n\
         case \"$name\" in\n\
         \x20 \"$prefix\"?*) ;;\n\
         \x20 *) echo 'the machine has no host name: give a name as the first argument' >&2; exit 1 ;;\n\
         esac\n\
         echo \"joining as node $name\" >&2\n"
    )
}

/// The script that removes the machine on which it runs from the cluster. Its Node is deleted in the console.
pub(super) fn reset_script(tool: &JoinTool) -> String {
    format!(
        "{}\"$tool\" reset --force\n",
        prepare_tool_snippet(tool, "Takes this machine out of the cluster.")
    )
}

/// Sets `$tool` to the program's path, or exits.
fn prepare_tool_snippet(tool: &JoinTool, what: &str) -> String {
    let mut script = format!(
        "#!/bin/sh\n# {what}\nset -eu\n\
         [ \"$(id -u)\" = 0 ] || {{ echo 'run this as root' >&2; exit 1; }}\n"
    );
    match tool {
        JoinTool::Installed => script.push_str(
            "tool=$(command -v yurtadm) || { echo 'yurtadm is not installed on this machine' >&2; exit 1; }\n",
        ),
        JoinTool::Downloaded { url, checksums: sums } => {
            script.push_str(
                "case \"$(uname -m)\" in\n\
                 \x20 x86_64 | amd64) arch=amd64 ;;\n\
                 \x20 aarch64 | arm64) arch=arm64 ;;\n\
                 \x20 armv7*) arch=arm ;;\n\
                 \x20 *) arch=$(uname -m) ;;\n\
                 esac\ncase \"$arch\" in\n",
            );
            for (arch, sum) in sums {
                let pattern = if arch.is_empty() { "*".to_owned() } else { shell_quote(arch) };
                writeln!(script, "  {pattern}) sum={} ;;", shell_quote(sum)).expect(WRITE_IS_INFALLIBLE);
            }
            if !sums.contains_key("") {
                script.push_str(
                    "  *) echo \"no join tool for $arch\" >&2; exit 1 ;;\n",
                );
            }
            let address = url.split(ARCH_PLACEHOLDER).map(shell_quote).collect::<Vec<_>>().join("\"$arch\"");
            write!(script, "esac\n\
                 folder=$(mktemp -d)\n\
                 trap 'rm -rf \"$folder\"' EXIT\n\
                 curl -fsSL --proto '=https' -o \"$folder/fetched\" {address}\n\
                 echo \"$sum  $folder/fetched\" | sha256sum -c - > /dev/null ||\n\
                 \x20 {{ echo 'checksum mismatch of the downloaded join tool; nothing was executed' >&2; exit 1; }}\n").expect(WRITE_IS_INFALLIBLE);
            script.push_str(unpack_snippet(url));
        }
    }
    script
}

/// Unpacks the downloaded archive, or uses the download as the program. Sets `$tool`.
fn unpack_snippet(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    if [".tar.gz", ".tgz"].iter().any(|end| path.ends_with(end)) {
        "tar -xzf \"$folder/fetched\" -C \"$folder\"\n\
         tool=$(find \"$folder\" -type f -name yurtadm | head -n 1)\n\
         [ -n \"$tool\" ] || { echo 'the downloaded archive contains no yurtadm' >&2; exit 1; }\n\
         chmod 0700 \"$tool\"\n"
    } else {
        "tool=\"$folder/fetched\"\nchmod 0700 \"$tool\"\n"
    }
}

/// Quotes text as one word of a shell.
fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
