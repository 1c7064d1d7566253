//! Registration latency, on the server's embedded cluster.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::future::try_join_all;

use super::result_line;
use crate::platform_server::PlatformServer;
use crate::report::{Goal, Line, Unit};

/// Number of concurrent registrations.
const MAX_CONCURRENT: usize = 50;

pub async fn measure(longshore: &Path, folder: &Path, rounds: usize) -> Result<Vec<Line>> {
    let folder = folder.join("waiting");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?; // of an earlier run
    }
    std::fs::create_dir_all(&folder)?;
    let server = PlatformServer::start(longshore, &folder, &["--kube-listen", "127.0.0.1:0"])?;
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for _ in 0..10 {
            let began = Instant::now();
            server.register(next()).await?;
            alone.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let began = Instant::now();
        try_join_all(
            (0..MAX_CONCURRENT).map(|_| next()).collect::<Vec<_>>().into_iter().map(|n| server.register(n)),
        )
        .await?;
        together.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let lines = [
        result_line(
            "register",
            "registration to a ready namespace, embedded",
            Unit::Millis,
            Goal::AtMost(300.0),
            &alone,
        ),
        result_line(
            "together",
            "50 registrations at once, the last of them",
            Unit::Millis,
            Goal::Unset,
            &together,
        ),
    ];
    lines.into_iter().map(|line| line.context("nothing was measured")).collect()
}
