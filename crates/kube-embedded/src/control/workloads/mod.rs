//! From what people ask for to pods: the controllers of workloads, as a controller manager runs them.
//!
//! They share how pods are made and claimed (`pods`).

pub(crate) mod pods;

use super::Control;

pub(super) fn start(control: &mut Control) {
    let _ = control;
}
