//! Generates random templates and values, reproducible by seed.

use std::fmt::Write;

use super::catalogue::{FUNCTIONS, FunctionSignature, HELM_4_FUNCTIONS, terminals};
use super::term::{self, Term};

/// Xorshift random number generator.
pub struct XorShift(u64);

impl XorShift {
    pub fn new(seed: u64) -> Self {
        // The generator would stay at zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).expect("it is below the limit")
    }

    /// True with this probability in percent.
    fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    fn choose<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// A template with its values.
#[derive(Clone)]
pub struct GeneratedCase {
    /// Unique number, because template names in a set must be unique.
    pub number: usize,
    pub defines: Vec<Vec<Term>>,
    pub body: Vec<Term>,
    /// YAML in JSON syntax.
    pub values: String,
}

impl GeneratedCase {
    pub fn new(seed: u64, number: usize) -> Self {
        let mut generator = Generator {
            rng: XorShift::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64)),
            number,
            defines: 0,
            variables: Vec::new(),
            next_variable: 0,
            in_range: false,
            has_dot: false,
        };
        // The first outputs of neighbouring seeds are similar.
        (0..8).for_each(|_| _ = generator.rng.next());
        let values = generator.values();
        let wanted = generator.rng.below(3);
        let mut defines = Vec::new();
        for _ in 0..wanted {
            defines.push(generator.statements(1, 3));
            generator.defines += 1;
            generator.variables.clear();
        }
        let body = generator.statements(2, 4);
        Self { number, defines, body, values }
    }

    /// The template file. Its output is encoded, so that it is valid YAML whatever it contains.
    pub fn file(&self) -> String {
        let mut out = String::new();
        for (at, body) in self.defines.iter().enumerate() {
            write!(out, "{{{{ define \"t{}.{at}\" }}}}{}{{{{ end }}}}", self.number, term::text(body))
                .unwrap();
        }
        let number = self.number;
        write!(out, "{{{{ define \"t{number}\" }}}}{}{{{{ end }}}}", term::text(&self.body)).unwrap();
        writeln!(out, "out: {{{{ include \"t{number}\" . | b64enc | quote }}}}").unwrap();
        out
    }

    /// All cases with one element less.
    pub fn shrink(&self) -> Vec<Self> {
        let mut all: Vec<_> =
            term::smaller(&self.body).into_iter().map(|body| Self { body, ..self.clone() }).collect();
        for at in 0..self.defines.len() {
            all.extend(term::smaller(&self.defines[at]).into_iter().map(|define| {
                let mut case = self.clone();
                case.defines[at] = define;
                case
            }));
        }
        all
    }
}

struct Generator {
    rng: XorShift,
    number: usize,
    /// Number of templates defined so far.
    defines: usize,
    /// Variables in scope with their sorts.
    variables: Vec<(String, char)>,
    next_variable: usize,
    in_range: bool,
    /// Whether the dot was rebound. Helm's root object contains pointers, which print as addresses.
    has_dot: bool,
}

impl Generator {
    fn statements(&mut self, depth: usize, most: usize) -> Vec<Term> {
        let scope = self.variables.len();
        let count = 1 + self.rng.below(most);
        let terms = (0..count).map(|_| self.statement(depth)).collect();
        self.variables.truncate(scope);
        terms
    }

    fn statement(&mut self, depth: usize) -> Term {
        match self.rng.below(if depth == 0 { 60 } else { 100 }) {
            0..10 => {
                Term::Text(self.rng.choose(&["a", "\n", "  x: ", " \n  ", "é", "{", "}} ", "- \n"]).into())
            }
            10..50 => {
                let sort = self.sort();
                let depth = 1 + self.rng.below(3);
                let value = self.expression(sort, depth);
                self.action(String::new(), value)
            }
            50..56 => {
                let sort = self.sort();
                let value = self.expression(sort, 2);
                let known = self.variables.len();
                if known > 0 && self.rng.percent(40) {
                    let (name, _) = &self.variables[self.rng.below(known)];
                    let before = format!("{name} = ");
                    return self.action(before, value);
                }
                let name = self.declare(sort);
                self.action(format!("{name} := "), value)
            }
            56..58 => Term::Text(
                self.rng.choose(&["{{/* a comment */}}", "{{- /* trimmed */ -}}", "{{ `{{` }}"]).into(),
            ),
            58..60 if self.in_range => Term::Text(self.rng.choose(&["{{ break }}", "{{ continue }}"]).into()),
            58..66 if self.defines > 0 => {
                let name = format!("template \"t{}.{}\" ", self.number, self.rng.below(self.defines));
                let value = if self.rng.percent(70) { Term::leaf("$") } else { self.expression('a', 1) };
                self.action(name, value)
            }
            58..76 => self.block("if", depth),
            76..85 => self.block("with", depth),
            _ => self.block("range", depth),
        }
    }

    fn action(&mut self, before: String, value: Term) -> Term {
        let trim = (self.rng.percent(10), self.rng.percent(10));
        Term::Action { before, value: value.into(), trim }
    }

    fn declare(&mut self, sort: char) -> String {
        let name = format!("$v{}", self.next_variable);
        self.next_variable += 1;
        self.variables.push((name.clone(), sort));
        name
    }

    fn block(&mut self, word: &'static str, depth: usize) -> Term {
        let scope = self.variables.len();
        let sort = match word {
            "if" => self.rng.choose(&["b", "a", "s", "n"]),
            "with" => self.rng.choose(&["d", "a", "s", "l"]),
            _ => self.rng.choose(&["l", "l", "d", "L", "w", "a"]),
        };
        let value = self.expression(sort.chars().next().unwrap_or('a'), 2);
        let before = match (word, self.rng.below(3)) {
            ("range", 0) => format!("{}, {} := ", self.declare('a'), self.declare('a')),
            ("range" | "with", 1) => format!("{} := ", self.declare('a')),
            _ => String::new(),
        };
        let depth = depth.saturating_sub(1);
        let outer = (self.in_range, self.has_dot);
        self.in_range |= word == "range";
        self.has_dot |= word != "if";
        let body = self.statements(depth, 3);
        (self.in_range, self.has_dot) = outer;
        let otherwise = self.rng.percent(40).then(|| self.statements(depth, 2));
        self.variables.truncate(scope);
        Term::Block { word, before, value: value.into(), body, otherwise }
    }

    fn sort(&mut self) -> char {
        let sorts = b"sssssiinnbblLddaatVF";
        char::from(sorts[self.rng.below(sorts.len())])
    }

    fn expression(&mut self, wanted: char, depth: usize) -> Term {
        let strict = matches!(wanted, 'M' | 'X');
        // Some errors are intended.
        let sort = if !strict && self.rng.percent(4) { self.sort() } else { wanted };
        if strict || depth == 0 || self.rng.percent(25) {
            return self.leaf(sort);
        }
        if sort == 's' && self.rng.percent(6) {
            return self.nested();
        }
        if self.rng.percent(4) {
            let of = self.expression('d', depth - 1);
            let path = self.rng.choose(&["a", "b.c", "x", "a.b", "Name"]).into();
            return Term::Field { of: of.into(), path };
        }
        let giving: Vec<&FunctionSignature> = FUNCTIONS
            .iter()
            .filter(|row| sort == 'a' || row.2 == sort || (sort == 'n' && row.2 == 'i'))
            .collect();
        if giving.is_empty() {
            return self.leaf(sort);
        }
        let mut chosen = self.rng.choose(&giving);
        while HELM_4_FUNCTIONS.contains(&chosen.0) && self.rng.percent(90) {
            chosen = self.rng.choose(&giving);
        }
        let (name, params, _) = *chosen;
        let mut args = Vec::new();
        for sort in params.trim_end_matches('*').chars() {
            args.push(self.expression(sort, depth - 1));
        }
        if let Some(all) = params.strip_suffix('*') {
            let last = all.chars().next_back().unwrap_or('a');
            match self.rng.below(4) {
                0 => _ = args.pop(),
                1 => {}
                more => (1..more).for_each(|_| args.push(self.expression(last, depth - 1))),
            }
        }
        if !params.contains(['M', 'X']) && self.rng.percent(1) {
            args.pop();
        }
        let piped = !args.is_empty() && self.rng.percent(30);
        Term::Call { name: name.into(), args, piped }
    }

    fn leaf(&mut self, sort: char) -> Term {
        let fitting: Vec<_> = self.variables.iter().filter(|(_, of)| *of == sort || sort == 'a').collect();
        if !fitting.is_empty() && !matches!(sort, 'M' | 'X') && self.rng.percent(40) {
            return Term::leaf(fitting[self.rng.below(fitting.len())].0.clone());
        }
        if sort == 'a' && self.has_dot && self.rng.percent(15) {
            return Term::leaf(".");
        }
        Term::leaf(self.rng.choose(terminals(sort)))
    }

    /// Generates `include` or `tpl`.
    fn nested(&mut self) -> Term {
        let (name, first) = if self.defines > 0 && self.rng.percent(50) {
            let define = self.rng.below(self.defines);
            ("include", Term::leaf(format!("\"t{}.{define}\"", self.number)))
        } else {
            // A nested template does not see the outer variables.
            let variables = std::mem::take(&mut self.variables);
            let outer = (self.in_range, self.has_dot);
            (self.in_range, self.has_dot) = (false, false);
            let body = self.statements(0, 2);
            self.variables = variables;
            (self.in_range, self.has_dot) = outer;
            ("tpl", Term::Literal(body))
        };
        let data = if self.rng.percent(80) { Term::leaf("$") } else { self.leaf('a') };
        Term::Call { name: name.into(), args: vec![first, data], piped: false }
    }

    fn values(&mut self) -> String {
        const TEXTS: &[&str] = &[
            r#""""#,
            r#""plain""#,
            r#""Two Words""#,
            r#""multi\nline\n""#,
            r#""12""#,
            r#""1.50""#,
            r#""{{ .Release.Name }}""#,
            r#""a=b,c=d""#,
            r#""ünï""#,
            r#"" lead""#,
            r#""yes""#,
            r#""0123""#,
            r#""x: y""#,
            r#""\u0007bell""#,
        ];
        const NUMBERS: &[&str] = &[
            "0",
            "1",
            "-1",
            "3",
            "2.5",
            "1e3",
            "1000000",
            "12345678",
            "0.00001",
            "-7.25",
            "9223372036854775807",
            "65536",
        ];
        const LISTS: &[&str] = &[
            "[]",
            "[1,2,3]",
            r#"["b","a"]"#,
            r#"[1,"a",null,true]"#,
            r#"[{"a":1},{"a":2}]"#,
            "[[1],[2,3]]",
            r#"[""]"#,
            "[1.5,2]",
        ];
        const MAPS: &[&str] = &[
            "{}",
            r#"{"a":1}"#,
            r#"{"a":"x","b":{"c":[1,2]}}"#,
            r#"{"a":{"b":{"c":"deep"}}}"#,
            r#"{"x":true,"Name":"n","10":1,"2":2}"#,
            r#"{"b":2.5,"c":"","long key":"v"}"#,
            r#"{"a":["p","q"],"c":false}"#,
        ];
        let mut out = String::from("{\"nul\":null");
        for (name, count, pool) in [
            ('s', 4, TEXTS),
            ('n', 4, NUMBERS),
            ('b', 2, &["true", "false"][..]),
            ('l', 3, LISTS),
            ('d', 3, MAPS),
        ] {
            for at in 0..count {
                write!(out, ",\"{name}{at}\":{}", self.rng.choose(pool)).unwrap();
            }
        }
        out + "}"
    }
}
