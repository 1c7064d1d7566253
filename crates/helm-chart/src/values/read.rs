//! Parses a values file.

use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

use super::layers::overlay;

const TABLE: &str = "map[string]interface {}";

/// Parses values: one document in Helm 3; in Helm 4 all documents, merged in order.
pub fn read(text: &[u8], profile: Profile) -> Result<Members, Str> {
    if profile == Profile::Helm3 {
        return yaml::parse_map(text, TABLE);
    }
    let mut values = Members::new();
    for document in yaml::documents(text) {
        let document = document.map_err(|why| Str::from(format!("error reading yaml document: {why}")))?;
        let over = yaml::parse_map(&document, TABLE)
            .map_err(|why| Str::from(format!("cannot unmarshal yaml document: {why}")))?;
        overlay(&mut values, over);
    }
    Ok(values)
}
