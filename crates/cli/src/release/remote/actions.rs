//! Actions on a release other than install and upgrade, on a platform.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::follow::{WaitGoal, follow};
use super::{ReleaseRef, RemoteReleases, i64_at, items, query, status, str_at};
use crate::helm::{CommandError, CommandResult};
use crate::platform::output::escape_control;
use crate::release::action_args::{ActionArgs, RestartArgs, SuspendArgs};
use crate::release::output::encode;
use crate::release::rollback::RollbackArgs;
use crate::release::target::reject_cluster_only_flags;
use crate::release::test::TestArgs;
use crate::release::uninstall::{Cascade, UninstallArgs};

/// The response arrives after all tests have run; each has its own timeout.
const TEST_TIMEOUT: Duration = Duration::from_hours(1);

pub async fn rollback(args: &RollbackArgs, platform: &RemoteReleases) -> CommandResult {
    let write = &args.write;
    reject_cluster_only_flags(&[
        (write.is_dry(), "--dry-run (see `longshore diff`)"),
        (write.force_replace.0, "--force-replace"),
        (write.force_conflicts, "--force-conflicts"),
        (write.no_hooks.0, "--no-hooks"),
        (write.description.is_some(), "--description"),
        (args.cleanup_on_fail.0, "--cleanup-on-fail"),
        (args.history_max != 10, "--history-max"),
    ])?;
    let release = platform.release(&args.name).await?;
    let mut revision = args.revision()?;
    if revision == 0 {
        let history = release.get("/history").await?;
        let last = items(&history, "items").first().map_or(0, |last| i64_at(last, "/revision"));
        revision = last - 1;
        if revision < 1 {
            return Err(format!("release {:?} has no revision before the last", args.name).into());
        }
    }
    let query_string = query(&[("asAdministrator", args.administrator.query_value())]);
    let asked = release.post(&format!("/rollback{query_string}"), &json!({"revision": revision})).await?;
    let goal = if args.wait.waits() { WaitGoal::Ready } else { WaitGoal::Deployed };
    follow(&release, str_at(&asked, "/operation"), goal).await?;
    Ok(b"Rollback was a success! Happy Helming!\n".to_vec())
}

/// The release is not reconciled any more, so there is no operation to follow.
pub async fn suspend(args: &SuspendArgs, served: &RemoteReleases) -> CommandResult {
    let release = served.release(&args.name).await?;
    let asked = release.post("/suspend", &Value::Null).await?;
    if let Some(encoded) = encode(args.output.output, &asked) {
        return encoded;
    }
    Ok(format!("release {:?} suspended; resume it with `longshore resume`\n", args.name).into_bytes())
}

/// Pause, recover, resume, retry and adopt: sends the action and follows its operation.
pub async fn run_action(act: &str, args: &ActionArgs, served: &RemoteReleases) -> CommandResult {
    let release = served.release(&args.name).await?;
    let asked = release.post(&format!("/{act}"), &Value::Null).await?;
    let until = if args.wait.0 { WaitGoal::Ready } else { WaitGoal::Deployed };
    follow(&release, str_at(&asked, "/operation"), until).await?;
    status::print_release(&release, args.output.output, true).await
}

pub async fn restart(args: &RestartArgs, served: &RemoteReleases) -> CommandResult {
    let release = served.release(&args.name).await?;
    let how = query(&[("rolling", args.rolling.0.then(|| "true".to_owned()))]);
    let done = release.post(&format!("/restart{how}"), &Value::Null).await?;
    if let Some(encoded) = encode(args.output.output, &done) {
        return encoded;
    }
    let mut out = String::new();
    for workload in items(&done, "workloads") {
        let _ = writeln!(out, "{} restarted", escape_control(workload.as_str().unwrap_or_default()));
    }
    if out.is_empty() {
        eprintln!("release {:?} has no workloads to restart", args.name);
    }
    Ok(out.into_bytes())
}

pub async fn uninstall(args: &UninstallArgs, served: &RemoteReleases) -> CommandResult {
    reject_cluster_only_flags(&[
        (args.keep_history.0, "--keep-history"),
        (args.no_hooks.0, "--no-hooks"),
        (args.description.is_some(), "--description"),
        (!matches!(args.cascade, Cascade::Background), "--cascade"),
    ])?;
    let mut said = String::new();
    for name in &args.names {
        let release = served.release(name).await?;
        // Releases before the failed one were uninstalled, so their output is kept.
        let done = uninstall_one(&release, args).await;
        let words = done.map_err(|refusal| CommandError { output: said.clone().into_bytes(), ..refusal })?;
        said.push_str(&words);
    }
    Ok(said.into_bytes())
}

async fn uninstall_one(release: &ReleaseRef<'_>, args: &UninstallArgs) -> Result<String, CommandError> {
    let name = &release.name;
    if args.dry_run.0 || args.ignore_not_found.0 {
        match release.get_opt().await? {
            None if args.ignore_not_found.0 => return Ok(String::new()),
            None => return Err(not_found_error(release)),
            Some(_) if args.dry_run.0 => return Ok(format!("release {name:?} would be uninstalled\n")),
            Some(_) => {}
        }
    }
    let yes = |said: bool| said.then(|| "true".to_owned());
    let how = query(&[
        ("claims", yes(args.claims.0)),
        ("force", yes(args.force.0)),
        ("asAdministrator", args.administrator.query_value()),
    ]);
    let asked = release.platform.client.delete(&release.path(&how)).await?;
    if args.force.0 && asked["leftBehind"].is_array() {
        return Ok(format!("{}release {name:?} uninstalled forcibly\n", orphan_lines(&asked)));
    }
    follow(release, str_at(&asked, "/operation"), WaitGoal::Deleted).await?;
    Ok(format!("{}release {name:?} uninstalled\n", orphan_lines(&asked)))
}

/// One line per orphaned object.
fn orphan_lines(asked: &Value) -> String {
    let mut out = String::new();
    for object in items(asked, "leftBehind") {
        let part = |place: &str| escape_control(str_at(object, place));
        let whole = [part("/namespace"), part("/name")];
        let named = whole.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/");
        let _ = writeln!(out, "not deleted: {} {named}: {}", part("/kind"), part("/why"));
    }
    out
}

fn not_found_error(release: &ReleaseRef<'_>) -> CommandError {
    format!("release `{}/{}` not found", release.namespace, release.name).into()
}

pub async fn test(args: &TestArgs, served: &RemoteReleases) -> CommandResult {
    let release = served.release(&args.name).await?;
    let (only, except) = args.selected_and_skipped();
    let joined = |names: Vec<String>| (!names.is_empty()).then(|| names.join(","));
    let query_string = query(&[
        ("only", joined(only)),
        ("except", joined(except)),
        ("logs", args.logs.0.then(|| "true".to_owned())),
        ("timeout", Some(format!("{}ms", args.timeout.as_millis()))),
    ]);
    let path = release.path(&format!("/test{query_string}"));
    let tested = served.client.post_with_timeout(TEST_TIMEOUT, &path, &Value::Null).await?;
    let tests = items(&tested, "tests");
    if tests.is_empty() {
        return Ok(format!("release {:?} has no tests\n", args.name).into_bytes());
    }
    let mut out = String::new();
    for test in tests {
        let part = |place: &str| escape_control(str_at(test, place));
        let _ = writeln!(out, "TEST SUITE:     {}\nPhase:          {}", part("/name"), part("/phase"));
    }
    let mut why = vec![escape_control(str_at(&tested, "/why"))];
    for test in tests {
        let name = escape_control(str_at(test, "/name"));
        if let Some(log) = test["log"].as_str() {
            let lines: Vec<String> =
                log.lines().map(|line| escape_control(&line.replace('\t', "    "))).collect();
            let _ = writeln!(out, "\nPOD LOGS: {name}\n{}", lines.join("\n"));
        } else if !str_at(test, "/noLog").is_empty() {
            why.push(format!(
                "unable to get pod logs for {name}: {}",
                escape_control(str_at(test, "/noLog"))
            ));
        }
    }
    why.retain(|why| !why.is_empty());
    if why.is_empty() { Ok(out.into_bytes()) } else { Err(CommandError::with_output(out, why.join("\n"))) }
}
