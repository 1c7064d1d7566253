//! Crash test: a child process writes and prints each acknowledgement, and is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::*;

const FOLDER: &str = "KUBE_EMBEDDED_CRASH_FOLDER";
const ROUND: &str = "KUBE_EMBEDDED_CRASH_ROUND";
const ROUNDS: u64 = 20;

/// The child's main function, not a test of its own: the test below runs this binary again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else { return };
    let store = Store::open(Path::new(&folder), Options::default()).unwrap();
    println!("\nack open {}", store.version());
    let writers = (0..6).map(|writer| {
        let (store, round) = (store.clone(), round.clone());
        tokio::spawn(async move {
            for n in 0.. {
                let name = format!("r{round}-w{writer}-{n}");
                // Two changes in one transaction: both or neither survive.
                let twin = format!("{name}-twin");
                let made = store.commit(vec![create(&name), create(&twin)]).await.unwrap();
                println!("ack {name} {}", made[0].version);
                if n % 3 == 2 {
                    let gone = store.commit(vec![delete(&twin, made[1].version)]).await.unwrap();
                    println!("ack -{twin} {}", gone[0].version);
                }
            }
        })
    });
    join_all(writers).await;
}

#[test]
fn acknowledged_writes_survive_sigkill_and_versions_never_go_back() {
    let folder = TempDir::new().unwrap();
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let mut newest = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::crash::writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = (round * 37) % 90;
        for line in lines {
            let line = line.unwrap();
            let Some((name, version)) = line.strip_prefix("ack ").and_then(|ack| ack.split_once(' ')) else {
                continue;
            };
            let version: u64 = version.parse().unwrap();
            if name == "open" {
                assert!(version >= newest, "the store went back from {newest} to {version}");
            } else {
                acknowledged.insert(name.to_owned(), version);
            }
            newest = newest.max(version);
            if left == 0 {
                // At some point between two commits, or within one.
                std::thread::sleep(Duration::from_micros((round * 613) % 4000));
                child.kill().unwrap();
            }
            left = left.saturating_sub(1);
        }
        child.wait().unwrap();

        let store = Store::open(folder.path(), Options::default()).unwrap();
        assert!(store.version() >= newest);
        newest = store.version();
        for (name, version) in &acknowledged {
            match name.strip_prefix('-') {
                None => assert_eq!(store.get("configmaps", "n", name).unwrap().version, *version),
                Some(gone) => assert!(store.get("configmaps", "n", gone).is_none()),
            }
        }
        let first = store.list("configmaps", None);
        let twin = |o: &Object| store.get("configmaps", "n", &format!("{}-twin", o.name)).is_some();
        let halves = first.objects.iter().filter(|o| !o.name.ends_with("-twin") && !twin(o));
        let dropped_on_purpose =
            halves.filter(|o| o.name.rsplit('-').next().unwrap().parse::<u64>().unwrap() % 3 != 2).count();
        assert_eq!(dropped_on_purpose, 0, "half a transaction survived");
    }
    assert!(acknowledged.len() > 100, "the children wrote only {}", acknowledged.len());
}
