package dataflow_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// exit ends its goroutine on 0, as FailNow does.
func exit(x int) int {
	if x == 0 {
		runtime.Goexit()
	}
	return x
}

// TestGoexitEverywhere calls runtime.Goexit in a function of each kind of operator, while
// calls of Send, Await and Stop wait. The flow must fail with an error that says what
// happened, and every waiting call must return it. The bubble would not end if a
// goroutine were left.
func TestGoexitEverywhere(t *testing.T) {
	type values = dataflow.KeyedStream[int, int, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	type stream = dataflow.Stream[int, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	tests := []struct {
		op    string
		build func(at server, ks values, s stream)
	}{
		{"keyedsingleton.MapAsync", func(_ server, ks values, _ stream) {
			keyedsingleton.MapAsync(keyedstream.First(ks), func(_ context.Context, x int) int { return exit(x) }, keyedsingleton.AsyncOptions{Concurrency: 1})
		}},
		{"dataflow.Map", func(_ server, _ values, s stream) { dataflow.Map(s, exit) }},
		{"dataflow.Filter", func(_ server, _ values, s stream) { dataflow.Filter(s, func(x int) bool { return exit(x) > 0 }) }},
		{"dataflow.Inspect", func(_ server, _ values, s stream) { dataflow.Inspect(s, func(x int) { exit(x) }) }},
		{"dataflow.ForEach", func(_ server, _ values, s stream) { dataflow.ForEach(s, func(x int) { exit(x) }) }},
		{"dataflow.KeyBy", func(_ server, _ values, s stream) { dataflow.KeyBy(s, exit) }},
		{"dataflow.Fold", func(_ server, _ values, s stream) {
			dataflow.Fold(s, func() int { return 0 }, func(acc *int, x int) { *acc += exit(x) })
		}},
		{"dataflow.Scan", func(_ server, _ values, s stream) {
			dataflow.Scan(s, func() int { return 0 }, func(_ *int, x int, emit func(int)) { emit(exit(x)) })
		}},
		{"keyedstream.Fold", func(_ server, ks values, _ stream) {
			keyedstream.Fold(ks, func() int { return 0 }, func(acc *int, x int) { *acc += exit(x) })
		}},
		{"keyedstream.Rekey", func(_ server, ks values, _ stream) {
			keyedstream.Rekey(ks, func(_, x int) int { return exit(x) })
		}},
		{"keyedsingleton.AfterEach", func(_ server, ks values, _ stream) {
			keyedsingleton.AfterEach(keyedstream.First(ks), func(x int) time.Duration { return time.Duration(exit(x)) }, why)
		}},
		{"keyedsingleton.Map", func(at server, ks values, _ stream) {
			batch := slice.BatchEntries(slice.At(at), keyedstream.First(ks), why)
			slice.EmitEntries(keyedsingleton.Map(batch, exit))
		}},
	}
	for _, test := range tests {
		t.Run(test.op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				at := dataflow.At[server](flow)
				in, ks := keyedstream.Input[int, int](at, "values")
				put, requests := keyedsingleton.Input[int, int](at, "requests")
				test.build(at, ks, dataflow.AssumeOrder(keyedstream.Values(ks), why))
				answers := keyedsingleton.Output(requests, "answers")
				app := start(t, flow)
				errs := make(chan error, 8)
				go func() { _, err := answers.Await(t.Context(), 7); errs <- err }()
				for i := range 3 {
					go in.Send(t.Context(), i, i)
				}
				synctest.Wait()
				go func() { errs <- app.Stop(context.Background()) }()
				errs <- app.Wait()
				errs <- put.Put(t.Context(), 1, 1)
				errs <- app.Err()
				for range 5 {
					err := <-errs
					var step *dataflow.StepError
					if !errors.As(err, &step) || step.Op != test.op || !strings.Contains(err.Error(), "runtime.Goexit") || !strings.Contains(step.Pos, "goexit_test.go:") {
						t.Errorf("an error is %v", err)
					}
				}
			})
		})
	}
}
