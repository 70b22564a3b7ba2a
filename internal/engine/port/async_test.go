package port

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/internal/engine"
)

// TestRequestsWithoutHash calls a function for entries that come from another location one at a time, and so without a hash. The
// answers come while a step runs, so the next step takes them as one batch, which has the hashes of the requests. It catches
// answers that are stored where no reader finds them.
func TestRequestsWithoutHash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		g := newTestGraph()
		here, there := g.NewLocation("here"), g.NewLocation("there")
		in, requests := NewEntryInput[int, int](here, engine.NewOp(here, "in", ""), nil)
		moved := KeyedExchange(requests, engine.NewOp(there, "Send", ""))
		hashed := 0
		moved.To(func(b *engine.Batch[int, int]) { hashed += len(b.K) }).One = func(_, _ int, h uint64) {
			if h != 0 {
				hashed++
			}
		}
		answer, busy := make(chan struct{}), make(chan struct{})
		answers := MapAsync(moved, engine.NewOp(there, "MapAsync", ""), func(_ context.Context, _, x int) int {
			<-answer
			return x * x
		}, 64)
		out := NewEntryOutput(answers, engine.NewOp(there, "out", ""))
		steps, xs := NewInput[int](there, engine.NewOp(there, "steps", ""))
		xs.To(func([]int) { <-busy })
		g.Start(ctx)
		for x := range 3 {
			must(in.Send(ctx, x, x))
			synctest.Wait() // each is sent alone
		}
		if hashed > 0 {
			t.Fatalf("%d requests have a hash already", hashed)
		}
		go steps.Send(ctx, 1)
		synctest.Wait()
		close(answer)
		synctest.Wait()
		close(busy)
		synctest.Wait()
		for x := range 3 {
			if y, ok := out.Get(x); y != x*x || !ok {
				t.Errorf("the answer to %d is %d, %v", x, y, ok)
			}
		}
		g.Stop()
		must(g.Wait())
	})
}
