//! Arguments shared by several of Helm's commands.

use std::io::Read;

use clap::builder::{BoolValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use helm_chart::set::SetFlag;
use helm_chart::values::{ValuesSource, user_values};
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Str;

/// The Helm version to follow.
#[derive(Clone, Debug, Args)]
pub struct HelmArg {
    /// Behave like Helm 3.17 or Helm 4.3
    #[arg(long = "helm", value_name = "3|4", default_value = "4", value_parser = generation())]
    pub profile: Profile,
}

fn generation() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(["3", "4"])
        .map(|word| if word == "3" { Profile::Helm3 } else { Profile::Helm4 })
}

/// A flag that also accepts `--flag=false`, as all of Helm's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch(pub bool);

/// Value parser of a [`Switch`].
pub fn switch() -> impl TypedValueParser<Value = Switch> {
    GoBoolParser.map(Switch)
}

/// Parses Go's boolean literals.
#[derive(Clone)]
struct GoBoolParser;

impl TypedValueParser for GoBoolParser {
    type Value = bool;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<bool, clap::Error> {
        match value.to_str() {
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            // For clap's error message.
            _ => BoolValueParser::new().parse_ref(command, arg, value),
        }
    }
}

/// Values given on the command line.
#[derive(Clone, Debug, Default, Args)]
pub struct ValuesArgs {
    /// YAML file with values, or `-` for standard input; may be repeated
    #[arg(short = 'f', long = "values", value_name = "FILE", value_delimiter = ',', action = ArgAction::Append)]
    pub files: Vec<String>,
    /// Set values; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true, action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Set string values; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true, action = ArgAction::Append)]
    pub set_string: Vec<String>,
    /// Set values to the contents of files; may be repeated
    #[arg(long, value_name = "KEY=FILE", allow_hyphen_values = true, action = ArgAction::Append)]
    pub set_file: Vec<String>,
    /// Set JSON values; may be repeated
    #[arg(long, value_name = "KEY=JSON", allow_hyphen_values = true, action = ArgAction::Append)]
    pub set_json: Vec<String>,
    /// Set a literal string value, without parsing separators; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true, action = ArgAction::Append)]
    pub set_literal: Vec<String>,
}

impl ValuesArgs {
    /// Reads and merges all given values.
    pub fn read(&self, profile: Profile) -> Result<Members, String> {
        Self::merge(&self.sources()?, profile)
    }

    /// Merges sources that were read already.
    pub fn merge(sources: &[ValuesSource], profile: Profile) -> Result<Members, String> {
        user_values(sources, profile, &mut read_text_file).map_err(|why| why.to_string())
    }

    /// Reads the given sources in order.
    pub fn sources(&self) -> Result<Vec<ValuesSource>, String> {
        let mut sources = Vec::new();
        for name in &self.files {
            sources.push(ValuesSource::File { name: name.as_str().into(), text: read_file(name)?.into() });
        }
        let kinds = [
            (SetFlag::Json, &self.set_json),
            (SetFlag::Typed, &self.set),
            (SetFlag::Text, &self.set_string),
            (SetFlag::File, &self.set_file),
            (SetFlag::Literal, &self.set_literal),
        ];
        for (kind, lines) in kinds {
            sources.extend(lines.iter().map(|line| ValuesSource::Set(kind, line.as_str().into())));
        }
        Ok(sources)
    }
}

/// Content of a file as text.
pub fn read_text_file(name: &str) -> Result<Str, Str> {
    Ok(Str::from(String::from_utf8_lossy(&read_file(name)?)))
}

/// Content of a file, or of standard input for `-`.
fn read_file(name: &str) -> Result<Vec<u8>, String> {
    let name = name.trim();
    if name == "-" {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text).map_err(|error| error.to_string())?;
        return Ok(text);
    }
    std::fs::read(name).map_err(|error| format!("open {name}: {}", go_io_error(&error)))
}

/// I/O error message as Go prints it: without the number, and in lower case.
pub fn go_io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
