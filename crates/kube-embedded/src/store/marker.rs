//! The marker thread: advances the high-water mark, then answers the writers.
//!
//! It runs in parallel to the sequencer: while it syncs the mark of one group, the next group is written. Several waiting groups
//! share one sync.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::Shared;
use super::mark::{Commit, Mark};
use super::sequencer::{Tell, Unwritten, tell};

/// Capacity of the queue of groups that wait for the mark.
const QUEUE: usize = 16;

/// A written group whose writers wait for an answer.
pub(super) struct Written {
    pub commit: Commit,
    pub answers: Vec<Tell>,
}

/// Handle of the marker thread. Dropping it waits for the last answer.
pub(super) struct Marker {
    queue: Option<SyncSender<Written>>,
    thread: Option<JoinHandle<()>>,
}

impl Marker {
    pub fn start(mark: Mark, shared: Arc<Shared>) -> std::io::Result<Self> {
        let (queue, written) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("store-mark".to_owned());
        let thread = thread.spawn(move || run(&mark, &shared, &written))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Answers the writers of a group once the mark covers it.
    pub fn acknowledge(&self, written: Written) {
        let unsent = match &self.queue {
            Some(queue) => queue.send(written).err().map(|unsent| unsent.0),
            None => Some(written),
        };
        if let Some(written) = unsent {
            tell(written.answers, &Err(Unwritten::Unknown("the store's mark cannot be written".to_owned())));
        }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // panics of callbacks are caught
        }
    }
}

fn run(mark: &Mark, shared: &Shared, written: &Receiver<Written>) {
    while let Ok(Written { mut commit, mut answers }) = written.recv() {
        while let Ok(next) = written.try_recv() {
            commit = next.commit;
            answers.extend(next.answers);
        }
        let outcome = advance(mark, shared, commit).map_err(|error| {
            let why = format!("the store's mark cannot be written: {error}");
            shared.fail(&why);
            Unwritten::Unknown(why)
        });
        tell(answers, &outcome);
    }
}

/// The mark's blocks are allocated, but a copy-on-write file system needs new ones.
fn advance(mark: &Mark, shared: &Shared, commit: Commit) -> std::io::Result<()> {
    match mark.advance(commit) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull && shared.release_reserve() => {
            mark.advance(commit)
        }
        advanced => advanced,
    }
}
