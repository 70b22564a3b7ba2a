//! The jobs of Millrace's benchmarks with DFIR, with timely dataflow, and as plain loops.
//!
//! The program does one job in one form, twice, and prints the sample of the second time as a line
//! of `go test -bench`. The first time warms up, as the jobs in Go do.
//!
//!     peers-rust Chain/data=random/batch=256 dfir

mod chain;
mod data;
mod first;
mod fold;
mod join;
mod measure;
mod params;
mod pcg;
mod worker;

use measure::Sample;
use params::Params;

/// A job in one form, with its input. It panics if its answer is wrong.
type Run = Box<dyn Fn() -> Sample>;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, label, form] = args.as_slice() else {
        panic!("usage: peers-rust JOB FORM");
    };
    let (job, params) = label.split_once('/').unwrap_or((label, ""));
    let run = prepare(job, &Params::of(params), form)
        .unwrap_or_else(|| panic!("there is no {label} in the form {form}"));
    run();
    run().print(&format!("{job}/impl={form}/{params}"));
}

fn prepare(job: &str, params: &Params, form: &str) -> Option<Run> {
    match job {
        "Chain" => chain::prepare(params, form),
        "First" => first::prepare(params, form),
        "FoldEarlyStop" => fold::prepare(params, form),
        "Join" => join::prepare(params, form),
        _ => None,
    }
}
