package tools

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
)

// TestN94_NothingIsKept starts, ends and forgets many calls. It catches any table of the flow that keeps something
// for each call.
func TestN94_NothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		forgetting := rules
		forgetting.Remember = time.Minute
		p := Build(flow, Options{Rules: forgetting, Asked: time.Minute, Jobs: 1000, Do: func(_ context.Context, _ Place, j Job) Outcome {
			if j.Kind == Run {
				return Outcome{Result: message(agentproto.TypeToolResult, "result")}
			}
			return Outcome{Class: Accepted}
		}})
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		heap := func() uint64 {
			for range 20 {
				for range 1000 {
					n++
					inv := invocation(firstURL, "one")
					inv.ID, inv.GroupID = fmt.Sprint(n), fmt.Sprint("thread-", n/3)
					at := PlaceOf("", inv)
					call := CallID{"r", inv.GroupID, inv.ID}
					in := In{Token: fmt.Sprint(n), Invoke: &Invoke{Call: call, Inv: inv, Print: PrintOf(inv), Epoch: "e"}}
					if n%5 == 0 {
						in = In{Token: fmt.Sprint(n), Cancel: &Cancel{inv.GroupID, inv.ID}}
					}
					if err := p.Sessions.Send(t.Context(), at, in); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
			}
			<-time.After(3 * time.Minute)
			synctest.Wait()
			if l, _ := p.Load.Latest(); l.All != (Load{}) || len(l.Of) > 0 || p.Told.Len()+p.Bars.Len()+p.Alive.Len()+p.Places.Len() > 0 {
				t.Errorf("left are %+v and %d answers", l, p.Told.Len())
			}
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		heap() // let tables grow to their usual size, which varies a little
		first := heap()
		before := n
		heap()
		second := heap()
		t.Logf("%d bytes after %d calls, %d after %d", first, before, second, n)
		if second > first+uint64(n-before)*40 {
			t.Errorf("%d bytes after %d calls, %d after %d", first, before, second, n)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
