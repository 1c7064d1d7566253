//! `cargo xtask bench NAME`: measures one thing beside its peer.
//!
//! A benchmark prints its work, our time, the peer's, their ratio, the goal and whether it is met, and writes the
//! same to `target/bench/NAME.json`. A missed goal is a result, not a failure.

use anyhow::{Result, bail};
use clap::Args;

/// Every benchmark: its name, and what it measures.
const BENCHMARKS: &[(&str, &str)] = &[];

#[derive(Args)]
pub struct BenchArgs {
    /// Which one; without a name the known ones are listed
    name: Option<String>,
}

pub fn bench(args: &BenchArgs) -> Result<()> {
    match &args.name {
        Some(name) => bail!("there is no benchmark `{name}`\n{}", known(BENCHMARKS)),
        None => println!("{}", known(BENCHMARKS)),
    }
    Ok(())
}

fn known(benchmarks: &[(&str, &str)]) -> String {
    if benchmarks.is_empty() {
        return "there are no benchmarks yet".to_owned();
    }
    let lines = benchmarks.iter().map(|(name, what)| format!("  {name:<16}{what}"));
    format!("known benchmarks:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused() {
        let refused = bench(&BenchArgs { name: Some("nothing".to_owned()) }).unwrap_err().to_string();
        assert!(refused.contains("there is no benchmark `nothing`"), "{refused}");
        assert!(known(&[("store", "writes a second")]).contains("store           writes a second"));
    }
}
