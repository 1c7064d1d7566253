//! The watermark thread: advances the high-water mark, then replies to the writers.
//!
//! It runs in parallel to the sequencer: while it syncs the mark of one group, the next group is written. Several waiting groups
//! share one sync.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::Shared;
use super::sequencer::{GroupWriteError, ReplyFn, reply_all};
use super::watermark::{Commit, Watermark};

/// Capacity of the queue of groups that wait for the mark.
const QUEUE_CAPACITY: usize = 16;

/// A written group whose writers wait for a reply.
pub(super) struct WrittenGroup {
    pub commit: Commit,
    pub replies: Vec<ReplyFn>,
}

/// Handle of the watermark thread. Dropping it waits for the last reply.
pub(super) struct WatermarkWriter {
    queue: Option<SyncSender<WrittenGroup>>,
    thread: Option<JoinHandle<()>>,
}

impl WatermarkWriter {
    pub fn start(mark: Watermark, shared: Arc<Shared>) -> std::io::Result<Self> {
        let (queue, written) = sync_channel(QUEUE_CAPACITY);
        let thread = std::thread::Builder::new().name("store-mark".to_owned());
        let thread = thread.spawn(move || run(&mark, &shared, &written))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Replies to the writers of a group once the mark covers it.
    pub fn acknowledge(&self, written: WrittenGroup) {
        let unsent = match &self.queue {
            Some(queue) => queue.send(written).err().map(|unsent| unsent.0),
            None => Some(written),
        };
        if let Some(written) = unsent {
            reply_all(
                written.replies,
                &Err(GroupWriteError::OutcomeUnknown("the store's mark cannot be written".to_owned())),
            );
        }
    }
}

impl Drop for WatermarkWriter {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // panics of callbacks are caught
        }
    }
}

fn run(mark: &Watermark, shared: &Shared, written: &Receiver<WrittenGroup>) {
    while let Ok(WrittenGroup { mut commit, replies: mut answers }) = written.recv() {
        while let Ok(next) = written.try_recv() {
            commit = next.commit;
            answers.extend(next.replies);
        }
        let began = Instant::now();
        let outcome = advance(mark, shared, commit);
        shared.durations.mark.observe(began.elapsed().as_secs_f64());
        let outcome = outcome.map_err(|error| {
            let why = format!("the store's mark cannot be written: {error}");
            shared.fail(&why);
            GroupWriteError::OutcomeUnknown(why)
        });
        reply_all(answers, &outcome);
    }
}

/// The mark's blocks are allocated, but a copy-on-write file system needs new ones.
fn advance(mark: &Watermark, shared: &Shared, commit: Commit) -> std::io::Result<()> {
    match mark.advance(commit) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull && shared.release_reserve() => {
            mark.advance(commit)
        }
        advanced => advanced,
    }
}
