package live_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

var errTest = errors.New("the test ends it")

// TestFailedInAStep fails a flow while a function of it runs. The test fails if the flow does not end at
// once, if it takes something after the function has returned, or if its status waits for a caller that
// has left.
func TestFailedInAStep(t *testing.T) {
	t.Run("unseen", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { failedInAStep(t, false) }) })
	t.Run("with a look at its status", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { failedInAStep(t, true) }) })
}

// failedInAStep is a case of TestFailedInAStep. With looks, a caller asks for the status while the
// function runs, so the location checks for remaining work.
func failedInAStep(t *testing.T, looks bool) {
	g := newTestGraph()
	s := g.NewLocation("here")
	in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
	var seen []int
	goes := make(chan struct{})
	operators.Inspect(node, engine.NewOp(s, "Inspect", ""), func(x int) { seen = append(seen, x); <-goes })
	ctx, cancel := context.WithCancelCause(t.Context())
	g.Start(ctx)
	go in.Send(t.Context(), 1)
	synctest.Wait()
	cancel(errTest)
	if err := g.Wait(); !errors.Is(err, errTest) {
		t.Errorf("the flow ends with %v", err)
	}
	began := time.Now()
	if looks {
		if st := g.Status()[0]; !st.Ended || !st.Stale || time.Since(began) != engine.Patience {
			t.Errorf("while the function runs, the status is there after %v: ended %v, stale %v", time.Since(began), st.Ended, st.Stale)
		}
	}
	if err := in.Send(t.Context(), 2); !errors.Is(err, errTest) {
		t.Errorf("a record is sent to a flow that has failed: %v", err)
	}
	close(goes)
	synctest.Wait()
	if err := in.Send(t.Context(), 3); !errors.Is(err, errTest) {
		t.Errorf("a record is sent when the function has returned: %v", err)
	}
	if len(seen) != 1 {
		t.Errorf("a flow that has failed takes %v", seen)
	}
	began = time.Now()
	if st := g.Status()[0]; !st.Ended || st.Stale || time.Since(began) != 0 {
		t.Errorf("the status is there after %v: ended %v, stale %v", time.Since(began), st.Ended, st.Stale)
	}
}

// TestFailedWhileIdle asks for the status of a flow that failed while no goroutine ran it.
func TestFailedWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGraph()
		s := g.NewLocation("here")
		in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
		operators.Inspect(node, engine.NewOp(s, "Inspect", ""), func(int) {})
		g.Start(t.Context())
		in.Send(t.Context(), 1)
		g.Fail(errTest)
		began := time.Now()
		if st := g.Status()[0]; !st.Ended || st.Stale || time.Since(began) != 0 || st.Records != 1 {
			t.Errorf("the status is there after %v: ended %v, stale %v, %d records", time.Since(began), st.Ended, st.Stale, st.Records)
		}
	})
}

// TestFailedWhileSendersWait fails a flow whose location waits for a reader while senders wait for room.
// If a sender waited for ever, the bubble would report a deadlock.
func TestFailedWhileSendersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := live.Drive(engine.New(engine.Settings{Queue: 1, Buffer: 1, Wrap: func(p *engine.Panic) error { return p }, OnBlocked: func(*engine.Blocked) {}}))
		s := g.NewLocation("here")
		in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
		port.NewOutput(node, engine.NewOp(s, "Output", ""))
		g.Start(t.Context())
		var mu sync.Mutex
		var errs []error
		for x := range 5 {
			go func() {
				err := in.Send(t.Context(), x)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}()
			synctest.Wait()
		}
		before := len(errs)
		g.Fail(errTest)
		synctest.Wait()
		if before == 5 || len(errs) != 5 {
			t.Fatalf("of 5 senders %d had returned before the flow failed, and %d then", before, len(errs))
		}
		for i, err := range errs {
			if want := i >= before; errors.Is(err, errTest) != want {
				t.Errorf("sender %d: %v", i, err)
			}
		}
	})
}

// TestFailedIsForgotten checks that nothing refers to a flow that has failed, even if it has a timer due
// in an hour.
func TestFailedIsForgotten(t *testing.T) {
	made := func() weak.Pointer[engine.Graph] {
		g := newTestGraph()
		s := g.NewLocation("here")
		operators.Inspect(operators.Interval(s, engine.NewOp(s, "Interval", ""), time.Hour), engine.NewOp(s, "Inspect", ""), func(time.Duration) {})
		g.Start(context.Background())
		g.Fail(errTest)
		return weak.Make(g)
	}()
	for deadline := time.Now().Add(20 * time.Second); made.Value() != nil; runtime.Gosched() {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatal("the flow is still there")
		}
	}
}
