//! Templates that do not end, grow without bound, or recurse too deeply.

use super::{HostileCase, files};

/// A case with this template and expected error, which names the template file.
pub(super) fn case(name: &str, said: &str, text: &str) -> HostileCase {
    let text = text.to_owned();
    let said: &[&str] = if said.is_empty() { &[] } else { &["evil/templates/a.yaml", said] };
    HostileCase::new(&format!("template: {name}"), said, move || files(&[("templates/a.yaml", &text)]))
}

const WORK_ERROR: &str = "too much work: stopped after";
/// Either limit may be reached first; debug and release builds differ.
const BUDGET_ERROR: &str = "too much ";
/// A hundred blocks at each level of the recursion: the smaller budget of steps of a debug build ends first.
const NESTED_BLOCKS_ERROR: &str =
    if cfg!(debug_assertions) { WORK_ERROR } else { "exceeded maximum template depth" };
const MEMORY_ERROR: &str = "too much memory: stopped after";
const CYCLIC_VALUE_ERROR: &str = "a value without end cannot be printed";

/// Repeats a piece sixty times.
fn repeat_sixty_times(first: &str, piece: &str, then: &str) -> String {
    format!("{{{{ $x := {first} }}}}{{{{ range until 60 }}}}{{{{ {piece} }}}}{{{{ end }}}}{{{{ {then} }}}}")
}

/// Repeats a piece in four nested loops of 1000 each.
pub(super) fn nested_loops(first: &str, piece: &str) -> String {
    let range = "{{ range until 1000 }}";
    format!("{{{{ $x := {first} }}}}{}{{{{ {piece} }}}}{}", range.repeat(4), "{{ end }}".repeat(4))
}

/// A list nested this many times.
fn nested(times: usize, then: &str) -> String {
    format!(
        "{{{{ $x := list }}}}{{{{ range until {times} }}}}{{{{ $x = list $x }}}}{{{{ end }}}}{{{{ {then} }}}}"
    )
}

/// A map that contains itself.
fn cyclic_map(then: &str) -> String {
    format!(r#"{{{{ $x := dict }}}}{{{{ $_ := set $x "x" $x }}}}{{{{ {then} }}}}"#)
}

pub fn cases() -> Vec<HostileCase> {
    let mut cases = endless_cases();
    cases.extend(growing_cases());
    cases.extend(deep_cases());
    cases.extend(slow_cases());
    cases.extend(parser_cases());
    cases
}

#[rustfmt::skip]
fn endless_cases() -> Vec<HostileCase> {
    vec![
        case("includes itself", "nested reference name: a", r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#),
        case("two include each other", "nested reference name", r#"{{ define "a" }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#),
        case("invokes itself", "exceeded maximum template depth", r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#),
        case("invokes itself from far inside", NESTED_BLOCKS_ERROR, &format!(r#"{{{{ define "a" }}}}{}{{{{ template "a" . }}}}{}{{{{ end }}}}{{{{ template "a" . }}}}"#, "{{ if true }}".repeat(100), "{{ end }}".repeat(100))),
        case("a text that runs itself", "exceeded maximum template depth", r#"{{ $t := "{{ tpl . . }}" }}{{ tpl $t $t }}"#),
        case("a text that includes itself", "nested reference name", r#"{{ define "a" }}{{ tpl "{{ include \"a\" . }}" . }}{{ end }}{{ include "a" . }}"#),
        case("a text that doubles", "", r#"{{ $t := "x" }}{{ range until 12 }}{{ $t = printf "%s{{ tpl %q . }}" $t $t }}{{ end }}{{ len $t }}"#),
        case("includes two of the next", BUDGET_ERROR, &((0..40).map(|n| format!(r#"{{{{ define "t{n}" }}}}{{{{ include "t{0}" . }}}}{{{{ include "t{0}" . }}}}{{{{ end }}}}"#, n + 1)).collect::<String>() + r#"{{ define "t40" }}{{ end }}{{ include "t0" . }}"#)),
        case("counts to 10^18", WORK_ERROR, "{{ range 1000000000000000000 }}{{ end }}"),
        case("ranges in ranges", BUDGET_ERROR, &nested_loops("1", "$x = 1")),
        case("ranges and calls", BUDGET_ERROR, &nested_loops("1", "$x = add 1 2 3")),
        case("ranges and prints", "", "{{ range until 100 }}---\na: b\n{{ end }}"),
    ]
}

#[rustfmt::skip]
fn growing_cases() -> Vec<HostileCase> {
    let big = r#"{{ $s := repeat 1000000 "a" }}"#;
    vec![
        case("prints without end", MEMORY_ERROR, "{{ range until 100000 }}{{ range until 100000 }}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{{ end }}{{ end }}"),
        case("repeat", MEMORY_ERROR, r#"{{ repeat 1000000000 "x" }}"#),
        case("repeat of the most", MEMORY_ERROR, r#"{{ repeat 9223372036854775807 "xx" }}"#),
        case("until", MEMORY_ERROR, "{{ until 1000000000 }}"),
        case("untilStep", MEMORY_ERROR, "{{ untilStep 0 9223372036854775807 1 }}"),
        case("seq", MEMORY_ERROR, "{{ seq 9223372036854775806 }}"),
        case("indent", MEMORY_ERROR, r#"{{ indent 1000000000 "x" }}"#),
        case("nindent of many lines", MEMORY_ERROR, r#"{{ repeat 100000 "\n" | nindent 100000 }}"#),
        case("randAlphaNum", "more than the 1048576 that are allowed", "{{ randAlphaNum 1000000000 }}"),
        case("randBytes", "more than the 1048576 that are allowed", "{{ randBytes 9223372036854775807 }}"),
        case("print doubles", BUDGET_ERROR, &repeat_sixty_times("\"x\"", "$x = print $x $x", "$x")),
        case("printf doubles", BUDGET_ERROR, &repeat_sixty_times("\"x\"", r#"$x = printf "%s%s" $x $x"#, "$x")),
        case("cat doubles", BUDGET_ERROR, &repeat_sixty_times("\"x\"", "$x = cat $x $x", "$x")),
        case("quote doubles", BUDGET_ERROR, &repeat_sixty_times(r#""\"""#, "$x = quote $x $x", "$x")),
        case("tpl doubles", MEMORY_ERROR, &repeat_sixty_times("\"x\"", r#"$x = tpl "{{ . }}{{ . }}" $x"#, "$x")),
        case("replace doubles", MEMORY_ERROR, &repeat_sixty_times("\"x\"", r#"$x = replace "x" "xx" $x"#, "$x")),
        case("join doubles", BUDGET_ERROR, &repeat_sixty_times("\"x\"", "$x = join $x (list $x $x $x)", "$x")),
        case("toJson doubles", " bytes", &repeat_sixty_times("\"x\"", "$x = toJson (list $x $x)", "$x")),
        case("b64enc", MEMORY_ERROR, &repeat_sixty_times("\"x\"", "$x = $x | b64enc | b64enc | b64enc", "$x")),
        case("lists double", MEMORY_ERROR, &repeat_sixty_times("list 1", "$x = concat $x $x", "$x")),
        case("a list of itself, printed", MEMORY_ERROR, &repeat_sixty_times("list 1", "$x = list $x $x", "print $x")),
        case("a list of itself, shown", CYCLIC_VALUE_ERROR, &repeat_sixty_times("list 1", "$x = list $x $x", "$x")),
        case("a list of itself, joined", "too much", &repeat_sixty_times("list 1", "$x = list $x $x", "join \"\" $x")),
        case("a list of itself as YAML", "longer than 67108864 bytes", &repeat_sixty_times("list 1", "$x = list $x $x", "toYaml $x")),
        case("a list of itself as JSON", "longer than 67108864 bytes", &repeat_sixty_times("list 1", "$x = list $x $x", "toJson $x")),
        case("a list of itself as TOML", "longer than 67108864 bytes", &repeat_sixty_times("dict \"a\" (list 1)", "$x = dict \"a\" (list $x.a $x.a)", "toToml $x")),
        case("a list of itself, pretty", "longer than 67108864 bytes", &repeat_sixty_times("list 1", "$x = list $x $x", "toPrettyJson $x")),
        case("a map of itself as YAML", "longer than 67108864 bytes", &repeat_sixty_times("dict", "$x = dict \"a\" $x \"b\" $x", "toYamlPretty $x")),
        case("a map of itself, copied", MEMORY_ERROR, &repeat_sixty_times("dict", "$x = dict \"a\" $x \"b\" $x", "deepCopy $x")),
        case("a map of itself, merged", "longer than 67108864 bytes", &repeat_sixty_times("dict", "$x = dict \"a\" $x \"b\" $x", "merge (deepCopy (dict \"a\" dict)) (dict \"a\" $x) | toYaml")),
        case("ten million values as YAML", "longer than 67108864 bytes", "{{ $x := until 1000 }}{{ range until 4 }}{{ $x = list $x $x $x $x $x $x $x $x $x $x }}{{ end }}{{ toYaml $x }}"),
        case("a long text in many places", "longer than 67108864 bytes", &format!("{big}{{{{ $l := list $s $s $s $s $s $s $s $s $s $s }}}}{{{{ toYaml (list $l $l $l $l $l $l $l $l $l $l) }}}}")),
        case("append for ever", "too much", &nested_loops("list", "$x = append $x 1")),
        case("prepend for ever", "too much", &nested_loops("list", "$x = prepend $x 1")),
        case("set for ever", "too much", &format!("{{{{ $i := 0 }}}}{}", nested_loops("dict", "$i = add1 $i }}{{ $_ := set $x (toString $i) 1"))),
        case("a set for each", "too much", &format!("{{{{ $i := 0 }}}}{{{{ $y := dict }}}}{}", nested_loops("dict", "$i = add1 $i }}{{ $x = dict }}{{ $_ := set $y (toString $i) $x"))),
        case("printf with a width", "%!(NOVERB", r#"{{ fail (printf "%1000000000") }}"#),
        case("printf with many widths", MEMORY_ERROR, r#"{{ printf (repeat 10000 "%999999[1]d") 1 }}"#),
        case("printf of a list with a width", MEMORY_ERROR, r#"{{ printf "%999999d" (until 1000) }}"#),
        case("printf of one text many times", MEMORY_ERROR, &format!(r#"{big}{{{{ printf (repeat 100000 "%[1]s") $s }}}}"#)),
        case("printf with a width from outside", "", r#"{{ printf "%*d" 1000000000 1 }}"#),
        case("printf with brackets", "", r#"{{ printf (repeat 200000 "%[") 1 | len }}"#),
        case("replace everywhere", MEMORY_ERROR, &format!(r#"{big}{{{{ replace "a" $s $s }}}}"#)),
        case("replace nothing", MEMORY_ERROR, &format!(r#"{big}{{{{ replace "" $s $s }}}}"#)),
        case("regexReplaceAll", "too much", &format!(r#"{big}{{{{ regexReplaceAll "a" $s $s }}}}"#)),
        case("regexReplaceAll with groups", "too much", &format!(r#"{big}{{{{ regexReplaceAll "(.+)" $s (repeat 10000 "$1") }}}}"#)),
        case("wrapWith", MEMORY_ERROR, &format!("{big}{{{{ wrapWith 1 $s $s }}}}")),
        case("split between letters", MEMORY_ERROR, &format!(r#"{big}{{{{ splitList "" $s | len }}}}"#)),
        case("split into a map", MEMORY_ERROR, &format!(r#"{big}{{{{ split "" $s | len }}}}"#)),
        case("fromYaml of many", MEMORY_ERROR, r#"{{ range until 100 }}{{ $x := fromYamlArray (repeat 100000 "- a\n") }}{{ end }}"#),
        case("fromJson of many", MEMORY_ERROR, r#"{{ range until 100 }}{{ $x := fromJsonArray (print "[" (repeat 100000 "0,") "0]") }}{{ end }}"#),
        case("fromYaml that laughs", "excessive aliasing", r#"{{ $y := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" }}{{ range $i := until 20 }}{{ $r := printf "*a%d" $i }}{{ $y = printf "%sa%d: &a%d [%s,%s,%s,%s,%s,%s,%s,%s,%s]\n" $y (add1 $i) (add1 $i) $r $r $r $r $r $r $r $r $r }}{{ end }}{{ fail (get (fromYaml $y) "Error") }}"#),
        case("a thousand arguments", "too much", &format!("{big}{{{{ print {} }}}}", "$s ".repeat(900))),
        case("many variables, deep", "", &format!(r#"{{{{ define "a" }}}}{}{{{{ if lt (int .) 500 }}}}{{{{ template "a" (add1 .) }}}}{{{{ end }}}}{{{{ end }}}}{{{{ template "a" 1 }}}}"#, (0..500).map(|n| format!("{{{{ $v{n} := 1 }}}}")).collect::<String>())),
    ]
}

#[rustfmt::skip]
fn deep_cases() -> Vec<HostileCase> {
    let deep_text = |open: &str, close: &str| format!("(print (repeat 100000 {open:?}) (repeat 100000 {close:?}))");
    vec![
        case("a list in a list, freed", "", &nested(100_000, "len $x")),
        case("a list in a list, printed", CYCLIC_VALUE_ERROR, &nested(100_000, "print $x")),
        case("a list in a list, shown", CYCLIC_VALUE_ERROR, &nested(100_000, "$x")),
        case("a list in a list as YAML", "nested more than 1000 deep", &nested(100_000, "toYaml $x")),
        case("a list in a list as JSON", "nested more than 1000 deep", &nested(100_000, "toJson $x")),
        case("a list in a list as TOML", "bytes", &nested(100_000, "toToml (dict \"a\" $x)")),
        case("a list in a list, copied", "nested more than 1000 deep", &nested(100_000, "deepCopy $x")),
        case("a list in a list, 999 deep, as YAML", "", &nested(995, "toYaml $x")),
        case("a list in a list, 999 deep, as JSON", "", &nested(995, "toPrettyJson $x")),
        case("a list in a list, 999 deep, printed", "", &nested(995, "print $x")),
        case("a list in a list, 999 deep, copied", "", &nested(995, "deepCopy $x | len")),
        case("a list in a list, 999 deep, compared", "", &nested(995, "deepEqual $x (deepCopy $x)")),
        case("a list in a list, compared", "", &format!("{}{{{{ deepEqual $x (list $x) }}}}", nested(100_000, "len $x"))),
        case("maps in maps, freed", "", r#"{{ $x := dict }}{{ range until 100000 }}{{ $x = dict "a" $x }}{{ end }}{{ len $x }}"#),
        case("maps in maps, merged", "nested more than 1000 deep", r#"{{ $x := dict }}{{ $y := dict }}{{ range until 10000 }}{{ $x = dict "a" $x }}{{ $y = dict "a" $y }}{{ end }}{{ merge $x $y | len }}"#),
        case("fromJson of a deep text", "depth", &format!("{{{{ fail (first (fromJsonArray {})) }}}}", deep_text("[", "]"))),
        case("mustFromJson of a deep text", "depth", &format!("{{{{ mustFromJson {} }}}}", deep_text("[", "]"))),
        case("fromYaml of a deep text", "depth", &format!("{{{{ fail (first (fromYamlArray {})) }}}}", deep_text("[", "]"))),
        case("fromToml of a deep text", "deep", &format!(r#"{{{{ fail (get (fromToml (print "a = " {})) "Error") }}}}"#, deep_text("[", "]"))),
        case("fromToml of a deep key", "deep", r#"{{ fail (get (fromToml (print (repeat 100000 "a.") "a = 1")) "Error") }}"#),
        case("itself, printed", CYCLIC_VALUE_ERROR, &cyclic_map("print $x")),
        case("itself, shown", CYCLIC_VALUE_ERROR, &cyclic_map("$x")),
        case("itself as TOML", "bytes", &cyclic_map("toToml $x")),
        case("itself as JSON, strictly", "encountered a cycle", &cyclic_map("mustToJson $x")),
        case("itself as YAML", "", &cyclic_map("toYaml $x")),
        case("itself, copied", "nested more than 1000 deep", &cyclic_map("deepCopy $x")),
        case("itself, merged", "", &cyclic_map("merge $x $x | len")),
        case("itself, merged with another", "nested more than 1000 deep", &cyclic_map(r#"$y := dict }}{{ $_ := set $y "x" $y }}{{ merge $x $y | len"#)),
        case("itself, compared", "", &cyclic_map(r#"$y := dict }}{{ $_ := set $y "x" $y }}{{ deepEqual $x $y"#)),
        case("itself, a thousand times", "", r#"{{ range until 1000 }}{{ $x := dict "s" (repeat 1000 "a") }}{{ $_ := set $x "x" $x }}{{ end }}"#),
        case("the values in the values", "", r#"{{ $_ := set .Values "x" . }}{{ $_ := set .Values "y" .Values }}{{ .Values.x.Values.y.y.x.Release.Name }}"#),
    ]
}

#[rustfmt::skip]
fn slow_cases() -> Vec<HostileCase> {
    let big = r#"{{ $s := repeat 1000000 "a" }}"#;
    vec![
        case("a document whose keys ask for their lines", "", "{{ $x := fromToml (repeat 80000 \"[[a]]\\n\") }}{{ len $x.a }}"),
        case("documents whose keys ask for their lines", BUDGET_ERROR, &nested_loops("1", "$_ := fromToml (repeat 80000 \"[[a]]\\n\")")),
        case("texts shuffled", BUDGET_ERROR, &nested_loops("repeat 10000 \"ab\"", "$_ := shuffle $x")),
        case("numbers drawn", BUDGET_ERROR, &nested_loops("1", "$_ := randInt 0 10")),
        case("texts run", BUDGET_ERROR, &nested_loops("1", "$_ := tpl (printf \"{{ %d }}\" .) .")),
        case("texts read", BUDGET_ERROR, &nested_loops("1", "$_ := fromYaml \"a: 1\"")),
        case("an expression that explodes", "", r#"{{ regexMatch "^(a+)+$" (print (repeat 100000 "a") "!") }}"#),
        case("an expression that explodes otherwise", "", r#"{{ regexMatch "(a|aa)+(a?){30}b" (repeat 10000 "a") }}"#),
        case("an expression that is large", "mustRegexMatch", r#"{{ mustRegexMatch (print "(" (repeat 100000 "[^x]") "){1000}") "a" }}"#),
        case("an expression with many states", "too much", &format!(r#"{big}{{{{ range until 1000 }}}}{{{{ $_ := regexMatch "(x+x+)+y|(.{{1,900}}.{{1,900}}b)" $s }}}}{{{{ end }}}}"#)),
        case("an expression in an expression", "", r#"{{ regexMatch (print (repeat 99 "(") "a" (repeat 99 ")*")) "a" }}"#),
        case("an expression too deep", "expression", r#"{{ mustRegexMatch (print (repeat 100000 "(") "a" (repeat 100000 ")*")) "a" }}"#),
        case("every letter looks to the end", WORK_ERROR, r#"{{ $s := repeat 50000 "a" }}{{ regexFindAll ".*[^a]|a" $s -1 | len }}"#),
        case("a new expression each time", "too much", r#"{{ range $i := until 100000 }}{{ $_ := regexMatch (print "(a{1000}){1}b" $i) "aaaa" }}{{ end }}"#),
        case("a new expression of all letters each time", "too much", r#"{{ range $i := until 100000 }}{{ $_ := regexMatch (print "\\pL{900}b" $i) "äöü" }}{{ end }}"#),
        case("an expression that is too large, each time", "too much", r#"{{ range $i := until 100000 }}{{ $_ := regexMatch (print "(" (repeat 1000 "[^x]") "){1000}" $i) "a" }}{{ end }}"#),
        case("an expression that is never sure", "too much", r#"{{ $s := "" }}{{ range until 500 }}{{ $s = print $s (sha256sum $s) }}{{ end }}{{ range until 100000 }}{{ $_ := regexMatch "[0-7][0-9a-f]{300}x" $s }}{{ end }}"#),
        case("a small expression that is never sure", "too much", r#"{{ $s := "" }}{{ range until 500 }}{{ $s = print $s (sha256sum $s) }}{{ end }}{{ range until 100000 }}{{ $_ := regexMatch "[0-7][0-9a-f]{30}x" $s }}{{ end }}"#),
        case("groups in a long text", "too much", &format!(r#"{big}{{{{ range until 100000 }}}}{{{{ $_ := regexReplaceAll "((a)(a))*b?$" $s "$2" }}}}{{{{ end }}}}"#)),
        case("an empty expression everywhere", "too much", &format!(r#"{big}{{{{ regexReplaceAll "b*" $s "$0" }}}}"#)),
        case("a long list without repetitions", WORK_ERROR, "{{ uniq (until 100000) | len }}"),
        case("a long list without some", BUDGET_ERROR, "{{ $x := until 100000 }}{{ range until 1000 }}{{ $_ := without $x 1 2 3 }}{{ end }}"),
        case("a long list in which nothing is", WORK_ERROR, "{{ $x := until 100000 }}{{ range until 10000 }}{{ $_ := has -1 $x }}{{ end }}"),
        case("a long list, compacted", "too much", "{{ $x := until 100000 }}{{ range until 100000 }}{{ $_ := compact $x }}{{ end }}"),
        case("a long list, sorted", "too much", "{{ $x := until 50000 }}{{ range until 100000 }}{{ $_ := sortAlpha $x }}{{ end }}"),
        case("a long map, gone into", "too much", "{{ $x := dict }}{{ range $i, $_ := until 3000 }}{{ $_ := set $x (toString $i) 1 }}{{ end }}{{ range until 1000000 }}{{ range $x }}{{ break }}{{ end }}{{ end }}"),
        case("a long map, changed at its beginning", "too much", r#"{{ $x := fromYaml (print (join ": 1\n" (until 100000)) ": 1") }}{{ range until 1000000 }}{{ $_ := unset $x "" }}{{ $_ := set $x "" 1 }}{{ end }}"#),
        case("a long map, merged before another", "too much", r#"{{ $x := fromYaml (print "b" (join ": 1\nb" (until 100000)) ": 1") }}{{ $y := fromYaml (print "a" (join ": 1\na" (until 100000)) ": 1") }}{{ $_ := merge $x $y }}"#),
        case("a long map without many", "too much", &format!(r#"{{{{ $x := fromYaml (print (join ": 1\n" (until 10000)) ": 1") }}}}{{{{ range until 1000000 }}}}{{{{ $_ := omit $x {} }}}}{{{{ end }}}}"#, r#""a" "#.repeat(900))),
        case("a long text, searched", WORK_ERROR, &(big.to_owned() + &nested_loops("1", r#"$_ := contains "b" $s"#))),
        case("a long text, hashed", WORK_ERROR, &(big.to_owned() + &nested_loops("1", "$_ := sha256sum $s"))),
        case("passwords", WORK_ERROR, &nested_loops("1", r#"$x = bcrypt "x""#)),
        case("passwords, derived", WORK_ERROR, &nested_loops("1", r#"$x = derivePassword 1 "long" "a" "b" "c""#)),
        case("keys", WORK_ERROR, &nested_loops("1", r#"$x = genPrivateKey "rsa""#)),
        case("a long version", "", r#"{{ semverCompare (repeat 100000 ">1.0.0 ") "1.0.0" }}"#),
        case("a long version otherwise", "", r#"{{ semver (repeat 1000000 "1.") }}"#),
        case("a long layout", "", r#"{{ now | date (repeat 100000 "2006-01-02") | len }}"#),
        case("a long duration", "", r#"{{ duration (repeat 100000 "9") }}{{ durationRound (repeat 1000000 "1h") }}"#),
        case("a long number", "", r#"{{ int (repeat 1000000 "9") }}{{ float64 (repeat 1000000 "9") }}{{ round 1e308 300 }}"#),
        case("a long address", "", r#"{{ urlParse (repeat 100000 "a:") | len }}"#),
        case("a long text in words", "", &format!("{big}{{{{ camelcase $s | len }}}}{{{{ snakecase $s | len }}}}{{{{ initials $s | len }}}}{{{{ title $s | len }}}}{{{{ abbrev 10 $s }}}}")),
        case("many documents", "", "{{ range until 20000 }}---\nkind: ConfigMap\nmetadata: {name: a}\n{{ end }}"),
        case("a deep document", "", r#"a: {{ repeat 100000 "[" }}"#),
    ]
}

#[rustfmt::skip]
fn parser_cases() -> Vec<HostileCase> {
    let many = |times: usize, open: &str, close: &str| format!("{}{}", open.repeat(times), close.repeat(times));
    vec![
        case("if in if", "max expression depth exceeded", &many(100_000, "{{ if 1 }}", "{{ end }}")),
        case("range in range", "max expression depth exceeded", &many(100_000, "{{ range . }}", "{{ end }}")),
        case("if without an end", "", "").with_expected(&["evil/templates/a.yaml"], &"{{ if 1 }}".repeat(100_000)),
        case("parentheses", "max expression depth exceeded", &format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000))),
        case("200 parentheses", "", &format!("{{{{ {}1{} }}}}", "(".repeat(150), ")".repeat(150))),
        case("else if without end", "max expression depth exceeded", &format!("{{{{ if 0 }}}}{}{{{{ end }}}}", "{{ else if 0 }}".repeat(100_000))),
        case("a long pipe", "", &format!("{{{{ 1{} }}}}", " | add 1".repeat(500))),
        case("a longer pipe", "evil", &format!("{{{{ 1{} }}}}", " | add 1".repeat(100_000))),
        case("many fields", "", &format!("{{{{ $x := dict }}}}{{{{ $x{} }}}}", ".a".repeat(1_000))).with_expected(&["evil"], &format!("{{{{ .Values{} }}}}", ".a".repeat(1_000_000))),
        case("many definitions", "", &(0..20_000).map(|n| format!("{{{{ define \"d{n}\" }}}}{{{{ end }}}}")).collect::<String>()),
        case("many variables", "more than 2000 variables", &(0..20_000).map(|n| format!("{{{{ $v{n} := 1 }}}}")).collect::<String>()),
        case("a long comment", "", &format!("{{{{/* {} */}}}}", "a".repeat(1_000_000))),
        case("a string without an end", "unterminated", &format!("{{{{ \"{}", "a".repeat(1_000_000))),
        case("a text for tpl that is deep", "max expression depth exceeded", r#"{{ tpl (print (repeat 10000 "{{ if 1 }}") (repeat 10000 "{{ end }}")) . }}"#),
        case("many texts for tpl", "too much", &nested_loops("\"\"", r#"$x = tpl (print "{{ 1 }}" $x) ."#)),
    ]
}

impl HostileCase {
    /// The same case with another template and answer.
    fn with_expected(self, said: &[&str], text: &str) -> HostileCase {
        let text = text.to_owned();
        HostileCase::new(&self.name, said, move || files(&[("templates/a.yaml", &text)]))
    }
}
