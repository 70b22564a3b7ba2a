package dataflow_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestCancelUnderLoad cancels the context of the flow, and the contexts of single calls,
// while many goroutines send, await and read.
func TestCancelUnderLoad(t *testing.T) {
	for range 50 {
		cancelUnderLoad(t)
	}
}

func cancelUnderLoad(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1}) // the output is not read to its end
	at := dataflow.At[server](flow)
	in, tickets := dataflow.SharedInput[ticket](at, "tickets")
	put, requests := keyedsingleton.Input[ticket, int](at, "requests")
	out, answers := dataflow.Output(tickets, "out"), keyedsingleton.Output(requests, "answers")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		t.Fatal(err)
	}
	reason := errors.New("enough")
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				short, done := context.WithCancel(ctx)
				if n%3 == 0 {
					go done()
				}
				errs := [4]error{}
				if errs[0] = in.Send(short, ticket{s, n}); errs[0] == nil {
					_, errs[1] = out.Next(short) // perhaps the ticket of another sender
				}
				if errs[2] = put.Put(short, ticket{s, n}, n); errs[2] == nil {
					_, errs[3] = answers.Await(short, ticket{s, n})
				}
				done()
				for _, err := range errs {
					if errors.Is(err, reason) {
						return
					}
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
						return
					}
				}
				if n == 20 {
					cancel(reason)
					<-app.Done()
				}
			}
		})
	}
	wg.Wait()
	if err := app.Wait(); err != reason {
		t.Fatal(err)
	}
}

// TestCancelledCallsLoseNothing has callers that give up all the time while others
// continue. A caller that leaves must pass on a run token that it was handed.
func TestCancelledCallsLoseNothing(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, Buffer: 2})
	in, tickets := dataflow.SharedInput[ticket](dataflow.At[server](flow), "tickets")
	out := dataflow.Output(tickets, "out")
	app := start(t, flow)
	const senders, each = 8, 500
	var wg sync.WaitGroup
	var accepted atomic.Int64
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if (s+n)%2 == 0 {
					go cancel()
				}
				switch err := in.Send(ctx, ticket{s, n}); {
				case err == nil:
					accepted.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	var reading sync.WaitGroup
	var read atomic.Int64
	for r := range 4 {
		reading.Go(func() {
			for n := r; ; n++ {
				ctx, cancel := context.WithCancel(t.Context())
				if n%2 == 0 {
					go cancel()
				}
				_, err := out.Next(ctx)
				cancel()
				switch {
				case err == nil:
					read.Add(1)
				case errors.Is(err, io.EOF):
					return
				case !errors.Is(err, context.Canceled):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	in.Close()
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
	if read.Load() != accepted.Load() {
		t.Fatalf("%d were accepted and %d were read", accepted.Load(), read.Load())
	}
}

// TestCancelWhileStarting cancels the context while Start runs.
func TestCancelWhileStarting(t *testing.T) {
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		flow := dataflow.New()
		in, tickets := dataflow.SharedInput[ticket](dataflow.At[server](flow), "tickets")
		out := dataflow.Output(tickets, "out")
		in.Send(ctx, ticket{})
		go cancel()
		app, err := dataflow.Start(ctx, flow)
		if err == nil {
			out.Next(ctx)
			err = app.Wait()
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}
