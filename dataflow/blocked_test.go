package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

const forgotten = `is stopped: output "debug" \(blocked_test.go:\d+\) has 5 unread elements, and 4 may wait: read it, or do not make it`

// blocked checks the error of a call whose context ended while an output was full.
func blocked(t *testing.T, what string, err error, words string) {
	t.Helper()
	var e *dataflow.BlockedError
	if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || !regexp.MustCompile("^dataflow: location "+words+": context deadline exceeded$").MatchString(err.Error()) {
		t.Errorf("%s: %v", what, err)
	}
}

// warnings collects the errors that the goroutines of a flow pass to Options.OnBlocked.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) add(e *dataflow.BlockedError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, e.Error())
}

// take returns the warnings since the last take.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// TestForgottenOutput has an output that nobody reads. Every call that waits for its
// location returns an error that names the output, and OnBlocked is called once.
func TestForgottenOutput(t *testing.T) {
	for _, reads := range []bool{false, true} {
		t.Run(fmt.Sprint("read in time ", reads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var warned warnings
				flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, Buffer: 4, OnBlocked: warned.add})
				at := dataflow.At[server](flow)
				in, s := dataflow.Input[int](at, "in")
				put, entries := keyedsingleton.Input[int, int](at, "put")
				debug := dataflow.Output(s, "debug")
				out := dataflow.Output(dataflow.Filter(s, func(x int) bool { return x > 100 }), "out")
				answers := keyedsingleton.Output(entries, "answers")
				app := start(t, flow)
				for i := range 5 {
					if err := in.Send(t.Context(), i); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(999 * time.Millisecond)
				if told := warned.take(); len(told) > 0 {
					t.Errorf("told after less than a second: %q", told)
				}
				if reads {
					for i := range 5 {
						if x, err := debug.Next(t.Context()); x != i || err != nil {
							t.Errorf("Next() = %v, %v", x, err)
						}
					}
					time.Sleep(time.Hour)
					if err, told := app.Stop(t.Context()), warned.take(); len(told) > 0 || err != nil {
						t.Errorf("told %q, the flow ended with %v", told, err)
					}
					return
				}
				time.Sleep(time.Hour)
				if told := warned.take(); len(told) != 1 || !regexp.MustCompile("^dataflow: location server "+forgotten+"$").MatchString(told[0]) {
					t.Errorf("told %q", told)
				}
				put.Put(t.Context(), 1, 1)
				in.Send(t.Context(), 5) // the queue is full now
				soon := func() context.Context {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					t.Cleanup(cancel)
					return ctx
				}
				blocked(t, "Send", in.Send(soon(), 6), "server "+forgotten)
				n, err := in.SendBatch(soon(), []int{6, 7})
				if blocked(t, "SendBatch", err, "server "+forgotten); n != 0 {
					t.Errorf("SendBatch took %d", n)
				}
				blocked(t, "Put", put.Put(soon(), 2, 2), "server "+forgotten)
				_, err = answers.Await(soon(), 1)
				blocked(t, "Await", err, "server "+forgotten)
				_, err = answers.Take(soon(), 1)
				blocked(t, "Take", err, "server "+forgotten)
				_, err = out.Next(soon())
				blocked(t, "Next", err, "server "+forgotten)
				waits := make(chan error)
				go func() { _, err := answers.Await(context.Background(), 1); waits <- err }()
				synctest.Wait()
				blocked(t, "Stop", app.Stop(soon()), "server "+forgotten)
				blocked(t, "Err", app.Err(), "server "+forgotten)
				blocked(t, "who waits longer", <-waits, "server "+forgotten)
				if told := warned.take(); len(told) != 0 { // it was told once, above
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// TestForgottenOutputElsewhere has the unread output at another location than the waiting
// call: one that the location sends to, and one that sends to the location.
func TestForgottenOutputElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warned warnings
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, Buffer: 4, OnBlocked: warned.add})
		at, there := dataflow.At[server](flow), dataflow.At[client](flow)
		in, s := dataflow.Input[int](at, "in")
		sent := dataflow.Send(s, there)
		dataflow.Output(sent, "debug")
		back := dataflow.Output(dataflow.Filter(sent, func(x int) bool { return x > 100 }), "back")
		own := dataflow.Output(dataflow.Filter(dataflow.Send(sent, at), func(x int) bool { return x > 100 }), "own")
		app := start(t, flow)
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		for i := range 5 {
			in.Send(t.Context(), i)
			synctest.Wait()
		}
		_, err := back.Next(soon())
		blocked(t, "Next there", err, "client "+forgotten)
		_, err = own.Next(soon())
		blocked(t, "Next here", err, "server waits for client "+forgotten)
		for range 20 {
			if err = in.Send(soon(), 5); err != nil {
				break
			}
		}
		blocked(t, "Send", err, "server waits for client "+forgotten)
		blocked(t, "Stop", app.Stop(soon()), "client "+forgotten)
		if told := warned.take(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
	})
}

// TestCallsThatHang checks the errors while calls of MapAsync do not return.
func TestCallsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, OnBlocked: func(*dataflow.BlockedError) {}})
		put, entries := keyedsingleton.Input[int, int](dataflow.At[server](flow), "put")
		hang := func(ctx context.Context, x int) int { <-ctx.Done(); return x }
		answers := keyedsingleton.Output(keyedsingleton.MapAsync(entries, hang, keyedsingleton.AsyncOptions{Concurrency: 2}), "answers")
		app := start(t, flow)
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		put.Put(t.Context(), 0, 0)
		if _, err := answers.Await(soon(), 0); err != context.DeadlineExceeded { // nothing is blocked yet
			t.Errorf("Await: %v", err)
		}
		var err error
		for i := range 20 {
			if err = put.Put(soon(), i+1, 0); err != nil {
				break
			}
		}
		const calls = `server is stopped: 3 calls of keyedsingleton.MapAsync \(blocked_test.go:\d+\) wait for the 2 that run, and 2 may: have the function return sooner, or allow more at a time`
		blocked(t, "Put", err, calls)
		_, err = answers.Await(soon(), 0)
		blocked(t, "Await", err, calls)
		blocked(t, "Stop", app.Stop(soon()), calls)
	})
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		put, entries := keyedsingleton.Input[int, int](dataflow.At[server](flow), "put")
		keyedsingleton.MapAsync(entries, func(ctx context.Context, x int) int { <-ctx.Done(); return x }, keyedsingleton.AsyncOptions{})
		app := start(t, flow)
		put.Put(t.Context(), 0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocked(t, "Stop", app.Stop(ctx), `server has not ended: 1 calls of keyedsingleton.MapAsync \(blocked_test.go:\d+\) run and 0 wait: have the function return when its context ends`)
	})
}

// TestNotBlocked checks that errors do not mention blocking when nothing is blocked.
func TestNotBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, s := dataflow.Input[int](dataflow.At[server](flow), "in")
		out := dataflow.Output(s, "out")
		app := start(t, flow)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := out.Next(ctx); err != context.DeadlineExceeded {
			t.Errorf("Next: %v", err)
		}
		in.Close()
		if _, err := out.Next(t.Context()); err != io.EOF {
			t.Errorf("Next: %v", err)
		}
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}
