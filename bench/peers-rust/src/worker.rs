//! A worker of timely on the thread that calls it.

use timely::WorkerConfig;
use timely::communication::Allocator;
use timely::communication::allocator::thread::Thread;
use timely::worker::Worker;

/// Makes a worker. `timely::execute_directly` makes one for a closure that borrows nothing.
pub fn new() -> Worker {
    Worker::new(
        WorkerConfig::default(),
        Allocator::Thread(Thread::default()),
        None,
    )
}
