//! Memory admission of a rendering by the pool that runs it.

use std::cell::Cell;

use governor::work::{WorkContext, WorkError};
use helm_template::budget::Admission;
use helm_template::value::Str;

/// Reserves the memory of a budget on the ticket of the work. Stores the first failure, because the engine reports it
/// as an error of the chart.
pub struct PoolAdmission<'t> {
    ticket: &'t WorkContext,
    failure: Cell<Option<WorkError>>,
}

impl<'t> PoolAdmission<'t> {
    pub fn new(ticket: &'t WorkContext) -> Self {
        Self { ticket, failure: Cell::new(None) }
    }

    /// The first failure, if a reservation or check failed.
    pub fn failure(&self) -> Option<WorkError> {
        self.failure.get()
    }

    pub(super) fn ticket(&self) -> &'t WorkContext {
        self.ticket
    }

    /// Stores a failure and formats it for the engine.
    pub(super) fn fail(&self, error: WorkError) -> Str {
        if self.failure.get().is_none() {
            self.failure.set(Some(error));
        }
        error.to_string().into()
    }
}

impl Admission for PoolAdmission<'_> {
    fn reserve(&self, bytes: u64) -> Result<(), Str> {
        self.ticket.reserve(bytes).map_err(|rejected| self.fail(rejected.into()))
    }

    fn check(&self) -> Result<(), Str> {
        self.ticket.check().map_err(|interrupted| self.fail(interrupted.into()))
    }
}
