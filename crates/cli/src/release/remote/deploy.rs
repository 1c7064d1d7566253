//! `longshore install` and `longshore upgrade` on a platform.

use std::fmt::Write as _;
use std::time::Duration;

use helm_release::actions::{ApplyMode, WaitMode};
use helm_template::data::Data;
use serde_json::{Value, json};

use super::follow::{WaitGoal, follow};
use super::{ReleaseRef, RemoteReleases, chart, i64_at, items, query, status, str_at};
use crate::helm::flags::ValuesArgs;
use crate::helm::{CommandError, CommandResult};
use crate::platform::output::escape_control;
use crate::release::chart::{NameArguments, PROFILE};
use crate::release::deploy::DeployArgs;
use crate::release::flags::{Format, WaitArgs};
use crate::release::install::InstallArgs;
use crate::release::output::{data_to_yaml, encode, to_yaml};
use crate::release::target::reject_cluster_only_flags;
use crate::release::upgrade::{PreviousValuesArgs, UpgradeArgs};

/// Default timeout of an operation.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

pub async fn install(args: &InstallArgs, platform: &RemoteReleases) -> CommandResult {
    let failed = |refusal: CommandError| CommandError {
        message: format!("INSTALLATION FAILED: {}", refusal.message),
        ..refusal
    };
    reject_unsupported_flags(&args.deploy).map_err(failed)?;
    reject_cluster_only_flags(&[(args.replace.0, "--replace")]).map_err(failed)?;
    let names = NameArguments {
        arguments: &args.names,
        generate: args.generate_name.0,
        template: &args.name_template,
        now: platform.now().as_second(),
    };
    let (name, chart) = names.resolve().map_err(|why| failed(why.into()))?;
    let release = platform.release(&name).await?;
    create(&release, &chart, &args.deploy, options(&args.deploy)).await.map_err(failed)
}

pub async fn upgrade(args: &UpgradeArgs, served: &RemoteReleases) -> CommandResult {
    let failed = |refusal: CommandError| CommandError {
        message: format!("UPGRADE FAILED: {}", refusal.message),
        ..refusal
    };
    reject_unsupported_flags(&args.deploy).map_err(failed)?;
    let mut options = options(&args.deploy);
    if args.cleanup_on_fail.0 {
        options["cleanupOnFail"] = true.into();
    }
    match args.history_max {
        10 => {}
        0 => {
            return Err(failed("--history-max must be 1 to 100 on a platform".into()));
        }
        most => options["maxHistory"] = most.into(),
    }
    let release = served.release(&args.name).await?;
    let known = if args.install.0 { release.get_opt().await? } else { None };
    if args.install.0 && known.is_none() {
        if args.deploy.output.output == Format::Table {
            eprintln!("Release {:?} does not exist. Installing it now.", args.name);
        }
        return create(&release, &args.chart, &args.deploy, options).await;
    }
    change(&release, args, options).await.map_err(failed)
}

async fn create(release: &ReleaseRef<'_>, chart: &str, deploy: &DeployArgs, options: Value) -> CommandResult {
    let values = values(&deploy.values)?;
    let chart = chart::chart_source(release.platform, chart, &deploy.remote).await?;
    if deploy.write.is_dry() {
        let body = json!({"chart": chart, "values": values});
        return dry_run(release, &body, deploy).await;
    }
    let mut body = json!({
        "namespace": release.namespace, "name": release.name, "chart": chart, "values": values, "options": options,
    });
    if let Some(description) = &deploy.write.description {
        body["description"] = description.as_str().into();
    }
    let path = format!("releases{}", administrator_query(deploy));
    let asked = release.platform.client.post(&path, &body).await?;
    follow_and_print(release, &asked, deploy).await
}

async fn change(release: &ReleaseRef<'_>, args: &UpgradeArgs, options: Value) -> CommandResult {
    let deploy = &args.deploy;
    let mut body = changed_values(&deploy.values, &args.old_values)?;
    body["chart"] = chart::chart_source(release.platform, &args.chart, &deploy.remote).await?;
    // Options that are not given keep their values, except that an administrator states all of them.
    let stated = deploy.administrator.as_administrator.0;
    if stated || options.as_object().is_some_and(|options| !options.is_empty()) {
        body["options"] = options;
    }
    if deploy.write.is_dry() {
        return dry_run(release, &body, deploy).await;
    }
    if let Some(description) = &deploy.write.description {
        body["description"] = description.as_str().into();
    }
    let asked = release.platform.client.patch(&release.path(&administrator_query(deploy)), &body).await?;
    follow_and_print(release, &asked, deploy).await
}

/// Follows the operation and prints the release.
async fn follow_and_print(release: &ReleaseRef<'_>, asked: &Value, deploy: &DeployArgs) -> CommandResult {
    let goal = if waits_until_ready(deploy) { WaitGoal::Ready } else { WaitGoal::Deployed };
    follow(release, str_at(asked, "/operation"), goal).await?;
    status::print_release(release, deploy.output.output, deploy.shown.hide_notes.0).await
}

/// Query of an installation or upgrade.
fn administrator_query(deploy: &DeployArgs) -> String {
    query(&[("asAdministrator", deploy.administrator.query_value())])
}

/// Refuses flags that a platform does not support.
fn reject_unsupported_flags(deploy: &DeployArgs) -> Result<(), CommandError> {
    let DeployArgs { remote: _, values: _, write, wait, labels, output: _, fresh, shown, administrator: _ } =
        deploy;
    if shown.hide_secret.0 && !write.is_dry() {
        return Err("hiding Kubernetes secrets requires a dry-run mode".into());
    }
    reject_cluster_only_flags(&[
        (!matches!(write.server_side.0, ApplyMode::Auto | ApplyMode::ServerSide), "--server-side=false"),
        (write.force_conflicts, "--force-conflicts"),
        (matches!(wait.wait, Some(WaitMode::Legacy)), "--wait=legacy"),
        (!labels.labels.is_empty(), "--labels"),
        (fresh.skip_schema_validation.0, "--skip-schema-validation"),
        (fresh.render_subchart_notes.0, "--render-subchart-notes"),
        (
            fresh.create_namespace.0,
            "--create-namespace (on a platform workspaces have namespaces, see `longshore workspace`)",
        ),
    ])
}

fn waits_until_ready(deploy: &DeployArgs) -> bool {
    let WaitArgs { wait, wait_for_jobs, timeout: _ } = &deploy.wait;
    matches!(wait, Some(WaitMode::Watcher)) || wait_for_jobs.0 || deploy.fresh.rollback_on_failure.0
}

/// Options given on the command line.
fn options(deploy: &DeployArgs) -> Value {
    let rows = [
        ("wait", matches!(deploy.wait.wait, Some(WaitMode::Watcher))),
        ("waitForJobs", deploy.wait.wait_for_jobs.0),
        ("atomic", deploy.fresh.rollback_on_failure.0),
        ("skipCRDs", deploy.fresh.skip_crds.0),
        ("disableHooks", deploy.write.no_hooks.0),
        ("force", deploy.write.force_replace.0),
        ("takeOwnership", deploy.fresh.take_ownership.0),
    ];
    let mut options: serde_json::Map<String, Value> =
        rows.into_iter().filter(|row| row.1).map(|row| (row.0.to_owned(), true.into())).collect();
    if deploy.wait.timeout != DEFAULT_TIMEOUT {
        options.insert("timeout".to_owned(), format!("{}ms", deploy.wait.timeout.as_millis()).into());
    }
    Value::Object(options)
}

/// All values given on the command line, merged, as YAML.
fn values(args: &ValuesArgs) -> Result<String, String> {
    let values = args.read(PROFILE)?;
    if values.is_empty() { Ok(String::new()) } else { data_to_yaml(&Data::Map(values)) }
}

/// Change of the release's values. As with Helm, given values replace the previous ones or are merged over them;
/// without any, the previous ones stay.
pub fn changed_values(args: &ValuesArgs, old: &PreviousValuesArgs) -> Result<Value, String> {
    let values = values(args)?;
    let keep = old.reuse_values.0 || old.reset_then_reuse_values.0;
    Ok(match (old.reset_values.0, keep, values.is_empty()) {
        (false, _, true) => json!({}),
        (false, true, false) => json!({"values": values, "mergeValues": true}),
        (true, ..) | (false, false, false) => json!({"values": values}),
    })
}

/// Prints a dry run in Helm's format, without secrets.
async fn dry_run(release: &ReleaseRef<'_>, body: &Value, deploy: &DeployArgs) -> CommandResult {
    let plan = release.post(&format!("/plan{}", administrator_query(deploy)), body).await?;
    if let Some(encoded) = encode(deploy.output.output, &plan) {
        return encoded;
    }
    let mut out = format!(
        "NAME: {}\nNAMESPACE: {}\nSTATUS: pending-{}\nREVISION: {}\nDESCRIPTION: Dry run complete\nMANIFEST:\n",
        release.name,
        release.namespace,
        str_at(&plan, "/act"),
        i64_at(&plan, "/revision"),
    );
    for object in items(&plan, "objects") {
        out.push_str("---\n");
        out.push_str(&to_yaml(object)?);
    }
    let notes = str_at(&plan, "/notes").trim();
    if !notes.is_empty() && !deploy.shown.hide_notes.0 {
        let _ = writeln!(out, "NOTES:\n{notes}");
    }
    let shortages = shortage_lines(&plan);
    if !shortages.is_empty() {
        let _ = write!(out, "CAPACITY:\n{shortages}");
    }
    Ok(out.into_bytes())
}

/// Missing capacity, and checks that were not possible; empty if everything fits.
pub fn shortage_lines(plan: &Value) -> String {
    let short = items(plan, "shortages").iter().map(|short| str_at(short, "/message"));
    let unlooked = items(plan, "unlooked").iter().filter_map(Value::as_str);
    let unlooked = unlooked.map(|why| format!("not checked: {why}"));
    short.map(str::to_owned).chain(unlooked).map(|line| escape_control(&line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_lines_lists_each_shortage() {
        assert_eq!(shortage_lines(&json!({"shortages": []})), "");
        let plan = json!({
            "shortages": [{"kind": "quota", "message": "exceeded quota: few"}, {"kind": "nodes", "message": "1 of 2\u{7}"}],
            "unlooked": ["the quotas, which you may not read"],
        });
        assert_eq!(
            shortage_lines(&plan),
            "exceeded quota: few\n1 of 2\\u{7}\nnot checked: the quotas, which you may not read\n"
        );
    }
}
