//! Tests of the contexts file: content, permissions, and errors that disclose nothing.

use tempfile::{TempDir, tempdir};

use super::*;

fn file_in(folder: &TempDir) -> ContextsFile {
    let home = folder.path().to_string_lossy().into_owned();
    ContextsFile::from_environment(&BTreeMap::from([("HOME".to_owned(), home)])).unwrap()
}

fn context(name: &str) -> Context {
    Context {
        name: name.to_owned(),
        server: "http://127.0.0.1:8080".parse().unwrap(),
        ca: None,
        account: Some("uabcdefghij".to_owned()),
        token: Some(Secret::new("lsh_abcdefghij_canary")),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn contexts_file_is_in_config_folder() {
    let of = |pairs: &[(&str, &str)]| {
        let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ContextsFile::from_environment(&environment.collect()).map(|file| file.path().display().to_string())
    };
    assert_eq!(of(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]).unwrap(), "/c/longshore/contexts.yaml");
    assert_eq!(
        of(&[("XDG_CONFIG_HOME", "c"), ("HOME", "/h")]).unwrap(),
        "/h/.config/longshore/contexts.yaml"
    );
    assert!(matches!(of(&[]), Err(ContextsError::NoConfigFolder)));
}

#[test]
fn what_was_entered_is_found_again_and_nobody_else_can_read_it() {
    let folder = tempdir().unwrap();
    let file = file_in(&folder);
    assert_eq!(file.read().unwrap(), Contexts::default());
    for name in ["one", "two"] {
        file.update(|contexts| {
            contexts.upsert_current(context(name));
            Ok(())
        })
        .unwrap();
    }
    let contexts = file.read().unwrap();
    assert_eq!(contexts.current(), Some(&context("two")));
    assert_eq!(contexts.contexts, [context("one"), context("two")]);
    assert_eq!((mode(file.path()), mode(file.path().parent().unwrap())), (0o600, 0o700));
    let beside: Vec<_> =
        fs::read_dir(file.path().parent().unwrap()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(beside.len(), 2, "the file and its lock: {beside:?}");
    assert!(beside.iter().all(|entry| mode(&entry.path()) == 0o600));
    insta::assert_snapshot!(fs::read_to_string(file.path()).unwrap());
}

#[test]
fn contexts_file_readable_by_others_is_rejected_unchanged() {
    let folder = tempdir().unwrap();
    let file = file_in(&folder);
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    fs::write(file.path(), "contexts: []\n").unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(file.read(), Err(ContextsError::InsecurePermissions { .. })));
    let changed = file.update(|contexts| {
        contexts.upsert_current(context("one"));
        Ok(())
    });
    assert!(matches!(changed, Err(ContextsError::InsecurePermissions { .. })));
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "contexts: []\n");
}

#[test]
fn contexts_parse_error_names_file_without_content() {
    let folder = tempdir().unwrap();
    let file = file_in(&folder);
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    for broken in [
        "contexts: lsh_abcdefghij_canary",
        "contexts:\n- name: a\n  server: http://127.0.0.1\n  tokens: lsh_abcdefghij_canary",
        "contexts:\n- name: a\n  server: lsh_abcdefghij_canary/x",
        "lsh_abcdefghij_canary",
        "a: [",
    ] {
        write_private(file.path(), broken.as_bytes()).unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(error, ContextsError::Malformed { .. }), "{broken}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[test]
fn concurrent_updates_lose_nothing() {
    let folder = tempdir().unwrap();
    let file = file_in(&folder);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let file = &file;
            scope.spawn(move || {
                file.update(|contexts| {
                    contexts.upsert_current(context(&format!("c{number}")));
                    Ok(())
                })
                .unwrap();
            });
        }
    });
    assert_eq!(file.read().unwrap().contexts.len(), 8);
}

#[test]
fn update_succeeds_with_leftover_temporary_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kept");
    let draft = folder.path().join(format!(".kept.{}", std::process::id()));
    fs::write(&draft, "half").unwrap();
    write_private(&path, b"whole").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    assert_eq!(mode(&path), 0o600);
    assert!(!draft.exists());
}

#[test]
fn remove_and_sign_out_delete_token() {
    let mut contexts = Contexts::default();
    contexts.upsert_current(context("one"));
    contexts.upsert_current(context("two"));
    assert!(contexts.set_current("three").is_err());
    contexts.set_current("one").unwrap();
    contexts.sign_out("one");
    assert_eq!((&contexts.contexts[0].account, &contexts.contexts[0].token), (&None, &None));
    assert_eq!(contexts.remove("one").unwrap().name, "one");
    assert_eq!(contexts.current_context, None);
    assert!(contexts.remove("one").is_err());
    assert_eq!(contexts.contexts.len(), 1);
}
