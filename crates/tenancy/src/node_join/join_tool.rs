//! The program with which a machine joins, and where it is downloaded from. Pure: no I/O, no clock.

use std::collections::BTreeMap;

/// The placeholder for the machine's architecture in a URL.
pub(super) const ARCH_PLACEHOLDER: &str = "{arch}";

/// The program with which a machine joins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JoinTool {
    /// `yurtadm`, which the operator of the machine has installed.
    #[default]
    Installed,
    /// Downloaded, and run only if its checksum matches.
    Downloaded {
        /// Contains `{arch}` if there is one file for each architecture.
        url: String,
        /// SHA-256 in hexadecimal, by architecture; under the empty name if there is one file for all.
        checksums: BTreeMap<String, String>,
    },
}

/// Why the settings of the join tool are invalid. The text names the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("a URL that begins with https://, without query or credentials")]
    Url,
    #[error(
        "a SHA-256 in hexadecimal, or one for each architecture such as amd64=…,arm64=… where join_url has {{arch}}"
    )]
    Checksums,
}

impl JoinTool {
    /// Parses `[edge] join_url` and `join_sha256`. An empty URL means an installed program.
    pub fn parse(url: &str, sums: &str) -> Result<Self, ToolError> {
        let (url, sums) = (url.trim(), sums.trim());
        if url.is_empty() {
            return if sums.is_empty() { Ok(Self::Installed) } else { Err(ToolError::Url) };
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!&()*+,;=%".contains(c);
        let rest = url.strip_prefix("https://").ok_or(ToolError::Url)?;
        if rest.is_empty() || !rest.replace(ARCH_PLACEHOLDER, "").chars().all(plain) {
            return Err(ToolError::Url);
        }
        let of_one = |entry: &str| {
            let (arch, sum) = entry.split_once('=').unwrap_or(("", entry));
            let (arch, sum) = (arch.trim(), sum.trim().to_ascii_lowercase());
            let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_arch = arch.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            // One checksum for all architectures if, and only if, the URL has no placeholder.
            (is_sum && is_arch && arch.is_empty() != url.contains(ARCH_PLACEHOLDER))
                .then(|| (arch.to_owned(), sum))
                .ok_or(ToolError::Checksums)
        };
        let sums = sums.split(',').map(of_one).collect::<Result<_, _>>()?;
        Ok(Self::Downloaded { url: url.to_owned(), checksums: sums })
    }

    /// URL and checksums in the form that [`JoinTool::parse`] reads.
    pub fn to_settings(&self) -> Option<(String, String)> {
        let Self::Downloaded { url, checksums: sums } = self else { return None };
        let entry = |(arch, sum): (&String, &String)| {
            if arch.is_empty() { sum.clone() } else { format!("{arch}={sum}") }
        };
        Some((url.clone(), sums.iter().map(entry).collect::<Vec<_>>().join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloaded_tool_requires_a_checksum_per_architecture() {
        let sum = "ab".repeat(32);
        let both = format!("amd64={sum},arm64={}", sum.to_uppercase());
        let table: [(&str, &str, Result<usize, ToolError>); 12] = [
            ("", "", Ok(0)),
            ("", &sum, Err(ToolError::Url)),
            ("https://example.com/yurtadm", &sum, Ok(1)),
            ("https://example.com/yurtadm", "", Err(ToolError::Checksums)),
            ("https://example.com/yurtadm", &both, Err(ToolError::Checksums)),
            ("https://example.com/{arch}.tar.gz", &both, Ok(2)),
            ("https://example.com/{arch}.tar.gz", &sum, Err(ToolError::Checksums)),
            ("https://example.com/{arch}", &format!("a'b={sum}"), Err(ToolError::Checksums)),
            ("http://example.com/yurtadm", &sum, Err(ToolError::Url)),
            ("https://example.com/$(reboot)", &sum, Err(ToolError::Url)),
            ("https://example.com/'; reboot; '", &sum, Err(ToolError::Url)),
            ("https://", &sum, Err(ToolError::Url)),
        ];
        for (url, sums, expected) in table {
            let parsed = JoinTool::parse(url, sums);
            let found = parsed.clone().map(|tool| match tool {
                JoinTool::Installed => 0,
                JoinTool::Downloaded { checksums: sums, .. } => sums.len(),
            });
            assert_eq!(found, expected, "{url} {sums}");
            if let Some((url, sums)) = parsed.ok().and_then(|tool| tool.to_settings()) {
                assert_eq!(JoinTool::parse(&url, &sums).unwrap().to_settings(), Some((url, sums)));
            }
        }
    }
}
