//! Function signatures for the generator: kinds of arguments and results.
//!
//! Each letter is a kind of value: `s` any string, `i` integer, `w` small non-negative integer, `n` any number, `b`
//! boolean, `l` list, `L` list of strings, `d` map, `a` anything, `k` key, `t` time, `V` version. Strings in a certain
//! syntax are `r` (regular expression), `v` and `c` (version and constraint), `F` (format), `y`, `j` and `m` (YAML,
//! JSON, TOML), `p` (path), `u` (URL), `e` (encoded), `o` (time layout), `D` (duration), `z` (time zone), `T` (type
//! name). `M` and `X` are a time and a duration that always parse. An invalid one would become the current time, which
//! is not reproducible. `*`: the last argument is variadic.

pub type FunctionSignature = (&'static str, &'static str, char);

#[rustfmt::skip]
pub const FUNCTIONS: &[FunctionSignature] = &[
    // Go's own functions.
    ("and", "aa*", 'a'), ("or", "aa*", 'a'), ("not", "a", 'b'), ("html", "a*", 's'), ("js", "a*", 's'),
    ("urlquery", "a*", 's'), ("index", "li", 'a'), ("index", "dk", 'a'), ("index", "dkk*", 'a'),
    ("slice", "lw", 'l'), ("slice", "lww", 'l'), ("slice", "sww", 's'), ("len", "l", 'i'), ("len", "s", 'i'), ("len", "d", 'i'),
    ("print", "a*", 's'), ("println", "a*", 's'), ("printf", "Fa*", 's'), ("printf", "Fa", 's'), ("printf", "Fn", 's'),
    ("printf", "Faa", 's'), ("eq", "aa", 'b'), ("eq", "ss*", 'b'), ("eq", "nn", 'b'), ("ne", "ss", 'b'), ("ne", "aa", 'b'),
    ("lt", "nn", 'b'), ("lt", "ii", 'b'), ("le", "ii", 'b'), ("gt", "ss", 'b'), ("ge", "nn", 'b'), ("call", "aa*", 'a'),
    // Strings.
    ("abbrev", "is", 's'), ("abbrevboth", "iis", 's'), ("camelcase", "s", 's'), ("cat", "a*", 's'), ("contains", "ss", 'b'),
    ("hasPrefix", "ss", 'b'), ("hasSuffix", "ss", 'b'), ("hello", "", 's'), ("indent", "ws", 's'), ("initials", "s", 's'),
    ("join", "sl", 's'), ("join", "sL", 's'), ("kebabcase", "s", 's'), ("lower", "s", 's'), ("nindent", "ws", 's'),
    ("nospace", "s", 's'), ("plural", "ssi", 's'), ("quote", "a*", 's'), ("repeat", "ws", 's'), ("replace", "sss", 's'),
    ("snakecase", "s", 's'), ("sortAlpha", "l", 'L'), ("split", "ss", 'd'), ("splitList", "ss", 'L'), ("splitn", "sis", 'd'),
    ("squote", "a*", 's'), ("substr", "iis", 's'), ("swapcase", "s", 's'), ("title", "s", 's'), ("toString", "a", 's'),
    ("toStrings", "l", 'L'), ("trim", "s", 's'), ("trimAll", "ss", 's'), ("trimPrefix", "ss", 's'), ("trimSuffix", "ss", 's'),
    ("trunc", "is", 's'), ("untitle", "s", 's'), ("upper", "s", 's'), ("wrap", "ws", 's'), ("wrapWith", "wss", 's'),
    // Numbers.
    ("add", "n*", 'i'), ("add1", "n", 'i'), ("sub", "nn", 'i'), ("mul", "nn*", 'i'), ("div", "nn", 'i'), ("mod", "nn", 'i'),
    ("max", "nn*", 'i'), ("min", "nn*", 'i'), ("biggest", "nn*", 'i'), ("addf", "n*", 'n'), ("add1f", "n", 'n'), ("subf", "nn*", 'n'),
    ("mulf", "nn*", 'n'), ("divf", "nn*", 'n'), ("maxf", "nn*", 'n'), ("minf", "nn*", 'n'), ("ceil", "n", 'n'), ("floor", "n", 'n'),
    ("round", "nw", 'n'), ("seq", "ww", 's'), ("seq", "www", 's'), ("until", "w", 'l'), ("untilStep", "iii", 'l'), ("atoi", "s", 'i'), ("int", "a", 'i'),
    ("int64", "a", 'i'), ("float64", "a", 'n'), ("toDecimal", "a", 'i'),
    // Types.
    ("typeOf", "a", 's'), ("typeIs", "Ta", 'b'), ("typeIsLike", "Ta", 'b'), ("kindOf", "a", 's'), ("kindIs", "Ta", 'b'), ("deepEqual", "aa", 'b'),
    // Defaults and missing values.
    ("default", "aa", 'a'), ("default", "ss", 's'), ("empty", "a", 'b'), ("coalesce", "a*", 'a'), ("all", "a*", 'b'), ("any", "a*", 'b'),
    ("ternary", "aab", 'a'), ("fail", "s", 's'), ("required", "sa", 'a'),
    // Lists.
    ("list", "a*", 'l'), ("tuple", "s*", 'l'), ("append", "la", 'l'), ("push", "la", 'l'), ("mustAppend", "la", 'l'), ("mustPush", "la", 'l'),
    ("prepend", "la", 'l'), ("mustPrepend", "la", 'l'), ("first", "l", 'a'), ("mustFirst", "l", 'a'), ("rest", "l", 'l'), ("mustRest", "l", 'l'),
    ("last", "l", 'a'), ("mustLast", "l", 'a'), ("initial", "l", 'l'), ("mustInitial", "l", 'l'), ("reverse", "l", 'l'), ("mustReverse", "l", 'l'),
    ("uniq", "l", 'l'), ("mustUniq", "l", 'l'), ("without", "la*", 'l'), ("mustWithout", "la*", 'l'), ("has", "al", 'b'), ("mustHas", "al", 'b'),
    ("compact", "l", 'l'), ("mustCompact", "l", 'l'), ("mustSlice", "lw*", 'l'), ("concat", "l*", 'l'), ("chunk", "wl", 'l'), ("mustChunk", "wl", 'l'),
    // Maps.
    ("dict", "ka", 'd'), ("dict", "kaka", 'd'), ("dict", "kal", 'd'), ("get", "dk", 'a'), ("set", "dka", 'd'), ("unset", "dk", 'd'), ("hasKey", "dk", 'b'),
    ("pluck", "kd*", 'l'), ("pick", "dk*", 'd'), ("omit", "dk*", 'd'), ("dig", "kad", 'a'), ("dig", "kkad", 'a'), ("deepCopy", "a", 'a'),
    ("mustDeepCopy", "d", 'd'), ("merge", "dd*", 'd'), ("mustMerge", "dd*", 'd'), ("mergeOverwrite", "dd*", 'd'), ("mustMergeOverwrite", "dd*", 'd'),
    // Paths, URLs, encodings.
    ("base", "p", 's'), ("dir", "p", 's'), ("clean", "p", 's'), ("ext", "p", 's'), ("isAbs", "p", 'b'), ("osBase", "p", 's'), ("osDir", "p", 's'),
    ("osClean", "p", 's'), ("osExt", "p", 's'), ("osIsAbs", "p", 'b'), ("urlParse", "u", 'd'), ("urlJoin", "d", 's'), ("b64enc", "s", 's'),
    ("b64dec", "e", 's'), ("b32enc", "s", 's'), ("b32dec", "e", 's'), ("sha1sum", "s", 's'), ("sha256sum", "s", 's'), ("sha512sum", "s", 's'),
    ("adler32sum", "s", 's'), ("decryptAES", "ss", 's'), ("getHostByName", "s", 's'), ("lookup", "ssss", 'd'),
    // Times.
    ("date", "oM", 's'), ("htmlDate", "M", 's'), ("dateInZone", "oMz", 's'), ("htmlDateInZone", "Mz", 's'), ("dateModify", "Dt", 't'),
    ("mustDateModify", "Dt", 't'), ("toDate", "os", 't'), ("mustToDate", "os", 't'), ("unixEpoch", "t", 's'), ("duration", "n", 's'),
    ("duration", "s", 's'), ("durationRound", "X", 's'), ("durationSeconds", "X", 'n'), ("durationDays", "X", 'n'), ("durationRoundTo", "XX", 'a'),
    ("durationTruncateTo", "XX", 'a'), ("durationMilliseconds", "X", 'i'), ("mustToDuration", "X", 'a'),
    // Regular expressions and versions.
    ("regexMatch", "rs", 'b'), ("mustRegexMatch", "rs", 'b'), ("regexFind", "rs", 's'), ("mustRegexFind", "rs", 's'), ("regexFindAll", "rsi", 'L'),
    ("mustRegexFindAll", "rsi", 'L'), ("regexSplit", "rsi", 'L'), ("mustRegexSplit", "rsi", 'L'), ("regexReplaceAll", "rss", 's'),
    ("mustRegexReplaceAll", "rss", 's'), ("regexReplaceAllLiteral", "rss", 's'), ("mustRegexReplaceAllLiteral", "rss", 's'),
    ("regexQuoteMeta", "s", 's'), ("semver", "v", 'V'), ("semverCompare", "cv", 'b'), ("semverCompare", "cv", 'b'),
    // Formats.
    ("toYaml", "a", 's'), ("toYaml", "d", 's'), ("mustToYaml", "a", 's'), ("toYamlPretty", "a", 's'), ("fromYaml", "y", 'd'), ("fromYamlArray", "y", 'l'),
    ("toJson", "a", 's'), ("mustToJson", "a", 's'), ("toPrettyJson", "a", 's'), ("mustToPrettyJson", "a", 's'), ("toRawJson", "a", 's'),
    ("mustToRawJson", "a", 's'), ("fromJson", "j", 'd'), ("mustFromJson", "j", 'a'), ("fromJsonArray", "j", 'l'), ("toToml", "d", 's'),
    ("mustToToml", "d", 's'), ("fromToml", "m", 'd'),
];

/// Functions that only Helm 4 has. The generator picks them rarely, because Helm 3 rejects the whole template.
pub const HELM_4_FUNCTIONS: &[&str] = &[
    "durationDays",
    "durationMilliseconds",
    "durationRoundTo",
    "durationSeconds",
    "durationTruncateTo",
    "mustToDuration",
    "mustToToml",
    "mustToYaml",
];

/// Functions excluded from generation, with the reason.
#[rustfmt::skip]
pub const EXCLUDED_FUNCTIONS: &[(&str, &[&str])] = &[
    ("what they give is random", &[
        "randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4", "bcrypt", "htpasswd",
        "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
        "genSignedCertWithKey",
    ]),
    ("what they give depends on the time of day", &["now", "ago"]),
    ("the order of what they give is random", &["keys", "values"]),
    ("it takes seconds, and is held against Helm's answers elsewhere", &["derivePassword", "buildCustomCert"]),
    ("others do the same under another name", &[
        "date_in_zone", "date_modify", "must_date_modify", "trimall", "durationHours", "durationMicroseconds", "durationMinutes",
        "durationNanoseconds", "durationWeeks",
    ]),
    ("the generator has its own way with them", &["include", "tpl"]),
];

/// Literals, paths and short expressions that yield a value of this kind.
#[rustfmt::skip]
pub fn terminals(sort: char) -> &'static [&'static str] {
    match sort {
        's' => &[r#""""#, r#""a""#, r#""hello world""#, r#""Straße Ünïcode""#, r#""line one\nline two\n""#, "`raw \\n text`", r#""  spaced  ""#, r#""a,b,,c""#,
            r#""12""#, r#""-3.7""#, r#""0x1F""#, r#""true""#, r#""null""#, r#""a: b""#, r#""\xff\xfe""#, r#""tab\there""#, r#""<a href=\"x\">&'""#, r#""fooBar_baz-Qux""#, r#""日本語""#,
            r#""e\u0301""#, r#""%d%s""#, r#""$1 ${x}""#, "$.Values.s0", "$.Values.s1", "$.Values.s2", "$.Values.s3", "$.Release.Name", "$.Release.Namespace", "$.Release.Service",
            "$.Chart.Name", "$.Chart.Version", "$.Chart.AppVersion", "$.Capabilities.KubeVersion.Version", "$.Capabilities.KubeVersion.Minor", "$.Capabilities.KubeVersion.GitVersion",
            "$.Template.BasePath", "($.Files.Get \"f.txt\")", "($.Files.Get \"none\")", "($.Files.Glob \"*.txt\").AsConfig", "($.Files.Glob \"*\").AsSecrets", "$.Values.d0.a", "$.Values.YAML"],
        'i' => &["0", "1", "-1", "2", "3", "5", "10", "100", "-7", "0x10", "0b11", "0o17", "'a'", "1_000", "9223372036854775807", "$.Release.Revision", "(len $.Values.l0)"],
        'w' => &["0", "1", "2", "3", "4", "7", "12"],
        'n' => &["0", "1", "-1", "3", "2.5", "-0.5", "1e3", "1e21", "1000000.0", "0x1p4", "1e-7", "123456789", "3.14159", "'x'", "$.Values.n0", "$.Values.n1", "$.Values.n2", "$.Values.n3", "(int $.Values.n0)", "(int64 $.Values.n1)", "(float64 7)"],
        'b' => &["true", "false", "$.Values.b0", "$.Values.b1", "$.Release.IsInstall", "$.Release.IsUpgrade", "($.Capabilities.APIVersions.Has \"v1\")", "($.Capabilities.APIVersions.Has \"none/v1\")"],
        'l' => &["list", "(list 1 2 3)", "(list \"a\" \"b\" \"a\")", "(list nil 1 \"\")", "(list 1 2.5 \"x\" true)", "$.Values.l0", "$.Values.l1", "$.Values.l2", "(until 3)", "(list (list 1) (dict \"a\" 1))", "($.Files.Lines \"f.txt\")", "(splitList \",\" \"a,b\")"],
        'L' => &["(list \"b\" \"a\" \"c\")", "(splitList \",\" \"x,y,z\")", "(list \"a\" \"\" \"a\")", "$.Values.l1", "(tuple \"q\")"],
        'd' => &["dict", "(dict \"a\" 1 \"b\" \"two\")", "(dict \"a\" (dict \"b\" (dict \"c\" 3)))", "(dict \"x\" nil \"y\" (list 1 2))", "$.Values.d0", "$.Values.d1", "$.Values.d2", "$.Release", "$.Values.AsMap", "(dict \"a\" 1.5 \"c\" true)"],
        'a' => &["nil", "$.Values.nul", "$.Values.missing", "1", "2.5", "\"x\"", "true", "(list 1 \"a\")", "(dict \"k\" \"v\")", "$.Values.s0", "$.Values.n0", "$.Values.l0", "$.Values.d0", "1i", "'z'", "$.Capabilities.KubeVersion", "(semver \"1.2.3\")"],
        'k' => &["\"a\"", "\"b\"", "\"c\"", "\"x\"", "\"\"", "\"long key\"", "\"Name\"", "\"1\""],
        't' => &["(toDate \"2006-01-02\" \"2021-03-04\")", "(mustToDate \"2006-01-02T15:04:05Z07:00\" \"2019-12-31T23:59:58+02:00\")", "(toDate \"2006\" \"x\")"],
        'M' => &["(toDate \"2006-01-02\" \"2021-03-04\")", "(mustToDate \"2006-01-02T15:04:05Z07:00\" \"2019-12-31T23:59:58+02:00\")", "0", "1500000000", "(int64 86399)"],
        'V' => &["(semver \"1.2.3-beta.1+b\")", "(semver \"v2.0\")"],
        'r' => &["\"a\"", "\"[a-c]+\"", "\"(\\\\w+) (\\\\w+)\"", "\"^l.*$\"", "`\\d{1,3}`", "\"a(\"", "\"(?i)HELLO\"", "\"\"", "\"x*\"", "`(?P<n>\\pL+)`", "\"[[:space:]]\"", "\"(?s).\"", "\"a|b|\""],
        'v' => &["\"1.2.3\"", "\"v1.10\"", "\"2\"", "\"1.2.3-alpha.1\"", "\"1.0.0+build\"", "\"not\"", "$.Chart.Version", "$.Capabilities.KubeVersion.Version", "\"01.2.3\"", "\"1.2.3-0\""],
        'c' => &["\">=1.2\"", "\"^1.2.3\"", "\"~1.2\"", "\"1.x\"", "\">1.0 <2.0 || >=3\"", "\"1.2 - 1.9\"", "\"!=1.2.3\"", "\"*\"", "\">=1.2.0-0\"", "\"=>1\"", "\"bad\"", "\"~>1, <1.5\"", "\"\""],
        'F' => &["\"%s\"", "\"%d\"", "\"%v\"", "\"%q\"", "\"%x\"", "\"%T\"", "\"%5d|%-5s|\"", "\"%05.1f\"", "\"%+d\"", "\"%#v\"", "\"%t\"", "\"%e\"", "\"%g\"", "\"%08b\"", "\"%c\"", "\"%U\"", "\"%%\"", "\"%\"", "\"%!\"",
            "\"%[2]v %[1]v\"", "\"%*d\"", "\"%.2s\"", "\"%6.2f\"", "\"%#x\"", "\"% x\"", "\"%#q\"", "\"%+q\"", "\"%X\"", "\"%o\"", "\"%#o\"", "\"%O\"", "\"%s-%s\"", "\"%v %v\"", "\"%-8v|\"", "\"%8v|\"", "\"%08v\"", "\"%+v\"", "\"%#g\"", "\"%G\"", "\"%.3e\"", "\"%b\"", "\"%#U\"", "\"%z\"", "\"%.1v\"", "\"%#.3x\"", "\"%-08d\"", "\"%.0f\"", "\"%[5]d\"", "\"%[x]d\"", "\"%.*f\"", "\"no verbs\"", "\"%é\"", "\"\\xff%s\""],
        'y' => &["\"a: 1\\nb: [x, y]\\n\"", "\"- 1\\n- two\\n- ~\\n\"", "\"a: b: c\"", "\"just text\"", "\"\"", "\"a: &x {b: 1}\\nc: *x\\n\"", "\"{a: yes, b: 0777, c: 1e3, d: '1', e: 2020-01-01}\"", "(toYaml $.Values.d0)", "(toYaml $.Values.l0)", "\"a: |\\n  block\\n  text\\nb: >-\\n  folded\\n  text\\n\"", "\"null\"", "\"a:\\n\\t- x\""],
        'j' => &["`{\"a\": 1, \"b\": [true, null, \"x\"]}`", "`[1, 2.5, {\"c\": \"d\"}]`", "`{`", "\"\"", "\"null\"", "`\"text\"`", "`{\"u\": \"\\u00e9\\n\"}`", "(toJson $.Values.d1)", "(toJson $.Values.l0)", "`{\"a\":1}x`", "\"12\""],
        'm' => &["\"a = 1\\n[b]\\nc = 'x'\\n\"", "\"a = \"", "\"\"", "\"x = [1, 2, 3]\\nf = 1.5\\n\"", "\"[[t]]\\nn = 1\\n[[t]]\\nn = 2\\n\"", "\"a = 1\\na = 2\""],
        'p' => &["\"/a/b/../c.txt\"", "\"a//b/./c\"", "\"\"", "\"/\"", "\"file.tar.gz\"", "\"../..\"", "\"/a/b/\"", "\".hidden\"", "$.Values.s0"],
        'u' => &["\"https://user:pw@example.com:8080/a/b?x=1&y=2#frag\"", "\"/only/path\"", "\"\"", "\"http://[::1]:80/\"", "\"mailto:a@b.c\"", "\"http://a b/\"", "\"//host/path\"", "\"http://ex.com/%zz\"", "\"http://ex.com/a%20b\""],
        'e' => &["\"aGVsbG8=\"", "\"aGVsbG8\"", "\"//8=\"", "\"NBSWY3DP\"", "\"!!\"", "\"\"", "(b64enc $.Values.s0)", "(b32enc \"abc\")"],
        'o' => &["\"2006-01-02\"", "\"02 Jan 06 15:04 MST\"", "\"Monday, January 2 2006 3:04:05.000 PM -07:00\"", "\"2006-01-02T15:04:05Z07:00\"", "\"\"", "\"__2 002 pm\""],
        'D' => &["\"1h\"", "\"-1.5h30m\"", "\"90s\"", "\"x\"", "\"\"", "\"1ms2us\"", "\"+24h\""],
        'X' => &["\"1h30m\"", "\"95s\"", "3600", "\"100\"", "\"-26h\"", "0", "\"8760h\""],
        'z' => &["\"UTC\"", "\"Local\"", "\"Nowhere/Land\"", "\"\""],
        'T' => &["\"string\"", "\"int\"", "\"float64\"", "\"map\"", "\"slice\"", "\"map[string]interface {}\"", "\"[]interface {}\"", "\"bool\"", "\"*semver.Version\"", "\"semver.Version\"", "\"invalid\"", "\"ptr\"", "\"chartutil.Values\""],
        _ => &["nil"],
    }
}
