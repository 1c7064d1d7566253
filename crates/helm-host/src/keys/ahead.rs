//! Keys of RSA, made by as many threads as there are processors.
//!
//! To find one takes anything between 20 and 300 milliseconds, because primes are looked for by chance. So nobody looks
//! alone: all processors look for a key each, and who asked takes the first that is found. What the others find is
//! kept for the next who asks. Nothing is looked for before somebody asks, and no further than [`Ahead::expect`] said
//! will be needed, so that charts that could make keys and do not are not slowed down. The threads are nobody's: the
//! process does not wait for them when it ends.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use helm_template::value::Str;
use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub struct Ahead {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    by_bits: Mutex<HashMap<u32, Queue>>,
    found: Condvar,
}

/// Keys of one size.
#[derive(Default)]
struct Queue {
    ready: Vec<Result<Vec<u8>, Str>>,
    /// So many more will be asked for, as far as is known.
    expected: usize,
    /// Who waits for a key now.
    waiting: usize,
    /// Threads that look for keys now.
    looking: usize,
}

impl Queue {
    /// How many keys are worth having: for those who wait, and for those who will ask; but not more ahead than there
    /// are processors, because that is as much as can be gained.
    fn wanted(&self, processors: usize) -> usize {
        self.waiting.max(self.expected.min(processors))
    }
}

impl Ahead {
    pub fn expect(&self, bits: u32, count: usize) {
        let mut queues = self.shared.by_bits.lock();
        let queue = queues.entry(bits).or_default();
        queue.expected = queue.expected.max(count);
    }

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
            // No thread to be had: then here.
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

    /// Whether another thread could be started.
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
