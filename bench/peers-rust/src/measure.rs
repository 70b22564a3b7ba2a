//! The time of one run, and how it is printed.

use std::time::Instant;

/// A run of a job, for a number of events.
pub struct Sample {
    events: usize,
    wall: f64, // ns, as processor
    processor: f64,
}

impl Sample {
    /// Measures a part of a run: what the job in Go measures.
    pub fn of(events: usize, work: impl FnOnce()) -> Self {
        let (start, used) = (Instant::now(), processor_time());
        work();
        Sample {
            events,
            processor: processor_time() - used,
            wall: start.elapsed().as_nanos() as f64,
        }
    }

    /// Prints the sample as `go test -bench` prints one.
    pub fn print(&self, name: &str) {
        let events = self.events as f64;
        println!(
            "Benchmark{name} 1 {} wall-ns/event {} cpu-ns/event",
            self.wall / events,
            self.processor / events
        );
    }
}

/// The processor time that this process has used, in ns.
fn processor_time() -> f64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on every system that Rust calls Unix, and t is ours.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    assert_eq!(failed, 0, "no clock of processor time");
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
