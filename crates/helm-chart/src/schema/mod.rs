//! `values.schema.json`.

use helm_template::profile::Profile;
use helm_template::value::{Map, Str};

use crate::chart::Chart;
use crate::values::Warning;

pub fn check(
    _chart: &Chart,
    _values: &Map,
    _profile: Profile,
    _warnings: &mut Vec<Warning>,
) -> Result<(), Str> {
    Ok(())
}
