//! Path and URL functions.

use crate::{OracleRow, check};

#[rustfmt::skip]
const ROWS: &[OracleRow] = &[
    (r#"{{ base "" }}|{{ dir "" }}|{{ clean "" }}|{{ ext "" }}|{{ isAbs "" }}|{{ osBase "" }}"#, ".|.|.||false|.", None),
    (r#"{{ base "/" }}|{{ dir "/" }}|{{ clean "/" }}|{{ ext "/" }}|{{ isAbs "/" }}|{{ osBase "/" }}"#, "/|/|/||true|/", None),
    (r#"{{ base "a/../../b" }}|{{ dir "a/../../b" }}|{{ clean "a/../../b" }}|{{ ext "a/../../b" }}|{{ isAbs "a/../../b" }}|{{ osBase "a/../../b" }}"#, "b|..|../b||false|b", None),
    (r#"{{ base "/../a" }}|{{ dir "/../a" }}|{{ clean "/../a" }}|{{ ext "/../a" }}|{{ isAbs "/../a" }}|{{ osBase "/../a" }}"#, "a|/|/a||true|a", None),
    (r#"{{ base "a//b/./c.tar.gz" }}|{{ dir "a//b/./c.tar.gz" }}|{{ clean "a//b/./c.tar.gz" }}|{{ ext "a//b/./c.tar.gz" }}|{{ isAbs "a//b/./c.tar.gz" }}|{{ osBase "a//b/./c.tar.gz" }}"#, "c.tar.gz|a/b|a/b/c.tar.gz|.gz|false|c.tar.gz", None),
    (r#"{{ base ".x" }}|{{ dir ".x" }}|{{ clean ".x" }}|{{ ext ".x" }}|{{ isAbs ".x" }}|{{ osBase ".x" }}"#, ".x|.|.x|.x|false|.x", None),
    (r#"{{ base "a.b/c" }}|{{ dir "a.b/c" }}|{{ clean "a.b/c" }}|{{ ext "a.b/c" }}|{{ isAbs "a.b/c" }}|{{ osBase "a.b/c" }}"#, "c|a.b|a.b/c||false|c", None),
    (r#"{{ base "é/" }}|{{ dir "é/" }}|{{ clean "é/" }}|{{ ext "é/" }}|{{ isAbs "é/" }}|{{ osBase "é/" }}"#, "é|é|é||false|é", None),
    (r#"{{ base "//" }}|{{ dir "//" }}|{{ clean "//" }}|{{ ext "//" }}|{{ isAbs "//" }}|{{ osBase "//" }}"#, "/|/|/||true|/", None),
    (r#"{{ urlParse "http://u:p%40@h:80/a%20b?q=1#f%20g" }}"#, "map[fragment:f g host:h:80 hostname:h opaque: path:/a b query:q=1 scheme:http userinfo:u:p%40]", None),
    (r#"{{ urlParse "HTTP://H" }}"#, "map[fragment: host:H hostname:H opaque: path: query: scheme:http userinfo:]", None),
    (r#"{{ urlParse "mailto:a@b" }}"#, "map[fragment: host: hostname: opaque:a@b path: query: scheme:mailto userinfo:]", None),
    (r#"{{ urlParse "a:b" }}"#, "map[fragment: host: hostname: opaque:b path: query: scheme:a userinfo:]", None),
    (r#"{{ urlParse "a/b:c" }}"#, "map[fragment: host: hostname: opaque: path:a/b:c query: scheme: userinfo:]", None),
    (r#"{{ urlParse "x_y:z" }}"#, r#"error: error calling urlParse: unable to parse url: parse "x_y:z": first path segment in URL cannot contain colon"#, None),
    (r#"{{ urlParse ":a" }}"#, r#"error: error calling urlParse: unable to parse url: parse ":a": missing protocol scheme"#, None),
    (r#"{{ urlParse "//h/p" }}"#, "map[fragment: host:h hostname:h opaque: path:/p query: scheme: userinfo:]", None),
    (r#"{{ urlParse "///p" }}"#, "map[fragment: host: hostname: opaque: path:///p query: scheme: userinfo:]", None),
    (r#"{{ urlParse "http://[::1]:80/" }}"#, "map[fragment: host:[::1]:80 hostname:::1 opaque: path:/ query: scheme:http userinfo:]", None),
    (r#"{{ urlParse "http://[::1" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://[::1": missing ']' in host"#, None),
    (r#"{{ urlParse "http://[fe80::1%25en0]/" }}"#, "map[fragment: host:[fe80::1%en0] hostname:fe80::1%en0 opaque: path:/ query: scheme:http userinfo:]", None),
    (r#"{{ urlParse "http://[1.2.3.4]/" }}"#, "map[fragment: host:[1.2.3.4] hostname:1.2.3.4 opaque: path:/ query: scheme:http userinfo:]", Some(r#"error: error calling urlParse: unable to parse url: parse "http://[1.2.3.4]/": invalid IP-literal"#)),
    (r#"{{ urlParse "http://[abc]/" }}"#, "map[fragment: host:[abc] hostname:abc opaque: path:/ query: scheme:http userinfo:]", Some(r#"error: error calling urlParse: unable to parse url: parse "http://[abc]/": invalid host: ParseAddr("abc"): unable to parse IP"#)),
    (r#"{{ urlParse "http://a[::1]/" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://a[::1]/": invalid port ":1]" after host"#, Some(r#"error: error calling urlParse: unable to parse url: parse "http://a[::1]/": invalid IP-literal"#)),
    (r#"{{ urlParse "http://h:x/" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://h:x/": invalid port ":x" after host"#, None),
    (r#"{{ urlParse "http://h:80:90/" }}"#, "map[fragment: host:h:80:90 hostname:h:80 opaque: path:/ query: scheme:http userinfo:]", Some(r#"error: error calling urlParse: unable to parse url: parse "http://h:80:90/": invalid port ":80:90" after host"#)),
    (r#"{{ urlParse "tcp://h:80:90/" }}"#, "map[fragment: host:h:80:90 hostname:h:80 opaque: path:/ query: scheme:tcp userinfo:]", None),
    (r#"{{ urlParse "http://h%41/" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://h%41/": invalid URL escape "%41""#, None),
    (r#"{{ urlParse "http://h%zz/" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://h%zz/": invalid URL escape "%zz""#, None),
    (r#"{{ urlParse "http://a^b/" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://a^b/": invalid character "^" in host name"#, None),
    (r#"{{ urlParse "http://ü@h" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://ü@h": net/url: invalid userinfo"#, None),
    (r#"{{ urlParse "http://h/%" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://h/%": invalid URL escape "%""#, None),
    (r#"{{ urlParse "http://h#%zz" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://h#%zz": invalid URL escape "%zz""#, None),
    (r#"{{ urlParse "http://h/a b" }}"#, "map[fragment: host:h hostname:h opaque: path:/a b query: scheme:http userinfo:]", None),
    (r#"{{ urlParse "/%é" }}"#, r#"error: error calling urlParse: unable to parse url: parse "/%é": invalid URL escape "%é""#, None),
    (r#"{{ urlParse "http://h\x7f" }}"#, r#"error: error calling urlParse: unable to parse url: parse "http://h\x7f": net/url: invalid control character in URL"#, None),
    (r#"{{ urlParse "*" }}"#, "map[fragment: host: hostname: opaque: path:* query: scheme: userinfo:]", None),
    (r#"{{ urlParse "http://h?" }}"#, "map[fragment: host:h hostname:h opaque: path: query: scheme:http userinfo:]", None),
    (r#"{{ urlJoin (urlParse "http://u:p%40@h:80/a%20b?q=1#f%20g") }}"#, "http://u:p%40@h:80/a%20b?q=1#f%20g", None),
    (r#"{{ urlJoin (dict "path" "a:b") }} {{ urlJoin (dict "host" "h" "path" "é") }} {{ urlJoin (dict "scheme" "s" "opaque" "o") }} {{ urlJoin (dict "scheme" "s") }}"#, "./a:b //h/%C3%A9 s:o s:", None),
    (r#"{{ urlJoin (dict "host" 1) }}"#, "error: error calling urlJoin: unable to parse host key, must be of type string, but int found", None),
    (r#"{{ urlJoin (dict "host" nil) }}"#, "error: error calling urlJoin: runtime error: invalid memory address or nil pointer dereference", None),
    (r#"{{ urlJoin (dict "userinfo" "a b") }}"#, r#"error: error calling urlJoin: unable to parse userinfo in dict: parse "proto://a b@host": net/url: invalid userinfo"#, None),
    ("{{ urlJoin nil }}", "", None),
];

#[test]
fn path_functions_match_helm() {
    check(ROWS);
}
