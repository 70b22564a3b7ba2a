package dataflow_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
)

// TestBackpressure checks that a full queue blocks a sender, that cancelling its context
// and Close unblock it, and that a reader lets a stalled location continue.
func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, Buffer: 4})
		in, xs := dataflow.Input[int](dataflow.At[server](flow), "xs")
		out := dataflow.Output(xs, "out")
		app := start(t, flow)

		var accepted atomic.Int64
		sent := make(chan error, 1)
		go func() {
			for {
				if err := in.Send(ctx, int(accepted.Load())); err != nil {
					sent <- err
					return
				}
				accepted.Add(1)
			}
		}()
		synctest.Wait()
		// The output holds five, its bound exceeded by one. Two wait in the queue.
		if n := accepted.Load(); n != 7 {
			t.Errorf("%d were accepted before the reader came, want 7", n)
		}
		for want := range 3 {
			if got, err := out.Next(t.Context()); got != want || err != nil {
				t.Fatalf("Next() = %d, %v, want %d", got, err, want)
			}
		}
		synctest.Wait()
		// Two are left at the output. Of the later ones, three more exceed its bound.
		if n := accepted.Load(); n < 9 || n > 10 {
			t.Errorf("%d were accepted after three were read, want 9 or 10", n)
		}
		cancel()
		synctest.Wait()
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiting Send returned %v", err)
		}

		go func() { sent <- in.Send(t.Context(), 0) }()
		synctest.Wait()
		in.Close()
		synctest.Wait()
		select {
		case err := <-sent:
			if err != dataflow.ErrClosed {
				t.Errorf("Send returned %v after Close", err)
			}
		default:
			t.Error("Close left a waiting Send alone")
		}

		n := 3
		for x := range out.All(t.Context()) {
			if x != n {
				t.Errorf("got %d, want %d", x, n)
			}
			n++
		}
		if int64(n) != accepted.Load() {
			t.Errorf("%d were accepted and %d read", accepted.Load(), n)
		}
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestStopGivesUp checks that Stop gives up on a flow whose output nobody reads.
func TestStopGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1, Buffer: 1})
		in, xs := dataflow.Input[int](dataflow.At[server](flow), "xs")
		out := dataflow.Output(xs, "out")
		app := start(t, flow)
		in.SendBatch(t.Context(), []int{1, 2})
		in.Send(t.Context(), 3)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("no reader came")
		stopped := make(chan error)
		go func() { stopped <- app.Stop(ctx) }()
		synctest.Wait()
		cancel(reason)
		if err := <-stopped; !errors.Is(err, reason) {
			t.Errorf("Stop returned %v", err)
		}
		// What was released can still be read. Then Next returns the reason.
		var got []int
		for {
			x, err := out.Next(t.Context())
			if err != nil {
				if !errors.Is(err, reason) {
					t.Errorf("Next returned %v", err)
				}
				break
			}
			got = append(got, x)
		}
		if !slices.Equal(got, []int{1}) && !slices.Equal(got, []int{1, 2}) {
			t.Errorf("read %v", got)
		}
		if err := in.Send(t.Context(), 4); !errors.Is(err, reason) {
			t.Errorf("Send returned %v", err)
		}
	})
}

// TestHandedTheTokenWhileLeaving has a sender that waits for room and is handed the run
// token. It runs the last step of a flow that was closed meanwhile. Its own record must
// not be accepted after the end.
func TestHandedTheTokenWhileLeaving(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that a hook continues after it has woken the sender
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2})
		in, xs := dataflow.Input[int](dataflow.At[server](flow), "xs")
		send := func(x int) {
			if err := in.Send(t.Context(), x); err != nil {
				t.Errorf("Send(%d): %v", x, err)
			}
		}
		full := make(chan bool)
		hooks := map[int]func(){
			1: func() { <-full },
			2: func() { send(4); send(5) }, // full again before the sender looks
			4: func() { send(6) },          // run by the sender, which has room now and leaves
			6: in.Close,                    // run by the sender as it leaves
		}
		var app *dataflow.App
		out := dataflow.Output(dataflow.Inspect(xs, func(x int) {
			select {
			case <-app.Done():
				t.Errorf("%d was handled after the end", x)
			default:
			}
			if hook := hooks[x]; hook != nil {
				hook()
			}
		}), "out")
		app = start(t, flow)
		go send(1)
		synctest.Wait()
		send(2)
		send(3)
		late := make(chan error, 1)
		go func() { late <- in.Send(t.Context(), 7) }()
		synctest.Wait()
		full <- true
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		got := slices.Collect(out.All(t.Context()))
		err := <-late
		if came := slices.Contains(got, 7); came != (err == nil) || err != nil && err != dataflow.ErrClosed {
			t.Errorf("Send returned %v, and %v came out", err, got)
		}
	})
}
