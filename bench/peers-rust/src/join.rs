//! Join: elements are looked up in a table that may change.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use dfir_rs::dfir_syntax;
use dfir_rs::util::unsync::mpsc;
use rustc_hash::FxHashMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandleVec;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Inspect;
use timely::dataflow::operators::generic::Operator;
use timely::dataflow::operators::vec::Input;

use crate::data;
use crate::measure::Sample;
use crate::params::Params;
use crate::{Run, worker};

const BATCH: usize = 256;

pub fn prepare(params: &Params, form: &str) -> Option<Run> {
    let keys = params.number("keys")? as u64;
    let (asked, want) = data::asked(keys);
    let run: fn(u64, &[u64], &Cell<u64>) -> Sample = match form {
        "rust-loop" => by_loop,
        "dfir" => dfir,
        "timely" => timely,
        _ => return None,
    };
    Some(Box::new(move || {
        let sum = Cell::new(0);
        let sample = run(keys, &asked, &sum);
        assert_eq!(sum.get(), want, "the sum of the prices");
        sample
    }))
}

/// The prices, in the order in which they are put into the table.
fn prices(keys: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..keys).map(|i| (data::spread(i), i))
}

fn add(sum: &Cell<u64>, price: u64) {
    sum.set(sum.get().wrapping_add(price));
}

fn by_loop(keys: u64, asked: &[u64], sum: &Cell<u64>) -> Sample {
    let mut table = FxHashMap::default();
    for (key, price) in prices(keys) {
        table.insert(key, price);
    }
    Sample::of(asked.len(), || {
        for key in asked {
            if let Some(&price) = table.get(key) {
                add(sum, price);
            }
        }
    })
}

/// The table is shared by two closures. DFIR's own `join_multiset_half` keeps a list of values for
/// each key and makes a list for each element: with 1,000 keys it takes five times as long.
fn dfir(keys: u64, asked: &[u64], sum: &Cell<u64>) -> Sample {
    let table = RefCell::new(FxHashMap::default());
    let (change, changes) = mpsc::unbounded::<(u64, u64)>();
    let (send, receive) = mpsc::unbounded::<Vec<u64>>();
    let mut flow = dfir_syntax! {
        source_stream(changes)
            -> for_each(|(key, price): (u64, u64)| { table.borrow_mut().insert(key, price); });
        source_stream(receive)
            -> flatten()
            -> filter_map(|key: u64| table.borrow().get(&key).copied())
            -> for_each(|price: u64| add(sum, price));
    };
    for entry in prices(keys) {
        change.try_send(entry).unwrap();
    }
    flow.run_tick_sync();
    Sample::of(asked.len(), || {
        for part in asked.chunks(BATCH) {
            send.try_send(part.to_vec()).unwrap();
            flow.run_tick_sync();
        }
    })
}

/// Timely has no join. An operator with two inputs keeps the table.
fn timely(keys: u64, asked: &[u64], sum: &Cell<u64>) -> Sample {
    let mut worker = worker::new();
    let total = Rc::new(Cell::new(0));
    let mut changes = InputHandleVec::<u64, (u64, u64)>::new();
    let mut input = InputHandleVec::<u64, u64>::new();
    worker.dataflow(|scope| {
        let total = total.clone();
        let changed = scope.input_from(&mut changes);
        let requests = scope.input_from(&mut input);
        changed
            .binary::<_, CapacityContainerBuilder<Vec<u64>>, _, _, _, _>(
                requests,
                Pipeline,
                Pipeline,
                "join",
                |_, _| {
                    let mut table = FxHashMap::default();
                    move |changed, requests, output| {
                        changed.for_each_stamp(|_, parts| {
                            table.extend(parts.flat_map(|part| part.drain(..)));
                        });
                        requests.for_each_stamp(|time, parts| {
                            let mut session = output.session(&time);
                            for key in parts.flat_map(|part| part.drain(..)) {
                                if let Some(&price) = table.get(&key) {
                                    session.give(price);
                                }
                            }
                        });
                    }
                },
            )
            .inspect(move |&price| add(&total, price));
    });
    for entry in prices(keys) {
        changes.send(entry);
    }
    changes.flush();
    worker.step();
    let sample = Sample::of(asked.len(), || {
        for part in asked.chunks(BATCH) {
            input.send_batch(&mut part.to_vec());
            worker.step();
        }
    });
    sum.set(total.get());
    sample
}
