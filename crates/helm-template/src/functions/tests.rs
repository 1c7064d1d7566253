//! Function calls and the results of Helm 3.17.

use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::budget::{Budget, RenderLimits, Unlimited};
use crate::env::RenderEnv;
use crate::exec::{Machine, Templates};
use crate::parse::parse;
use crate::value::{List, Map, Value};

fn values() -> Value {
    let map = |entries: Vec<(&str, Value)>| {
        Map::from_entries(entries.into_iter().map(|(key, value)| (key.into(), value)))
    };
    let list = List::any([Value::Float(1.0), Value::Float(2.0), "x".into(), Value::Nil]);
    let words = List::any(["b", "a", "b", ""].map(Value::from));
    let values = map(vec![
        ("text", "a\nb".into()),
        ("empty", "".into()),
        ("none", Value::Nil),
        ("list", list.into()),
        ("words", words.into()),
        ("nothing", List::any([]).into()),
        ("map", map(vec![("a", Value::Float(1.0)), ("b", map(vec![("c", "d".into())]).into())]).into()),
        ("half", Value::Float(1.5)),
        ("big", Value::Float(12_345_678.0)),
        ("yes", true.into()),
    ]);
    map(vec![("Values", values.named("chartutil.Values").into())]).into()
}

/// The output, or the error without the prefix that all errors share.
fn run(text: &str) -> String {
    let functions = table(Profile::Helm3);
    let templates = match parse("t", text, &functions) {
        Ok(templates) => templates,
        Err(why) => return why.to_string(),
    };
    let set = Templates::default().with(templates.into_iter().map(Arc::new));
    let limits = RenderLimits { steps: 1_000_000, memory: 1 << 20, depth: 50 };
    let budget = Budget::new(limits, &Unlimited);
    let why = match Machine::new(set, &functions, RenderEnv::NULL, &budget).run("t", values()) {
        Ok(out) => return String::from_utf8_lossy(&out).replace("<no value>", ""),
        Err(why) => why.to_string(),
    };
    let (start, end) = AUTHOR_MESSAGE_MARKERS;
    let place = why.split(": ").nth(1).unwrap_or_default();
    match why.split_once(start).and_then(|(_, rest)| rest.rsplit_once(end)) {
        Some((said, _)) => format!("execution error at ({place}): {said}"),
        None => why.replace("template: t:", "").replace("executing \"t\" at ", ""),
    }
}

fn check(rows: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (text, expected) in rows {
        let out = run(text);
        if out != *expected {
            writeln!(wrong, "{text}\n  expected {expected:?}\n  came     {out:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
#[rustfmt::skip]
fn string_functions_match_helm() {
    check(&[
        (r#"{{abbrev 8 "hello world"}}"#, "hello..."),
        (r#"{{abbrev 3 "hello"}}"#, "hello"),
        (r#"{{abbrev 5 "hello"}}"#, "hello"),
        (r#"{{abbrevboth 5 10 "1234 5678 9123 4567"}}"#, "...5678..."),
        (r#"{{abbrevboth 2 8 "abcdefghijkl"}}"#, "abcde..."),
        (r#"{{abbrevboth 9 9 "abcdefghijkl"}}"#, "...ghijkl"),
        (r#"{{camelcase "foo_bar-baz qux"}}"#, "FooBarBazQux"),
        (r#"{{camelcase "HTTP_server"}}"#, "HttpServer"),
        (r#"{{camelcase "_"}}"#, "__"),
        (r#"{{camelcase "__a  b"}}"#, "__A B"),
        (r#"{{snakecase "HTTP20xOK"}}"#, "http_20x_ok"),
        (r#"{{snakecase "Bld4Floor3rd"}}"#, "bld4_floor_3rd"),
        (r#"{{kebabcase "FirstName, Last"}}"#, "first-name,-last"),
        (r#"{{kebabcase "http2xx-éÉ"}}"#, "http-2xx-é-é"),
        (r#"{{snakecase "日本Go"}}"#, "日本_go"),
        (r#"{{cat 1 nil "a" (list 1) .Values.none}}"#, "1 a [1]"),
        (r#"{{quote 1 nil "a\"b\n" .Values.none true 1.5}}"#, r#""1" "a\"b\n" "true" "1.5""#),
        (r#"{{squote "it's" 2 nil}}"#, "'it's' '2'"),
        (r#"{{contains "b" "abc"}}"#, "true"),
        (r#"{{hasPrefix "a" "abc"}}"#, "true"),
        (r#"{{hasSuffix "a" "abc"}}"#, "false"),
        (r#"{{contains "" ""}}"#, "true"),
        ("{{indent 2 .Values.text}}", "  a\n  b"),
        (r#"{{nindent 3 "a\n"}}"#, "\n   a\n   "),
        (r#"{{nindent 0 ""}}"#, "\n"),
        (r#"{{initials "John Ronald  reuel"}}"#, "JRr"),
        (r#"{{nospace " a b\tc "}}"#, "abc"),
        (r#"{{swapcase "aB cD ß"}}"#, "Ab Cd ß"),
        (r#"{{title "foo bar_baz don't"}}"#, "Foo Bar_baz Don'T"),
        (r#"{{untitle "Foo Bar"}}"#, "foo bar"),
        (r#"{{join "-" .Values.list}}"#, "1-2-x"),
        (r#"{{join "," "a"}}"#, "a"),
        (r#"{{join "," nil}}"#, ""),
        (r#"{{join "," (until 3)}}"#, "0,1,2"),
        (r#"{{join "" .Values.words}}"#, "bab"),
        (r#"{{lower "ÀB"}}"#, "àb"),
        (r#"{{upper "àß"}}"#, "Àß"),
        (r#"{{plural "one" "many" 1}}"#, "one"),
        (r#"{{plural "one" "many" 0}}"#, "many"),
        (r#"{{repeat 3 "ab"}}"#, "ababab"),
        (r#"{{replace "a" "bb" "aca"}}"#, "bbcbb"),
        (r#"{{replace "" "-" "ab"}}"#, "-a-b-"),
        ("{{sortAlpha .Values.words}}", "[ a b b]"),
        ("{{sortAlpha 3}}", "[3]"),
        ("{{sortAlpha nil}}", "[<nil>]"),
        ("{{toStrings .Values.list}}", "[1 2 x]"),
        ("{{toStrings nil}}", "[]"),
        ("{{toString 1e6}}", "1e+06"),
        ("{{toString nil}}", "<nil>"),
        (r#"{{split "," "a,b"}}"#, "map[_0:a _1:b]"),
        (r#"{{(split "," "a,b")._1}}"#, "b"),
        (r#"{{splitList "" "héy"}}"#, "[h é y]"),
        (r#"{{splitn "," 2 "a,b,c"}}"#, "map[_0:a _1:b,c]"),
        (r#"{{splitn "," 0 "a"}}"#, "map[]"),
        (r#"{{splitList "," ""}}"#, "[]"),
        (r#"{{substr 1 3 "abcd"}}"#, "bc"),
        (r#"{{substr -1 2 "abcd"}}"#, "ab"),
        (r#"{{substr 1 -1 "abcd"}}"#, "bcd"),
        (r#"{{substr 1 99 "abcd"}}"#, "bcd"),
        (r#"[{{trim " a\t"}}] [{{trimAll "xy" "xyayx"}}] [{{trimPrefix "a" "aab"}}] [{{trimSuffix "-" "a--"}}] [{{trimall "$" "$5$"}}]"#, "[a] [a] [ab] [a-] [5]"),
        (r#"{{trunc 2 "abc"}}"#, "ab"),
        (r#"{{trunc -2 "abc"}}"#, "bc"),
        (r#"{{trunc 5 "abc"}}"#, "abc"),
        (r#"{{trunc -5 "abc"}}"#, "abc"),
        (r#"{{trunc 0 "abc"}}"#, ""),
        (r#"{{trunc 1 "é" | quote}}"#, r#""\xc3""#),
        (r#"{{wrap 5 "the quick brownfoxes"}}"#, "the\nquick\nbrownfoxes"),
        (r#"{{wrapWith 5 "|" "the quick brownfoxes"}}"#, "the|quick|brown|foxes"),
        (r#"{{wrap 0 "a b"}}"#, "a\nb"),
        ("{{hello}}", "Hello!"),
    ]);
}

#[test]
#[rustfmt::skip]
fn list_functions_match_helm() {
    check(&[
        (r#"{{list 1 nil "a"}}"#, "[1 <nil> a]"),
        ("{{tuple}}", "[]"),
        ("{{append .Values.list 9}}", "[1 2 x <nil> 9]"),
        ("{{prepend (list 1) 0}}", "[0 1]"),
        (r#"{{push (splitList "," "a,b") 1 | typeOf}}"#, "[]interface {}"),
        ("{{first .Values.words}}", "b"),
        ("{{last .Values.words | quote}}", r#""""#),
        ("{{rest .Values.list}}", "[2 x <nil>]"),
        ("{{initial .Values.list}}", "[1 2 x]"),
        ("{{first (list) | typeOf}}", "<nil>"),
        ("{{typeOf (rest (list))}}", "[]interface {}"),
        ("{{reverse .Values.list}}", "[<nil> x 2 1]"),
        ("{{uniq .Values.words}}", "[b a ]"),
        (r#"{{uniq (list 1 2 2 3 1 3)}} {{uniq (list "b" "a" "a" "b" "c" "a")}}"#, "[1 2 3] [b a c]"),
        (r#"{{without .Values.words "b"}}"#, "[a ]"),
        ("{{compact .Values.list}}", "[1 2 x]"),
        ("{{has 1.0 .Values.list}}", "true"),
        ("{{has 1 .Values.list}}", "false"),
        ("{{has 1 nil}}", "false"),
        (r#"{{uniq (list (dict "a" 1) (dict "a" 1) 1 1.0 "1")}}"#, "[map[a:1] 1 1 1]"),
        ("{{without (list 1 2.0 nil) nil 2}}", "[1 2]"),
        ("{{slice .Values.list 1}}", "[2 x <nil>]"),
        (r#"{{slice .Values.list 1 "2"}}"#, "[2]"),
        (r#"{{slice (splitList "," "a,b") 1 | typeOf}}"#, "[]string"),
        ("{{slice (list) 3 | typeOf}}", "<nil>"),
        ("{{slice .Values.list | len}}", "4"),
        ("{{concat .Values.list (list 5) (until 2)}}", "[1 2 x <nil> 5 0 1]"),
        ("{{concat | typeOf}}", "[]interface {}"),
        ("{{chunk 2 (list 1 2 3)}}", "[[1 2] [3]]"),
        ("{{chunk 2 (list) | typeOf}}", "[][]interface {}"),
        ("{{chunk -1 (list 1 2)}}", "[]"),
        ("{{chunk -5 (list 1)}}", "[[1]]"),
        ("{{range (until 3)}}{{.}}{{end}} {{untilStep 0 10 3}} {{untilStep 3 0 -1}} {{untilStep 0 3 0}} {{until -2}} {{seq 3}} {{seq 0}} {{seq 1 2 6}} {{seq 3 1}} {{seq}} {{seq 3 1 1}}", "012 [0 3 6 9] [3 2 1] [] [0 -1] 1 2 3 1 0 1 3 5 3 2 1  "),
    ]);
}

#[test]
#[rustfmt::skip]
fn dict_functions_match_helm() {
    check(&[
        (r#"{{dict "a" 1 "b"}}"#, "map[a:1 b:]"),
        ("{{dict 1 2 true 3 nil 4}}", "map[1:2 <nil>:4 true:3]"),
        (r#"{{dict "a" 1 "a" 2}}"#, "map[a:2]"),
        (r#"{{get (dict "a" nil) "a"}}"#, ""),
        (r#"{{get .Values.map "x" | quote}}"#, r#""""#),
        (r#"{{$d := dict "a" 1}}{{$e := set $d "b" 2}}{{$d}}{{$_ := unset $e "a"}}{{$d}} {{hasKey $d "b"}} {{typeOf (set .Values "z" 1)}} {{.Values.z}}"#, "map[a:1 b:2]map[b:2] true map[string]interface {} 1"),
        (r#"{{pluck "a" (dict "a" 1) (dict "b" 2) (dict "a" nil)}}"#, "[1 <nil>]"),
        (r#"{{keys (dict "b" 1) (dict "a" 1)}}"#, "[b a]"),
        (r#"{{values (dict "b" 1)}}"#, "[1]"),
        (r#"{{pick .Values.map "a" "x"}}"#, "map[a:1]"),
        (r#"{{omit .Values.map "a"}}"#, "map[b:map[c:d]]"),
        (r#"{{dig "b" "c" "no" .Values.map}}"#, "d"),
        (r#"{{dig "b" "x" "no" .Values.map}}"#, "no"),
        (r#"{{dig "x" "y" 1 .Values.map}}"#, "1"),
        (r#"{{merge (dict "a" 0 "b" "x" "c" false "d" nil) (dict "a" 1 "b" "y" "c" true "d" 4 "e" nil "f" "")}}"#, "map[a:1 b:x c:true d:4 f:]"),
        (r#"{{mergeOverwrite (dict "a" 1 "b" "x" "m" (dict "k" 1)) (dict "a" 0 "b" nil "m" (dict "l" 2))}}"#, "map[a:0 b:<nil> m:map[k:1 l:2]]"),
        (r#"{{merge (dict "l" (list 1) "m" (dict "a" 1)) (dict "l" (list 2 3) "m" (dict "a" 2 "b" 3) "n" (list 4)) (dict "m" 5 "o" (dict))}}"#, "map[l:[1] m:map[a:1 b:3] n:[4] o:map[]]"),
        (r#"{{mergeOverwrite (dict "l" (list 1) "m" (dict "a" 1) "n" "x") (dict "l" (list) "m" 5 "n" (dict "z" 1))}}"#, "map[l:[] m:5 n:map[z:1]]"),
        (r#"{{$a := dict "m" (dict) "n" (dict)}}{{$b := dict "m" (dict "x" 1) "n" (dict) "o" (dict "y" 1)}}{{$_ := merge $a $b}}{{$_ := set $b.m "later" 1}}{{$_ := set $b.n "later" 1}}{{$_ := set $b.o "later" 1}}{{$a}}"#, "map[m:map[x:1] n:map[later:1] o:map[later:1 y:1]]"),
        (r#"{{$a := dict "x" (dict "y" 1)}}{{$b := deepCopy $a}}{{$_ := set $a.x "y" 2}}{{$b}} {{deepCopy 3}} {{deepCopy (list 1 nil)}} {{typeOf (deepCopy .Values)}}"#, "map[x:map[y:1]] 3 [1 <nil>] chartutil.Values"),
    ]);
}

#[test]
#[rustfmt::skip]
fn number_functions_match_helm() {
    check(&[
        (r#"{{add 1 "2" 3.9 true nil}}"#, "7"),
        ("{{add}}", "0"),
        (r#"{{add1 "7"}}"#, "8"),
        ("{{sub 1 3}}", "-2"),
        ("{{mul 2 3 4}}", "24"),
        ("{{div -7 2}}", "-3"),
        ("{{mod -7 2}}", "-1"),
        ("{{typeOf (add 1 1)}}", "int64"),
        ("{{add 9223372036854775807 1}}", "-9223372036854775808"),
        (r#"{{max 1 "7" 3}}"#, "7"),
        ("{{min 1 -2.5}}", "-2"),
        ("{{biggest 1 2}}", "2"),
        ("{{maxf 1 2.5}}", "2.5"),
        (r#"{{minf 1 "x"}}"#, "0"),
        ("{{ceil 1.2}}", "2"),
        ("{{floor -1.2}}", "-2"),
        ("{{typeOf (ceil 1)}}", "float64"),
        ("{{round 123.555555 3}}", "123.556"),
        ("{{round 2.5 0}}", "3"),
        ("{{round -2.5 0}}", "-3"),
        ("{{round 123.456 -2}}", "100"),
        ("{{round 1.3 0 0.2}}", "2"),
        (r#"{{round "x" 1}}"#, "0"),
        ("{{round 1.5 400}}", "NaN"),
        ("{{addf 0.1 0.2}}", "0.3"),
        ("{{add1f 0.1}}", "1.1"),
        ("{{subf 1 0.9}}", "0.1"),
        ("{{mulf 1.1 1.1}}", "1.21"),
        ("{{divf 1 3}}", "0.3333333333333333"),
        ("{{divf 10 -3 2}}", "-1.6666666666666667"),
        ("{{addf 1e300 1e-300}}", "1e+300"),
        ("{{mulf 1e200 1e200}}", "+Inf"),
        ("{{divf 1 1e30}}", "0"),
        ("{{addf}}", "0"),
        (r#"{{int "010"}}"#, "8"),
        (r#"{{int "1.5"}}"#, "0"),
        (r#"{{int "3.00"}}"#, "3"),
        (r#"{{int64 "0x1F"}}"#, "31"),
        ("{{int 1e30}}", "-9223372036854775808"),
        ("{{int .Values.big}}", "12345678"),
        (r#"{{float64 "1e3"}}"#, "1000"),
        (r#"{{float64 "x"}}"#, "0"),
        (r#"{{atoi "010"}}"#, "10"),
        (r#"{{atoi "1x"}}"#, "0"),
        (r#"{{atoi "+5"}}"#, "5"),
        (r#"{{toDecimal "0755"}}"#, "493"),
        ("{{toDecimal 9}}", "0"),
    ]);
}

#[test]
#[rustfmt::skip]
fn default_and_type_functions_match_helm() {
    check(&[
        ("{{default 1 0}}", "1"),
        ("{{default 1 .Values.missing}}", "1"),
        ("{{default 1}}", "1"),
        ("{{.Values.half | default 2}}", "1.5"),
        (r#"{{default "x" (list)}}"#, "x"),
        ("{{empty (dict)}}", "true"),
        (r#"{{empty "a"}}"#, "false"),
        ("{{empty nil}}", "true"),
        (r#"{{coalesce 0 "" nil "x"}}"#, "x"),
        ("{{coalesce}}", ""),
        (r#"{{all 1 ""}}"#, "false"),
        ("{{all}}", "true"),
        ("{{any 0 1}}", "true"),
        ("{{any}}", "false"),
        ("{{ternary 1 2 true}}", "1"),
        ("{{false | ternary 1 2}}", "2"),
        (r#"{{required "m" 0}}"#, "0"),
        (r#"{{required "m" "v"}}"#, "v"),
        (r#"{{required "m" (list)}}"#, "[]"),
        ("{{typeOf nil}}", "<nil>"),
        ("{{typeOf 1}}", "int"),
        ("{{typeOf 1.0}}", "float64"),
        (r#"{{typeOf ""}}"#, "string"),
        ("{{typeOf (list)}}", "[]interface {}"),
        ("{{typeOf (dict)}}", "map[string]interface {}"),
        ("{{typeOf .Values}}", "chartutil.Values"),
        ("{{typeOf (int64 1)}}", "int64"),
        ("{{typeOf (until 1)}}", "[]int"),
        (r#"{{typeOf (split "" "")}}"#, "map[string]string"),
        ("{{kindOf nil}}", "invalid"),
        ("{{kindOf .Values}}", "map"),
        ("{{kindOf 1}}", "int"),
        (r#"{{kindIs "slice" (list)}}"#, "true"),
        (r#"{{typeIs "int" 1}}"#, "true"),
        (r#"{{typeIsLike "float64" .Values.half}}"#, "true"),
        ("{{deepEqual (list 1) (list 1)}}", "true"),
        ("{{deepEqual 1 1.0}}", "false"),
        ("{{deepEqual (rest (list)) (list)}}", "false"),
    ]);
}

#[test]
#[rustfmt::skip]
fn function_errors_match_helm() {
    check(&[
        (r#"{{repeat -1 "a"}}"#, r#"1:2: <repeat -1 "a">: error calling repeat: strings: negative Repeat count"#),
        (r#"{{indent -1 "a"}}"#, r#"1:2: <indent -1 "a">: error calling indent: strings: negative Repeat count"#),
        (r#"{{substr 5 2 "abc"}}"#, r#"1:2: <substr 5 2 "abc">: error calling substr: runtime error: slice bounds out of range [5:2]"#),
        (r#"{{substr -1 9 "abc"}}"#, r#"1:2: <substr -1 9 "abc">: error calling substr: runtime error: slice bounds out of range [:9] with length 3"#),
        (r#"{{substr -1 -1 "abc"}}"#, r#"1:2: <substr -1 -1 "abc">: error calling substr: runtime error: slice bounds out of range [:-1]"#),
        (r#"{{set nil "a" 1}}"#, r#"1:2: <set nil "a" 1>: error calling set: assignment to entry in nil map"#),
        (r#"{{set (list) "a" 1}}"#, "1:7: <list>: wrong type for value; expected map[string]interface {}; got []interface {}"),
        ("{{push nil 1}}", "1:2: <push nil 1>: error calling push: runtime error: invalid memory address or nil pointer dereference"),
        (r#"{{push "a" 1}}"#, r#"1:2: <push "a" 1>: error calling push: Cannot push on type string"#),
        ("{{prepend 3 1}}", "1:2: <prepend 3 1>: error calling prepend: Cannot prepend on type int"),
        (r#"{{rest "a"}}"#, r#"1:2: <rest "a">: error calling rest: Cannot find rest on type string"#),
        ("{{first true}}", "1:2: <first true>: error calling first: Cannot find first on type bool"),
        ("{{initial 1}}", "1:2: <initial 1>: error calling initial: Cannot find initial on type int"),
        ("{{last .Values.map}}", "1:2: <last .Values.map>: error calling last: Cannot find last on type map"),
        ("{{reverse 1.5}}", "1:2: <reverse 1.5>: error calling reverse: Cannot find reverse on type float64"),
        (r#"{{uniq "x"}}"#, r#"1:2: <uniq "x">: error calling uniq: Cannot find uniq on type string"#),
        ("{{without 3 1}}", "1:2: <without 3 1>: error calling without: Cannot find without on type int"),
        (r#"{{has 1 "x"}}"#, r#"1:2: <has 1 "x">: error calling has: Cannot find has on type string"#),
        (r#"{{compact "x"}}"#, r#"1:2: <compact "x">: error calling compact: Cannot compact on type string"#),
        (r#"{{slice "abc" 1}}"#, r#"1:2: <slice "abc" 1>: error calling slice: list should be type of slice or array but string"#),
        ("{{slice (list 1) 2}}", "1:2: <slice (list 1) 2>: error calling slice: reflect.Value.Slice: slice index out of bounds"),
        ("{{slice (list 1) -1}}", "1:2: <slice (list 1) -1>: error calling slice: reflect.Value.Slice: slice index out of bounds"),
        ("{{concat (list) 3}}", "1:2: <concat (list) 3>: error calling concat: Cannot concat type int as list"),
        ("{{concat nil}}", "1:2: <concat nil>: error calling concat: runtime error: invalid memory address or nil pointer dereference"),
        ("{{chunk 0 (list 1 2)}}", "1:2: <chunk 0 (list 1 2)>: error calling chunk: runtime error: makeslice: len out of range"),
        (r#"{{chunk 2 "ab"}}"#, r#"1:2: <chunk 2 "ab">: error calling chunk: Cannot chunk type string"#),
        (r#"{{dig "a" 1}}"#, r#"1:2: <dig "a" 1>: error calling dig: dig needs at least three arguments"#),
        (r#"{{dig "a" 1 .Values}}"#, r#"1:2: <dig "a" 1 .Values>: error calling dig: interface conversion: interface {} is chartutil.Values, not map[string]interface {}"#),
        ("{{dig 1 1 .Values.map}}", "1:2: <dig 1 1 .Values.map>: error calling dig: interface conversion: interface {} is int, not string"),
        (r#"{{dig "a" "b" 1 .Values.map}}"#, r#"1:2: <dig "a" "b" 1 .Values.map>: error calling dig: interface conversion: interface {} is float64, not map[string]interface {}"#),
        (r#"{{dig "a" "b" 1 nil}}"#, r#"1:2: <dig "a" "b" 1 nil>: error calling dig: interface conversion: interface {} is nil, not map[string]interface {}"#),
        ("{{div 1 0}}", "1:2: <div 1 0>: error calling div: runtime error: integer divide by zero"),
        (r#"{{mod 1 "x"}}"#, r#"1:2: <mod 1 "x">: error calling mod: runtime error: integer divide by zero"#),
        ("{{divf 1 0}}", "1:2: <divf 1 0>: error calling divf: decimal division by 0"),
        (r#"{{addf "nan"}}"#, r#"1:2: <addf "nan">: error calling addf: Cannot create a Decimal from NaN"#),
        (r#"{{mulf "inf" 1}}"#, r#"1:2: <mulf "inf" 1>: error calling mulf: Cannot create a Decimal from +Inf"#),
        ("{{deepCopy nil}}", "1:2: <deepCopy nil>: error calling deepCopy: reflect: call of reflect.Value.Type on zero Value"),
        (r#"{{fail "the chart says no"}}"#, "execution error at (t:1:2): the chart says no"),
        ("{{fail 3}}", "1:7: <3>: expected string; found 3"),
        (r#"{{required "a is missing" .Values.missing}}"#, "execution error at (t:1:2): a is missing"),
        (r#"{{required "a is empty" ""}}"#, "execution error at (t:1:2): a is empty"),
        (r#"{{required "x"}}"#, "1:2: <required>: wrong number of args for required: want 2 got 1"),
        (r#"{{ternary 1 2 "a"}}"#, r#"1:14: <"a">: expected bool; found "a""#),
        ("{{.Values.none | ternary 1 2}}", "1:27: <2>: invalid value; expected bool"),
        ("{{atoi .Values.none}}", "1:14: <.Values.none>: wrong type for value; expected string; got interface {}"),
        (r#"{{quote (fail "inside")}}"#, "execution error at (t:1:9): inside"),
        (r#"{{trunc "a" "b"}}"#, r#"1:8: <"a">: expected integer; found "a""#),
        ("{{upper 3}}", "1:8: <3>: expected string; found 3"),
        ("{{.Values.half | upper}}", "1:17: <upper>: wrong type for value; expected string; got float64"),
        (r#"{{merge "a" (dict)}}"#, r#"1:8: <"a">: can't handle "a" for arg of type map[string]interface {}"#),
        ("{{keys (list)}}", "1:8: <list>: wrong type for value; expected map[string]interface {}; got []interface {}"),
        ("{{split}}", "1:2: <split>: wrong number of args for split: want 2 got 0"),
        ("{{hello 1}}", "1:2: <hello>: wrong number of args for hello: want 0 got 1"),
        (r#"{{merge (dict "a" (split "." "x.y")) (dict "a" (dict "z" 1))}}"#, r#"1:2: <merge (dict "a" (split "." "x.y")) (dict "a" (dict "z" 1))>: error calling merge: reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string"#),
    ]);
}

#[test]
fn oversized_output_is_rejected() {
    let table = [
        r#"{{repeat 1000000000 "x"}}"#,
        r#"{{indent 1000000000 "x"}}"#,
        r#"{{nindent 9223372036854775807 "x"}}"#,
        "{{until 1000000000}}",
        "{{untilStep 0 9223372036854775807 1}}",
        "{{seq 1 9223372036854775806}}",
        r#"{{replace "a" (repeat 1000 "b") (repeat 10000 "a")}}"#,
        r#"{{join (repeat 1000 "b") (until 10000)}}"#,
        r#"{{wrapWith 1 (repeat 1000 "b") (repeat 10000 "a")}}"#,
        r#"{{$x := dict}}{{range until 64}}{{$x = dict "a" $x "b" $x}}{{end}}{{deepCopy $x}}"#,
        r#"{{$x := dict}}{{$y := dict}}{{range until 64}}{{$x = dict "a" $x "b" $x}}{{$y = dict "a" $y "b" $y}}{{end}}{{merge $x $y}}"#,
    ];
    for text in table {
        let why = run(text);
        assert!(why.ends_with("too much memory: stopped after 1048576 bytes"), "{text}: {why}");
    }
}

#[test]
fn cyclic_values_do_not_overflow_stack() {
    let looped = r#"{{$x := dict}}{{$_ := set $x "x" $x}}{{$y := dict}}{{$_ := set $y "x" $y}}"#;
    let table = [
        ("{{deepCopy $x}}", "error calling deepCopy: values are nested more than 1000 deep"),
        ("{{merge $x $y}}", "error calling merge: values are nested more than 1000 deep"),
        ("{{mergeOverwrite $x $y}}", "error calling mergeOverwrite: values are nested more than 1000 deep"),
        ("{{$x}}", "a value without end cannot be printed"),
        ("{{print $x 1}}", "error calling print: a value without end cannot be printed"),
        (r#"{{printf "%v %T" $x $x}}"#, "error calling printf: a value without end cannot be printed"),
        ("{{quote $x}}", "error calling quote: a value without end cannot be printed"),
        ("{{toYaml $x}}", ""),
        ("{{deepEqual $x $y}}", "true"),
        ("{{has $x (list $y)}}", "true"),
        (r#"{{hasKey $x.x.x.x "x"}}"#, "true"),
    ];
    for (text, expected) in table {
        let out = run(&format!("{looped}{text}"));
        assert!(out.ends_with(expected), "{text}: {out}");
    }
}

proptest! {
    /// No function panics, whatever its arguments.
    #[test]
    fn no_call_panics(
        name in prop::sample::select(
            [strings::FUNCTIONS, lists::FUNCTIONS, dicts::FUNCTIONS, math::FUNCTIONS, types::FUNCTIONS]
                .concat().into_iter().map(|row| row.0).collect::<Vec<_>>()
        ),
        args in prop::collection::vec(
            prop_oneof![
                "[a-cA-C _,éß\u{4e00}0-9-]{0,12}".prop_map(|text| format!("{text:?}").replace("\\u{", "u")),
                any::<i64>().prop_map(|n| n.to_string()),
                (-9..99i64).prop_map(|n| n.to_string()),
                any::<i32>().prop_map(|n| format!("{n}.5")),
                prop::sample::select(vec![
                    "nil", "true", ".Values", ".Values.list", ".Values.map", ".Values.none", "(list)",
                    "(dict)", "(until 3)", "(rest (list))", "(splitList \"\" \"é\")", "(trunc 1 \"é\")",
                ]).prop_map(str::to_owned),
            ],
            0..4,
        ),
    ) {
        run(&format!("{{{{$x := {name} {}}}}}{{{{kindOf $x}}}}", args.join(" ")));
    }
}

/// The step limit of the test would be exceeded if every iteration compiled the expression.
#[test]
fn regex_is_compiled_once() {
    assert_eq!(
        run(r#"{{range until 200}}{{if regexMatch "^[0-9]{1,3}$" (toString .)}}x{{end}}{{end}}"#),
        "x".repeat(200)
    );
}
