//! First: the first element of each key. An element is its own key.

use std::cell::Cell;
use std::hash::Hash;
use std::rc::Rc;

use dfir_rs::dfir_syntax;
use dfir_rs::util::unsync::mpsc;
use rustc_hash::FxHashSet;
use timely::dataflow::InputHandleVec;
use timely::dataflow::operators::Inspect;
use timely::dataflow::operators::vec::{Filter, Input};

use crate::data::{self, DISTINCT_KEYS};
use crate::measure::Sample;
use crate::params::Params;
use crate::{Run, worker};

const BATCH: usize = 256;

/// A key that is copied for each element, as in Go.
trait Key: Copy + Eq + Hash + 'static {}

impl<K: Copy + Eq + Hash + 'static> Key for K {}

pub fn prepare(params: &Params, form: &str) -> Option<Run> {
    let keys = params.get("keys");
    let distinct = keys == "5M";
    let count = if distinct {
        DISTINCT_KEYS
    } else {
        keys.parse().ok()?
    };
    match params.get("key") {
        "uint64" => prepared(data::word_keys(count), distinct, form),
        "struct" => prepared(data::request_keys(count), distinct, form),
        "string" => prepared(data::text_keys(count), distinct, form),
        _ => None,
    }
}

fn prepared<K: Key>(keys: Vec<K>, distinct: bool, form: &str) -> Option<Run> {
    let want = keys.len();
    let events = if distinct { keys } else { data::drawn(&keys) };
    let run: fn(&[K], &Cell<usize>) -> Sample = match form {
        "rust-loop" => by_loop,
        "dfir" => dfir,
        "timely" => timely,
        _ => return None,
    };
    Some(Box::new(move || {
        let found = Cell::new(0);
        let sample = run(&events, &found);
        assert_eq!(found.get(), want, "the number of keys");
        sample
    }))
}

fn count(found: &Cell<usize>) {
    found.set(found.get() + 1);
}

fn by_loop<K: Key>(events: &[K], found: &Cell<usize>) -> Sample {
    let mut seen = FxHashSet::default();
    Sample::of(events.len(), || {
        for &k in events {
            if seen.insert(k) {
                count(found);
            }
        }
    })
}

/// `unique` uses rustc-hash 1 and looks up a new key twice. A filter with a set of rustc-hash 2, as
/// for timely, takes a tenth less.
fn dfir<K: Key>(events: &[K], found: &Cell<usize>) -> Sample {
    let (send, receive) = mpsc::unbounded::<Vec<K>>();
    let mut flow = dfir_syntax! {
        source_stream(receive)
            -> flatten()
            -> unique::<'static>()
            -> for_each(|_: K| count(found));
    };
    Sample::of(events.len(), || {
        for part in events.chunks(BATCH) {
            send.try_send(part.to_vec()).unwrap();
            flow.run_tick_sync();
        }
    })
}

/// Timely has no operator that remembers keys: a filter has a set of its own.
fn timely<K: Key>(events: &[K], found: &Cell<usize>) -> Sample {
    let mut worker = worker::new();
    let total = Rc::new(Cell::new(0));
    let mut input = InputHandleVec::<u64, K>::new();
    worker.dataflow(|scope| {
        let mut seen = FxHashSet::default();
        let total = total.clone();
        scope
            .input_from(&mut input)
            .filter(move |&k| seen.insert(k))
            .inspect(move |_| count(&total));
    });
    let sample = Sample::of(events.len(), || {
        for part in events.chunks(BATCH) {
            input.send_batch(&mut part.to_vec());
            worker.step();
        }
    });
    found.set(total.get());
    sample
}
