//! Parallel generation of RSA keys.
//!
//! Finding a key takes between 20 and 300 milliseconds, because primes are searched at random. Therefore all processors search at the
//! same time, and the caller takes the first key found. Surplus keys are kept for later requests. No search starts before the first
//! request, and threads stop as soon as the number of keys announced by [`RsaKeyPool::announce`] is ready, so charts that could generate
//! keys but do not are not slowed down. The threads are detached: the process does not wait for them on exit.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use helm_template::value::Str;
use parking_lot::{Condvar, Mutex};

/// A pool of RSA keys.
#[derive(Default)]
pub struct RsaKeyPool {
    shared: Arc<PoolState>,
}

/// State shared with the search threads.
#[derive(Default)]
struct PoolState {
    by_bits: Mutex<HashMap<u32, KeyQueue>>,
    key_ready: Condvar,
}

/// Keys of one size.
#[derive(Default)]
struct KeyQueue {
    ready: Vec<Result<Vec<u8>, Str>>,
    /// The number of further requests announced.
    announced: usize,
    /// Callers that are waiting for a key.
    waiters: usize,
    /// Threads that are searching.
    generators: usize,
}

impl KeyQueue {
    /// The number of keys worth having: one per waiting caller, and the announced requests up to the number of processors, which is as
    /// much as parallelism gains.
    fn target_len(&self, processors: usize) -> usize {
        self.waiters.max(self.announced.min(processors))
    }
}

impl RsaKeyPool {
    /// Announces `count` requests for keys of this size. Starts nothing.
    pub fn announce(&self, bits: u32, count: usize) {
        let mut queues = self.shared.by_bits.lock();
        let queue = queues.entry(bits).or_default();
        queue.announced = queue.announced.max(count);
    }

    /// Returns a key, generated now or earlier. Blocks until one is found.
    pub fn take(&self, bits: u32) -> Result<Vec<u8>, Str> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let mut queues = self.shared.by_bits.lock();
        let queue = queues.entry(bits).or_default();
        queue.waiters += 1;
        while queue.ready.len() < queue.target_len(processors)
            && queue.generators < processors
            && self.spawn_generator(bits, processors)
        {
            queue.generators += 1;
        }
        if queue.ready.is_empty() && queue.generators == 0 {
            // No thread could be started: generate on this one.
            queue.waiters -= 1;
            drop(queues);
            return super::generate_rsa(bits);
        }
        loop {
            let queue = queues.entry(bits).or_default();
            if let Some(key) = queue.ready.pop() {
                queue.waiters -= 1;
                queue.announced = queue.announced.saturating_sub(1);
                return key;
            }
            self.shared.key_ready.wait(&mut queues);
        }
    }

    /// Starts a search thread. Returns false if no thread could be started.
    fn spawn_generator(&self, bits: u32, processors: usize) -> bool {
        let shared = Arc::clone(&self.shared);
        let look = move || {
            loop {
                let key = super::generate_rsa(bits);
                let mut queues = shared.by_bits.lock();
                let queue = queues.entry(bits).or_default();
                queue.ready.push(key);
                shared.key_ready.notify_all();
                if queue.ready.len() >= queue.target_len(processors) {
                    queue.generators -= 1;
                    return;
                }
            }
        };
        thread::Builder::new().name("keys".into()).spawn(look).is_ok()
    }
}
