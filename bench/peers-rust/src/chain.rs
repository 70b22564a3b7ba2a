//! Chain: map → filter → map → sum over ints.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

use dfir_rs::dfir_syntax;
use dfir_rs::util::unsync::mpsc;
use timely::dataflow::InputHandleVec;
use timely::dataflow::operators::Inspect;
use timely::dataflow::operators::vec::{Filter, Input, Map};

use crate::data::{self, CHAIN_BLOCKS};
use crate::measure::Sample;
use crate::params::Params;
use crate::{Run, worker};

/// The user's functions. The compiler inlines them, but their constants are unknown to it.
#[derive(Clone, Copy)]
struct Functions {
    k: i64,
    x: i64,
    mask: i64,
}

impl Functions {
    fn scale(self, i: i64) -> i64 {
        i.wrapping_mul(self.k).wrapping_add(1)
    }

    fn keep(self, y: i64) -> bool {
        y & self.mask != 0
    }

    fn mix(self, y: i64) -> i64 {
        y ^ self.x
    }

    fn sum(self, ints: &[i64]) -> i64 {
        let mut sum = 0_i64;
        for &i in ints {
            let y = self.scale(i);
            if self.keep(y) {
                sum = sum.wrapping_add(self.mix(y));
            }
        }
        sum
    }
}

pub fn prepare(params: &Params, form: &str) -> Option<Run> {
    let (ints, mask) = match params.get("data") {
        "predictable" => (data::predictable(), 7),
        "random" => (data::random(), 1 << 20),
        _ => return None,
    };
    let functions = Functions {
        k: black_box(3),
        x: black_box(0x55),
        mask: black_box(mask),
    };
    let batch = params.number("batch")?;
    let run: fn(Functions, &[i64], usize, &Cell<i64>) -> Sample = match form {
        "rust-loop" => by_loop,
        "dfir" if batch == 1 => dfir_one_at_a_time,
        "dfir" => dfir,
        "timely" => timely,
        _ => return None,
    };
    Some(Box::new(move || {
        let sum = Cell::new(0);
        let sample = run(functions, &ints, batch, &sum);
        let want = functions.sum(&ints).wrapping_mul(CHAIN_BLOCKS as i64);
        assert_eq!(sum.get(), want, "the sum");
        sample
    }))
}

/// How many elements a run has.
fn events(ints: &[i64]) -> usize {
    CHAIN_BLOCKS * ints.len()
}

fn by_loop(functions: Functions, ints: &[i64], _: usize, sum: &Cell<i64>) -> Sample {
    Sample::of(events(ints), || {
        for _ in 0..CHAIN_BLOCKS {
            sum.set(sum.get().wrapping_add(functions.sum(black_box(ints))));
        }
    })
}

fn dfir(functions: Functions, ints: &[i64], batch: usize, sum: &Cell<i64>) -> Sample {
    let (send, receive) = mpsc::unbounded::<Vec<i64>>();
    let mut flow = dfir_syntax! {
        source_stream(receive)
            -> flatten()
            -> map(|i: i64| functions.scale(i))
            -> filter(|&y| functions.keep(y))
            -> map(|y| functions.mix(y))
            -> for_each(|y| sum.set(sum.get().wrapping_add(y)));
    };
    Sample::of(events(ints), || {
        for _ in 0..CHAIN_BLOCKS {
            for part in ints.chunks(batch) {
                send.try_send(part.to_vec()).unwrap();
                flow.run_tick_sync();
            }
        }
    })
}

fn dfir_one_at_a_time(functions: Functions, ints: &[i64], _: usize, sum: &Cell<i64>) -> Sample {
    let (send, receive) = mpsc::unbounded::<i64>();
    let mut flow = dfir_syntax! {
        source_stream(receive)
            -> map(|i: i64| functions.scale(i))
            -> filter(|&y| functions.keep(y))
            -> map(|y| functions.mix(y))
            -> for_each(|y| sum.set(sum.get().wrapping_add(y)));
    };
    Sample::of(events(ints), || {
        for _ in 0..CHAIN_BLOCKS {
            for &i in ints {
                send.try_send(i).unwrap();
                flow.run_tick_sync();
            }
        }
    })
}

fn timely(functions: Functions, ints: &[i64], batch: usize, sum: &Cell<i64>) -> Sample {
    let mut worker = worker::new();
    let total = Rc::new(Cell::new(0_i64));
    let mut input = InputHandleVec::<u64, i64>::new();
    worker.dataflow(|scope| {
        let total = total.clone();
        scope
            .input_from(&mut input)
            .map_in_place(move |i| *i = functions.scale(*i))
            .filter(move |&y| functions.keep(y))
            .map_in_place(move |y| *y = functions.mix(*y))
            .inspect(move |&y| total.set(total.get().wrapping_add(y)));
    });
    let sample = Sample::of(events(ints), || {
        for _ in 0..CHAIN_BLOCKS {
            for part in ints.chunks(batch) {
                input.send_batch(&mut part.to_vec());
                worker.step();
            }
        }
    });
    sum.set(total.get());
    sample
}
