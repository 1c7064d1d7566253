//! Actions on a release other than install and upgrade, on a platform.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::follow::{Until, follow};
use super::{Release, Served, items, number, query, status, text};
use crate::helm::{Outcome, Refusal};
use crate::platform::output::tame;
use crate::release::acts::{PauseArgs, RestartArgs, SuspendArgs};
use crate::release::output::encoded;
use crate::release::place::needs_cluster;
use crate::release::rollback::RollbackArgs;
use crate::release::test::TestArgs;
use crate::release::uninstall::{Cascade, UninstallArgs};

/// The response arrives after all tests have run; each has its own timeout.
const TESTED_WITHIN: Duration = Duration::from_hours(1);

pub async fn rollback(args: &RollbackArgs, served: &Served) -> Outcome {
    let write = &args.write;
    needs_cluster(&[
        (write.is_dry(), "--dry-run (see `longshore diff`)"),
        (write.force_replace.0, "--force-replace"),
        (write.force_conflicts, "--force-conflicts"),
        (write.no_hooks.0, "--no-hooks"),
        (write.description.is_some(), "--description"),
        (args.cleanup_on_fail.0, "--cleanup-on-fail"),
        (args.history_max != 10, "--history-max"),
    ])?;
    let release = served.release(&args.name).await?;
    let mut revision = args.revision()?;
    if revision == 0 {
        let history = release.get("/history").await?;
        let last = items(&history, "items").first().map_or(0, |last| number(last, "/revision"));
        revision = last - 1;
        if revision < 1 {
            return Err(format!("release {:?} has no revision before the last", args.name).into());
        }
    }
    let how = query(&[("asAdministrator", args.administrator.query())]);
    let asked = release.post(&format!("/rollback{how}"), &json!({"revision": revision})).await?;
    let until = if args.wait.waits() { Until::Ready } else { Until::Deployed };
    follow(&release, text(&asked, "/operation"), until).await?;
    Ok(b"Rollback was a success! Happy Helming!\n".to_vec())
}

/// The release is not reconciled any more, so there is no operation to follow.
pub async fn suspend(args: &SuspendArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let asked = release.post("/suspend", &Value::Null).await?;
    if let Some(encoded) = encoded(args.output.output, &asked) {
        return encoded;
    }
    Ok(format!("release {:?} is suspended; see `longshore resume`\n", args.name).into_bytes())
}

/// Pause, recover, resume, retry and adopt: sends the action and follows its operation.
pub async fn change(act: &str, args: &PauseArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let asked = release.post(&format!("/{act}"), &Value::Null).await?;
    let until = if args.wait.0 { Until::Ready } else { Until::Deployed };
    follow(&release, text(&asked, "/operation"), until).await?;
    status::after(&release, args.output.output, true).await
}

pub async fn restart(args: &RestartArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let how = query(&[("rolling", args.rolling.0.then(|| "true".to_owned()))]);
    let done = release.post(&format!("/restart{how}"), &Value::Null).await?;
    if let Some(encoded) = encoded(args.output.output, &done) {
        return encoded;
    }
    let mut out = String::new();
    for workload in items(&done, "workloads") {
        let _ = writeln!(out, "{} restarted", tame(workload.as_str().unwrap_or_default()));
    }
    if out.is_empty() {
        eprintln!("release {:?} has no workloads to restart", args.name);
    }
    Ok(out.into_bytes())
}

pub async fn uninstall(args: &UninstallArgs, served: &Served) -> Outcome {
    needs_cluster(&[
        (args.keep_history.0, "--keep-history"),
        (args.no_hooks.0, "--no-hooks"),
        (args.description.is_some(), "--description"),
        (!matches!(args.cascade, Cascade::Background), "--cascade"),
    ])?;
    let mut said = String::new();
    for name in &args.names {
        let release = served.release(name).await?;
        // Releases before the failed one were uninstalled, so their output is kept.
        let done = leave(&release, args).await;
        let words = done.map_err(|refusal| Refusal { output: said.clone().into_bytes(), ..refusal })?;
        said.push_str(&words);
    }
    Ok(said.into_bytes())
}

async fn leave(release: &Release<'_>, args: &UninstallArgs) -> Result<String, Refusal> {
    let name = &release.name;
    if args.dry_run.0 || args.ignore_not_found.0 {
        match release.if_there().await? {
            None if args.ignore_not_found.0 => return Ok(String::new()),
            None => return Err(not_found(release)),
            Some(_) if args.dry_run.0 => return Ok(format!("release {name:?} would be uninstalled\n")),
            Some(_) => {}
        }
    }
    let yes = |said: bool| said.then(|| "true".to_owned());
    let how = query(&[
        ("claims", yes(args.claims.0)),
        ("force", yes(args.force.0)),
        ("asAdministrator", args.administrator.query()),
    ]);
    let asked = release.served.client.delete(&release.path(&how)).await?;
    if args.force.0 && asked["leftBehind"].is_array() {
        return Ok(format!("{}release {name:?} uninstalled by force\n", left_behind(&asked)));
    }
    follow(release, text(&asked, "/operation"), Until::Gone).await?;
    Ok(format!("{}release {name:?} uninstalled\n", left_behind(&asked)))
}

/// One line per orphaned object.
fn left_behind(asked: &Value) -> String {
    let mut out = String::new();
    for object in items(asked, "leftBehind") {
        let part = |place: &str| tame(text(object, place));
        let whole = [part("/namespace"), part("/name")];
        let named = whole.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/");
        let _ = writeln!(out, "left behind: {} {named}: {}", part("/kind"), part("/why"));
    }
    out
}

fn not_found(release: &Release<'_>) -> Refusal {
    format!("there is no release `{}/{}`", release.namespace, release.name).into()
}

pub async fn test(args: &TestArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let (only, except) = args.names();
    let joined = |names: Vec<String>| (!names.is_empty()).then(|| names.join(","));
    let which = query(&[
        ("only", joined(only)),
        ("except", joined(except)),
        ("logs", args.logs.0.then(|| "true".to_owned())),
        ("timeout", Some(format!("{}ms", args.timeout.as_millis()))),
    ]);
    let path = release.path(&format!("/test{which}"));
    let tested = served.client.post_within(TESTED_WITHIN, &path, &Value::Null).await?;
    let tests = items(&tested, "tests");
    if tests.is_empty() {
        return Ok(format!("release {:?} has no tests\n", args.name).into_bytes());
    }
    let mut out = String::new();
    for test in tests {
        let part = |place: &str| tame(text(test, place));
        let _ = writeln!(out, "TEST SUITE:     {}\nPhase:          {}", part("/name"), part("/phase"));
    }
    let mut why = vec![tame(text(&tested, "/why"))];
    for test in tests {
        let name = tame(text(test, "/name"));
        if let Some(log) = test["log"].as_str() {
            let lines: Vec<String> = log.lines().map(|line| tame(&line.replace('\t', "    "))).collect();
            let _ = writeln!(out, "\nPOD LOGS: {name}\n{}", lines.join("\n"));
        } else if !text(test, "/noLog").is_empty() {
            why.push(format!("unable to get pod logs for {name}: {}", tame(text(test, "/noLog"))));
        }
    }
    why.retain(|why| !why.is_empty());
    if why.is_empty() { Ok(out.into_bytes()) } else { Err(Refusal::after(out, why.join("\n"))) }
}
