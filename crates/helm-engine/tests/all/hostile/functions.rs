//! Every function that iterates over its input, called repeatedly with a large input.
//!
//! Output of a function is counted as memory. Input that it only reads must be counted as work, however small the
//! output: each case must stop at one of the two limits.

use super::HostileCase;
use super::templates::{case, nested_loops};

/// A string of one letter, one of words, one of digits.
const TEXTS: &str =
    r#"{{ $s := repeat 1000000 "a" }}{{ $w := repeat 200000 "aB c," }}{{ $d := repeat 1000000 "9" }}"#;
const TEXT_CALLS: &[&str] = &[
    "abbrev 10 $w",
    "adler32sum $w",
    "ago $d",
    "atoi $d",
    "b32dec $s",
    "b32enc $w",
    "b64dec $s",
    "b64enc $w",
    "base $w",
    "buildCustomCert $s $s",
    "camelcase $w",
    "cat $w",
    "clean $w",
    "contains \"b\" $s",
    "date $w now",
    "decryptAES $s $s",
    "default 1 $s",
    "dir $w",
    "duration $d",
    "durationRound $d",
    "empty $s",
    "encryptAES $s $s",
    "eq $s (print $s)",
    "ext $w",
    "float64 $d",
    "fromJson $w",
    "fromToml $w",
    "fromYaml $w",
    "hasPrefix $s (print $s)",
    "html $w",
    "indent 1 $w",
    "initials $w",
    "int $d",
    "int64 $w",
    "js $w",
    "kebabcase $w",
    "lower $w",
    "lt $s (print $s)",
    "nospace $w",
    "printf \"%d\" $s",
    "quote $w",
    "regexFind \"(a|B)+x\" $w",
    "regexQuoteMeta $w",
    "regexReplaceAll \"(a+)(a)\" $s \"$2\"",
    "regexReplaceAllLiteral \"B\" $w \"\"",
    "regexSplit \"a+$\" $s 2",
    "replace \"x\" \"y\" $w",
    "semver $d",
    "semverCompare $w \"1.0.0\"",
    "semverCompare \"1.0.0\" $d",
    "sha1sum $w",
    "sha512sum $w",
    "shuffle $w",
    "snakecase $w",
    "splitn \";\" 2 $w",
    "squote $w",
    "substr 0 10 $w",
    "swapcase $w",
    "title $w",
    "toDate $w $w",
    "toDecimal $d",
    "toJson $w",
    "toString $w",
    "toToml (dict \"a\" $w)",
    "toYaml $w",
    "tpl $w .",
    "trim $w",
    "trimAll \"a\" $s",
    "trimSuffix \"b\" $w",
    "trunc 3 $w",
    "untitle $w",
    "upper $w",
    "urlParse $w",
    "urlquery $w",
    "wrap 80 $w",
];

/// A list of numbers, one of empty strings, and a map.
const LISTS: &str = concat!(
    r#"{{ $l := until 20000 }}{{ $e := splitList "a" (repeat 20000 "a") }}"#,
    r#"{{ $m := fromYaml (print (join ": 1\n" $l) ": 1") }}"#,
);
const LIST_CALLS: &[&str] = &[
    "append $l 1",
    "chunk 1 $l",
    "compact $l",
    "concat $l $l",
    "deepCopy $l",
    "deepEqual $l (concat $l)",
    "first $l",
    "has \"x\" $e",
    "index $l 5",
    "initial $l",
    "join \"\" $e",
    "last $l",
    "len $l",
    "prepend $l 1",
    "print $e",
    "rest $l",
    "reverse $l",
    "slice $l 1 2",
    "sortAlpha $e",
    "toJson $e",
    "toStrings $e",
    "toYaml $e",
    "uniq $e",
    "without $e \"x\"",
    "default 1 $m",
    "deepCopy $m",
    "deepEqual $m (fromJson (toJson $m))",
    "dict \"a\" $m",
    "dig \"a\" 1 $m",
    "get $m \"1\"",
    "hasKey $m \"1\"",
    "index $m \"1\"",
    "keys $m",
    "merge (dict) $m",
    "merge $m $m",
    "merge $m (dict \"z\" 1)",
    "mergeOverwrite (dict \"z\" 1) $m",
    "omit $m \"a\" \"b\"",
    "pick $m \"1\"",
    "pluck \"1\" $m $m",
    "print $m",
    "set $m \"0\" 1",
    "toJson $m",
    "toToml $m",
    "toYaml $m",
    "unset $m \"a\"",
    "values $m",
];

/// Objects of the chart.
const CHART_CALLS: &[&str] = &[
    "print .",
    "toYaml .Chart",
    "toJson .Capabilities",
    "deepCopy .",
    ".Capabilities.APIVersions.Has \"x\"",
];

pub fn cases() -> Vec<HostileCase> {
    let texts = TEXT_CALLS.iter().map(|call| (TEXTS, call));
    let lists = LIST_CALLS.iter().map(|call| (LISTS, call));
    let chart = CHART_CALLS.iter().map(|call| ("", call));
    let all = texts.chain(lists).chain(chart);
    all.map(|(first, call)| {
        case(call, "", &format!("{first}{}", nested_loops("1", &format!("$_ := {call}"))))
    })
    .collect()
}
