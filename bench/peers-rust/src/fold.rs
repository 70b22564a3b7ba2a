//! `FoldEarlyStop`: the third of five votes completes a request.

use std::cell::Cell;
use std::rc::Rc;

use dfir_rs::dfir_syntax;
use dfir_rs::util::unsync::mpsc;
use rustc_hash::FxHashMap;
use timely::dataflow::InputHandleVec;
use timely::dataflow::operators::Inspect;
use timely::dataflow::operators::vec::{Filter, Input};

use crate::data::{self, QUORUM, REQUESTS, Request, Vote};
use crate::measure::Sample;
use crate::params::Params;
use crate::{Run, worker};

/// The states of all requests. Neither engine has an operator that folds by key and ends early: both
/// call a closure over this.
#[derive(Default)]
struct Ballots(FxHashMap<Request, u8>);

const DONE: u8 = 0x80;

impl Ballots {
    /// Counts a vote and reports whether it completes its request.
    fn complete(&mut self, vote: &Vote) -> bool {
        let state = self.0.entry(vote.request).or_default();
        if *state & DONE != 0 {
            return false;
        }
        *state |= 1 << vote.replica;
        if state.count_ones() < QUORUM {
            return false;
        }
        *state |= DONE;
        true
    }
}

pub fn prepare(params: &Params, form: &str) -> Option<Run> {
    let votes = data::votes(params.number("inflight")?);
    let batch = params.number("batch")?;
    let run: fn(&[Vote], usize, &Cell<usize>) -> Sample = match form {
        "rust-loop" => by_loop,
        "dfir" if batch == 1 => dfir_one_at_a_time,
        "dfir" => dfir,
        "timely" => timely,
        _ => return None,
    };
    Some(Box::new(move || {
        let completed = Cell::new(0);
        let sample = run(&votes, batch, &completed);
        assert_eq!(completed.get(), REQUESTS, "the number of requests");
        sample
    }))
}

fn count(completed: &Cell<usize>) {
    completed.set(completed.get() + 1);
}

fn by_loop(votes: &[Vote], _: usize, completed: &Cell<usize>) -> Sample {
    let mut ballots = Ballots::default();
    Sample::of(votes.len(), || {
        for vote in votes {
            if ballots.complete(vote) {
                count(completed);
            }
        }
    })
}

fn dfir(votes: &[Vote], batch: usize, completed: &Cell<usize>) -> Sample {
    let mut ballots = Ballots::default();
    let (send, receive) = mpsc::unbounded::<Vec<Vote>>();
    let mut flow = dfir_syntax! {
        source_stream(receive)
            -> flatten()
            -> filter(|vote| ballots.complete(vote))
            -> map(|vote| vote.request)
            -> for_each(|_: Request| count(completed));
    };
    Sample::of(votes.len(), || {
        for part in votes.chunks(batch) {
            send.try_send(part.to_vec()).unwrap();
            flow.run_tick_sync();
        }
    })
}

fn dfir_one_at_a_time(votes: &[Vote], _: usize, completed: &Cell<usize>) -> Sample {
    let mut ballots = Ballots::default();
    let (send, receive) = mpsc::unbounded::<Vote>();
    let mut flow = dfir_syntax! {
        source_stream(receive)
            -> filter(|vote| ballots.complete(vote))
            -> map(|vote| vote.request)
            -> for_each(|_: Request| count(completed));
    };
    Sample::of(votes.len(), || {
        for &vote in votes {
            send.try_send(vote).unwrap();
            flow.run_tick_sync();
        }
    })
}

fn timely(votes: &[Vote], batch: usize, completed: &Cell<usize>) -> Sample {
    let mut worker = worker::new();
    let total = Rc::new(Cell::new(0));
    let mut input = InputHandleVec::<u64, Vote>::new();
    worker.dataflow(|scope| {
        let mut ballots = Ballots::default();
        let total = total.clone();
        scope
            .input_from(&mut input)
            .filter(move |vote| ballots.complete(vote))
            .inspect(move |_| count(&total));
    });
    let sample = Sample::of(votes.len(), || {
        for part in votes.chunks(batch) {
            input.send_batch(&mut part.to_vec());
            worker.step();
        }
    });
    completed.set(total.get());
    sample
}
