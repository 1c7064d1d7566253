//! The thread that advances the high-water mark, and answers writers after that.
//!
//! It runs beside the sequencer: while it syncs the mark of one group, the next group is written. Several groups that wait
//! share one sync.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::Shared;
use super::mark::{Commit, Mark};
use super::sequencer::{Tell, Unwritten, tell};

/// Groups that may wait for the mark.
const QUEUE: usize = 16;

/// A group in the file whose writers wait.
pub(super) struct Written {
    pub commit: Commit,
    pub answers: Vec<Tell>,
}

/// The marker's thread. Dropping it waits for the last answer.
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

    /// Answers the writers of a group when the mark covers it.
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

/// The mark has its blocks, but a file system that copies on write needs new ones.
fn advance(mark: &Mark, shared: &Shared, commit: Commit) -> std::io::Result<()> {
    match mark.advance(commit) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull && shared.release_reserve() => {
            mark.advance(commit)
        }
        advanced => advanced,
    }
}
