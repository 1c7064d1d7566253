//! Parallel generation of RSA keys.
//!
//! Finding a key takes between 20 and 300 milliseconds, because primes are searched at random. Therefore all processors search at the
//! same time, and the caller takes the first key found. Surplus keys are kept for later requests. No search starts before the first
//! request, and threads stop as soon as the number of keys announced by [`Ahead::expect`] is ready, so charts that could generate keys
//! but do not are not slowed down. The threads are detached: the process does not wait for them on exit.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use helm_template::value::Str;
use parking_lot::{Condvar, Mutex};

/// A pool of RSA keys.
#[derive(Default)]
pub struct Ahead {
    shared: Arc<Shared>,
}

/// State shared with the search threads.
#[derive(Default)]
struct Shared {
    by_bits: Mutex<HashMap<u32, Queue>>,
    found: Condvar,
}

/// Keys of one size.
#[derive(Default)]
struct Queue {
    ready: Vec<Result<Vec<u8>, Str>>,
    /// The number of further requests announced.
    expected: usize,
    /// Callers that are waiting for a key.
    waiting: usize,
    /// Threads that are searching.
    looking: usize,
}

impl Queue {
    /// The number of keys worth having: one per waiting caller, and the announced requests up to the number of processors, which is as
    /// much as parallelism gains.
    fn wanted(&self, processors: usize) -> usize {
        self.waiting.max(self.expected.min(processors))
    }
}

impl Ahead {
    /// Announces `count` requests for keys of this size. Starts nothing.
    pub fn expect(&self, bits: u32, count: usize) {
        let mut queues = self.shared.by_bits.lock();
        let queue = queues.entry(bits).or_default();
        queue.expected = queue.expected.max(count);
    }

    /// Returns a key, generated now or earlier. Blocks until one is found.
    pub fn take(&self, bits: u32) -> Result<Vec<u8>, Str> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let mut queues = self.shared.by_bits.lock();
        let queue = queues.entry(bits).or_default();
        queue.waiting += 1;
        while queue.ready.len() < queue.wanted(processors)
            && queue.looking < processors
            && self.look(bits, processors)
        {
            queue.looking += 1;
        }
        if queue.ready.is_empty() && queue.looking == 0 {
            // No thread could be started: generate on this one.
            queue.waiting -= 1;
            drop(queues);
            return super::new_rsa(bits);
        }
        loop {
            let queue = queues.entry(bits).or_default();
            if let Some(key) = queue.ready.pop() {
                queue.waiting -= 1;
                queue.expected = queue.expected.saturating_sub(1);
                return key;
            }
            self.shared.found.wait(&mut queues);
        }
    }

    /// Starts a search thread. Returns false if no thread could be started.
    fn look(&self, bits: u32, processors: usize) -> bool {
        let shared = Arc::clone(&self.shared);
        let look = move || {
            loop {
                let key = super::new_rsa(bits);
                let mut queues = shared.by_bits.lock();
                let queue = queues.entry(bits).or_default();
                queue.ready.push(key);
                shared.found.notify_all();
                if queue.ready.len() >= queue.wanted(processors) {
                    queue.looking -= 1;
                    return;
                }
            }
        };
        thread::Builder::new().name("keys".into()).spawn(look).is_ok()
    }
}
