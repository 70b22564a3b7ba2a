package tools

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/internal/long"
)

// peers are a function, and a runtime that accepts messages. Both count by the epoch of the call, and outlive the processes.
type peers struct {
	mu        sync.Mutex
	runs      map[string]int
	delivered map[string]int // by webhook-id, which contains the epoch
}

func (p *peers) do(_ context.Context, _ Place, j Job) Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch j.Kind {
	case Run:
		p.runs[j.Epoch]++
		return Outcome{Result: message(agentproto.TypeToolResult, "result"+j.Epoch), Subscribe: true, State: []byte("s")}
	case Produce:
		return Outcome{Final: message(agentproto.TypeSubscriptionEvent, "final"+j.Epoch)}
	case Attempt:
		if p.delivered[j.ID]++; p.delivered[j.ID] == 1 && j.Message.Failed == 0 {
			return Outcome{Class: Again} // it was accepted, and the answer was lost
		}
		return Outcome{Class: Accepted}
	}
	return Outcome{}
}

// TestN60_Crashes ends the process before and after each write, once and a second time. The call ends with one result and one
// final event. Its function runs at most once per process, and there are at most four processes.
func TestN60_Crashes(t *testing.T) {
	for name, ahead := range map[string]bool{"durable": false, "read ahead": true} {
		t.Run(name, func(t *testing.T) { crashes(t, ahead) })
	}
}

// crashes makes the runs. With ahead, the log shows records before they are durable.
func crashes(t *testing.T, ahead bool) {
	all := &peers{runs: make(map[string]int), delivered: make(map[string]int)}
	drives := 0
	runs := durabletest.Crash(t, durabletest.Program[*Ports]{
		Build: func(f *dataflow.Flow) *Ports {
			return Build(f, Options{Rules: rules, Asked: time.Hour, Jobs: 100, Do: all.do})
		},
		Drive: func(ctx context.Context, p *Ports) error {
			drives++
			inv := invocation(firstURL, "one")
			return p.Sessions.SendNumbered(ctx, "test", 1, place, In{Invoke: &Invoke{Call: callID, Inv: inv, Print: PrintOf(inv), Epoch: fmt.Sprint(drives)}})
		},
		Check: func(ctx context.Context, p *Ports) error {
			for l := range p.Load.Watch(ctx) {
				if l.All.Finished == 1 && l.All.Calls == 0 {
					break
				}
			}
			if n := p.Alive.Len() + p.Stops.Len() + p.Places.Len(); n != 0 {
				return fmt.Errorf("%d entries of calls or jobs are left", n)
			}
			return ctx.Err()
		},
	}, durabletest.Options{Again: long.Of(1, 2), ReadAhead: ahead})
	t.Logf("%d runs", runs)
	if runs < 60 || len(all.runs) < runs*9/10 {
		t.Errorf("%d runs with %d calls are too few to show anything", runs, len(all.runs))
	}
	for epoch, n := range all.runs {
		if r, f := all.delivered["msg_result"+epoch], all.delivered["msg_final"+epoch]; n > 4 || r < 2 || f < 2 || r > 5 || f > 5 {
			t.Errorf("call %s: the function ran %d times, its result was sent %d times, and its final event %d times", epoch, n, r, f)
		}
	}
	if len(all.delivered) != 2*len(all.runs) {
		t.Errorf("%d messages of %d calls", len(all.delivered), len(all.runs))
	}
}
