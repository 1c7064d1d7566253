//! Limit of open files, raised at start, and the connection limits derived from it.

use kube_embedded::http::accept::ConnectionLimits;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::config::ConnectionsConfig;

/// Files reserved for other uses than client connections: the store, outgoing connections, logs.
const RESERVED_FILES: u64 = 512;
/// Number of ports that share the files.
const PORTS: u64 = 2;

/// Raises the soft limit of open files to the hard limit, and reduces the connection limits to fit.
pub fn connection_limits(wanted: ConnectionsConfig) -> ConnectionLimits {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the open file limit");
            limit = getrlimit(Resource::Nofile);
        }
    }
    let limits = fit_to_open_files(wanted, limit.current);
    if limits.total < wanted.total as usize {
        tracing::warn!(
            files = limit.current,
            connections = limits.total,
            "the open file limit allows fewer connections than limits.connections"
        );
    }
    limits
}

/// `files` is `None` if unlimited.
fn fit_to_open_files(wanted: ConnectionsConfig, files: Option<u64>) -> ConnectionLimits {
    let most = files.map_or(u64::MAX, |files| files.saturating_sub(RESERVED_FILES).max(files / 2) / PORTS);
    let total = u64::from(wanted.total).min(most.max(1));
    ConnectionLimits {
        total: usize::try_from(total).unwrap_or(usize::MAX),
        per_address: wanted.per_address as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_limit_of_open_files() {
        let wanted = ConnectionsConfig { total: 10_000, per_address: 1_000 };
        let total = |files| fit_to_open_files(wanted, files).total;
        assert_eq!(total(None), 10_000);
        assert_eq!(total(Some(1_048_576)), 10_000);
        assert_eq!(total(Some(4_096)), 1_792);
        assert_eq!(total(Some(256)), 64);
    }

    #[test]
    fn soft_limit_of_open_files_is_raised() {
        let limits = connection_limits(ConnectionsConfig { total: 1, per_address: 1 });
        assert_eq!(limits, ConnectionLimits { total: 1, per_address: 1 });
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, now.maximum);
    }
}
