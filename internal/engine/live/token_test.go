package live_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// TestNothingIsLeftBehind checks that work left for the holder of the run token runs without a
// later call, whenever the work is left and the token is released.
func TestNothingIsLeftBehind(t *testing.T) {
	const rounds = 20_000
	ctx := context.Background()
	for _, keyed := range []bool{false, true} {
		g := newTestGraph()
		s := g.NewLocation("here")
		var seen atomic.Int64
		op := engine.NewOp(s, "Input", "")
		var send func(x int) error
		if keyed {
			in, node := port.NewEntryInput[int, int](s, op, nil)
			operators.KMap(node, engine.NewOp(s, "Map", ""), func(x int) int { seen.Add(1); return x })
			send = func(x int) error { return in.Send(ctx, x, x) }
		} else {
			in, node := port.NewInput[int](s, op)
			operators.Inspect(node, engine.NewOp(s, "Inspect", ""), func(int) { seen.Add(1) })
			send = func(x int) error { return in.Send(ctx, x) }
		}
		g.Start(ctx)
		const senders, each = 2, 5
		var begun, done atomic.Int64 // rounds; rounds times senders
		for i := range senders {
			go func() {
				for round := range rounds {
					for begun.Load() <= int64(round) {
						runtime.Gosched()
					}
					for j := range each {
						if err := send((round*each+j)*senders + i); err != nil {
							t.Error(err)
						}
					}
					done.Add(1)
				}
			}()
		}
		for round := range rounds {
			begun.Store(int64(round + 1))
			want := int64(senders * (round + 1))
			for start := time.Now(); done.Load() < want || seen.Load() < each*want; {
				if time.Since(start) > 5*time.Second {
					t.Fatalf("round %d: %d of %d records were run", round, seen.Load(), each*want)
				}
				runtime.Gosched()
			}
		}
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopWhileOthersSend checks that a flow that is stopped while others send ends.
func TestStopWhileOthersSend(t *testing.T) {
	ctx := context.Background()
	for round := range 3000 {
		g := newTestGraph()
		s := g.NewLocation("here")
		in, node := port.NewInput[int](s, engine.NewOp(s, "Input", ""))
		operators.Inspect(node, engine.NewOp(s, "Inspect", ""), func(int) {})
		g.Start(ctx)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for in.Send(ctx, 1) == nil {
				}
			})
		}
		for range round % 10 {
			in.Send(ctx, 2)
		}
		if round%2 == 0 {
			g.Stop()
		} else {
			in.Close()
		}
		select {
		case <-g.Done():
		case <-time.After(5 * time.Second):
			t.Fatalf("round %d: the flow does not end", round)
		}
		wg.Wait()
	}
}
