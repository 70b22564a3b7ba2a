// Package jobs holds the jobs that are measured, each written by hand and as a flow.
//
// A job computes the same result in every implementation, and checks it: a Do panics
// if it did not do the work.
package jobs

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/millrace/millrace/dataflow"
)

// All returns every job, except those of [Growth].
func All() []Job {
	return slices.Concat(Chain(), Maps(), Operators(), Records(), Peers(), First(), Quorum(), Join(), Snapshot(),
		RoundTrip(), Ingress(), Lines(), Puts(), Members(), Timeout(), Windows(), Machines(), Table(), Program(), HTTP(), Recorded(), LookedAt(), Memory(), Compile())
}

// A bench is the location of every flow here.
type bench struct{ dataflow.Process }

// background is made once, so that making it is not part of any job.
var background = context.Background()

// start starts a flow.
func start(f *dataflow.Flow) *dataflow.App {
	app, err := dataflow.Start(background, f)
	if err != nil {
		panic(err)
	}
	return app
}

// stop stops a flow and panics if it failed.
func stop(app *dataflow.App) {
	if err := app.Stop(background); err != nil {
		panic(err)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// check panics if a job gave the wrong answer.
func check[T comparable](what string, got, want T) {
	if got != want {
		panic(fmt.Sprintf("jobs: %s: got %v, want %v", what, got, want))
	}
}

// send sends xs in batches, or one at a time if batch is 1.
func send[T any](in *dataflow.InputPort[T], xs []T, batch int) {
	if batch == 1 {
		for _, x := range xs {
			must(in.Send(background, x))
		}
		return
	}
	for len(xs) > 0 {
		n := min(batch, len(xs))
		_, err := in.SendBatch(background, xs[:n])
		must(err)
		xs = xs[n:]
	}
}

// lazily returns a function that makes a value once, when it is first called: a job
// that does not run uses no memory.
func lazily[T any](make func() T) func() T { return sync.OnceValue(make) }
