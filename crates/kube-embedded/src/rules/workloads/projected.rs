//! Projected volumes: several sources in one directory. No two may write the same file.

use std::collections::HashSet;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::{paths, volume};

pub fn validate_sources(projected: &PathValue, errs: &mut FieldErrors) {
    let mut used: HashSet<String> = HashSet::new();
    let mut take = |path: &str, value: &str, errs: &mut FieldErrors| {
        if path.is_empty() {
            return;
        }
        if used.contains(path) {
            errs.push(FieldError::invalid(&projected.path, value, "conflicting duplicate paths"));
        } else {
            used.insert(path.to_owned());
        }
    };
    for source in projected.get("sources").items() {
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let at = source.get(kind);
            if !at.exists() {
                continue;
            }
            kinds += 1;
            check::required(&at.get("name"), errs);
            for item in at.get("items").items() {
                volume::validate_key_to_path(&item, errs);
                take(item.get("path").text(), at.get("name").text(), errs);
            }
        }
        let downward = source.get("downwardAPI");
        if downward.exists() {
            kinds += 1;
            for file in downward.get("items").items() {
                volume::validate_downward_file(&file.with_path(downward.path.clone()), errs);
                take(file.get("path").text(), file.get("path").text(), errs);
            }
        }
        let token = source.get("serviceAccountToken");
        if token.exists() {
            kinds += 1;
            validate_service_account_token(&token, projected, errs);
        }
        if kinds > 1 {
            let words = "may not specify more than 1 volume type per source";
            errs.push(FieldError::forbidden(&source.path, words));
        }
    }
}

fn validate_service_account_token(token: &PathValue, projected: &PathValue, errs: &mut FieldErrors) {
    let expiration = token.get("expirationSeconds");
    if expiration.int() < 600 {
        let words = "may not specify a duration less than 10 minutes";
        errs.push(FieldError::invalid(&expiration.path, expiration.int(), words));
    }
    if expiration.int() > 1 << 32 {
        let words = "may not specify a duration larger than 2^32 seconds";
        errs.push(FieldError::invalid(&expiration.path, expiration.int(), words));
    }
    let path = token.get("path").with_path(projected.path.field("path"));
    check::required(&path, errs);
    paths::validate_not_reserved(&path, errs);
}
