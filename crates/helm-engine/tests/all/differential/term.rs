//! Templates as syntax trees, which can be minimized.

use std::fmt::Write;

#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    // Expressions.
    /// Verbatim: a literal, a variable, a path.
    Leaf(String),
    /// A function call; `piped` passes the last argument through a pipe.
    Call {
        name: String,
        args: Vec<Term>,
        piped: bool,
    },
    /// `(of).path`
    Field {
        of: Box<Term>,
        path: String,
    },
    /// A template in a string literal, for `tpl`.
    Literal(Vec<Term>),

    // Statements.
    Text(String),
    /// `{{ value }}` with an optional prefix such as `$x :=` or `template "x"`. `trim`: whitespace on the left, on
    /// the right.
    Action {
        before: String,
        value: Box<Term>,
        trim: (bool, bool),
    },
    /// `if`, `with` or `range` with an optional prefix before the value: `$i, $v :=`.
    Block {
        word: &'static str,
        before: String,
        value: Box<Term>,
        body: Vec<Term>,
        otherwise: Option<Vec<Term>>,
    },
}

/// Formats a list of statements.
pub fn text(terms: &[Term]) -> String {
    let mut out = String::new();
    for term in terms {
        term.write(&mut out);
    }
    out
}

impl Term {
    pub fn leaf(text: impl Into<String>) -> Self {
        Self::Leaf(text.into())
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Action { before, value, trim } => {
                let (left, right) = (if trim.0 { "- " } else { " " }, if trim.1 { " -" } else { " " });
                write!(out, "{{{{{left}{before}{}{right}}}}}", value.pipeline_text()).unwrap();
            }
            Self::Block { word, before, value, body, otherwise } => {
                write!(out, "{{{{ {word} {before}{} }}}}{}", value.pipeline_text(), text(body)).unwrap();
                if let Some(otherwise) = otherwise {
                    write!(out, "{{{{ else }}}}{}", text(otherwise)).unwrap();
                }
                out.push_str("{{ end }}");
            }
            expression => out.push_str(&expression.argument_text()),
        }
    }

    /// Formats as a whole pipeline.
    fn pipeline_text(&self) -> String {
        match self {
            Self::Call { name, args, piped: true } if !args.is_empty() => {
                let (last, others) = args.split_last().expect("it is not empty");
                format!("{} | {name}{}", last.pipeline_text(), argument_texts(others))
            }
            Self::Call { name, args, .. } => format!("{name}{}", argument_texts(args)),
            other => other.argument_text(),
        }
    }

    /// Formats as one argument.
    fn argument_text(&self) -> String {
        match self {
            Self::Leaf(text) => text.clone(),
            Self::Call { name, args, .. } if args.is_empty() => name.clone(),
            Self::Call { .. } => format!("({})", self.pipeline_text()),
            Self::Field { of, path } => format!("({}).{path}", of.pipeline_text()),
            Self::Literal(terms) => {
                let text = text(terms);
                if text.contains('`') { helm_template::go::quote(&text) } else { format!("`{text}`") }
            }
            statement => text(std::slice::from_ref(statement)),
        }
    }

    /// Variants with one element less.
    fn smaller(&self) -> Vec<Term> {
        let mut all = Vec::new();
        match self {
            Self::Leaf(_) => {}
            Self::Text(text) => {
                if text.len() > 1 {
                    all.push(Self::Text("a".into()));
                }
            }
            Self::Call { name, args, piped } => {
                all.extend(args.iter().cloned());
                all.push(Self::leaf("1"));
                all.push(Self::leaf("\"\""));
                if *piped {
                    all.push(Self::Call { name: name.clone(), args: args.clone(), piped: false });
                }
                all.extend(smaller(args).into_iter().map(|args| Self::Call {
                    name: name.clone(),
                    args,
                    piped: *piped,
                }));
            }
            Self::Field { of, path } => {
                all.push((**of).clone());
                all.extend(
                    of.smaller().into_iter().map(|of| Self::Field { of: Box::new(of), path: path.clone() }),
                );
            }
            Self::Literal(terms) => all.extend(smaller(terms).into_iter().map(Self::Literal)),
            Self::Action { before, value, trim } => {
                let with =
                    |value: Term, trim| Self::Action { before: before.clone(), value: value.into(), trim };
                if *trim != (false, false) {
                    all.push(with((**value).clone(), (false, false)));
                }
                all.extend(value.smaller().into_iter().map(|value| with(value, *trim)));
            }
            Self::Block { word, before, value, body, otherwise } => {
                let with = |value: Term, body: Vec<Term>, otherwise: Option<Vec<Term>>| Self::Block {
                    word,
                    before: before.clone(),
                    value: value.into(),
                    body,
                    otherwise,
                };
                if otherwise.is_some() {
                    all.push(with((**value).clone(), body.clone(), None));
                }
                let values = value.smaller().into_iter();
                all.extend(values.map(|value| with(value, body.clone(), otherwise.clone())));
                let bodies = smaller(body).into_iter();
                all.extend(bodies.map(|body| with((**value).clone(), body, otherwise.clone())));
                if let Some(terms) = otherwise {
                    let others = smaller(terms).into_iter();
                    all.extend(others.map(|terms| with((**value).clone(), body.clone(), Some(terms))));
                }
            }
        }
        all
    }
}

fn argument_texts(terms: &[Term]) -> String {
    terms.iter().fold(String::new(), |words, term| words + " " + &term.argument_text())
}

/// All lists with one element less.
pub fn smaller(terms: &[Term]) -> Vec<Vec<Term>> {
    let mut all = Vec::new();
    for at in 0..terms.len() {
        let with = |replacement: &[Term]| {
            let mut list = terms.to_vec();
            list.splice(at..=at, replacement.iter().cloned());
            list
        };
        all.push(with(&[]));
        if let Term::Block { body, .. } = &terms[at] {
            all.push(with(body));
        }
        all.extend(terms[at].smaller().into_iter().map(|term| with(&[term])));
    }
    all
}
