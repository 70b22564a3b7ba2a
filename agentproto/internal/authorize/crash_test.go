package authorize

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/keyedstream"
)

// A safe is a vault and a provider that outlive the processes.
type safe struct {
	mu        sync.Mutex
	codes     map[string]string // "code", "sent", or "token"
	exchanges map[string]int
	tokens    map[string]bool // by user
	lost      int
}

// do performs a job. The process may end before and after it.
func (s *safe) do(_ context.Context, _ string, j Job) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	good := Outcome{Class: Good, Access: "token"}
	switch {
	case j.Kind == Discard:
		delete(s.codes, j.Code)
		return good
	case j.Kind == Fetch && s.tokens[j.Key.User]:
		return good
	case j.Kind == Fetch:
		return Outcome{Class: None}
	case s.codes[j.Code] == "code":
		s.exchanges[j.Code]++
		s.codes[j.Code], s.tokens[j.Key.User] = "token", true
		return good
	case s.codes[j.Code] == "token":
		return good
	}
	s.lost++
	return Outcome{Class: Lost}
}

// TestCrashes ends the process before and after each write, once and a second time, while a call waits for a user
// who arrives. The code is sent once, the call gets its outcome, and no state is left.
func TestCrashes(t *testing.T) {
	type ports struct {
		in   *dataflow.SharedKeyedInputPort[string, In]
		told *dataflow.EntryOutputPort[string, Told]
	}
	all := &safe{codes: map[string]string{}, exchanges: map[string]int{}, tokens: map[string]bool{}}
	drives := 0
	runs := durabletest.Crash(t, durabletest.Program[*ports]{
		Build: func(f *dataflow.Flow) *ports {
			in, ins := keyedstream.SharedInput[string, In](dataflow.At[server](f), "in")
			out := Machine(ins, 10, all.do)
			return &ports{in, output(out, "told", func(o Out) (string, Told, bool) {
				if o.Told == nil {
					return "", Told{}, false
				}
				return o.Token, *o.Told, true
			})}
		},
		Drive: func(ctx context.Context, p *ports) error {
			drives++
			id := fmt.Sprint(drives)
			steps := []struct {
				token string
				in    In
			}{
				{"ask", In{Ask: &Ask{Key: Key{"user:" + id, "idp"}, User: &Request{Call: id, ID: "a" + id, State: "s" + id, Start: "t" + id, For: time.Hour}}}},
				{"page", In{Redirect: &Redirect{ID: "a" + id, State: "s" + id, Code: "c" + id}}},
				{"again", In{Redirect: &Redirect{ID: "a" + id, State: "s" + id, Code: "d" + id}}},
			}
			all.mu.Lock()
			all.codes["c"+id] = "code"
			all.mu.Unlock()
			for i, s := range steps {
				s.in.Token = s.token + id
				if err := p.in.SendNumbered(ctx, "test "+id, uint64(i+1), "r", s.in); err != nil {
					return err
				}
				if _, err := p.told.Await(ctx, s.in.Token); err != nil {
					return err
				}
			}
			return p.in.SendNumbered(ctx, "test "+id, 4, "r", In{Ended: id})
		},
		Check: func(ctx context.Context, p *ports) error { return ctx.Err() },
	}, durabletest.Options{Again: 1, Durable: durable.Options{}})
	t.Logf("%d runs, %d codes, %d lost", runs, len(all.exchanges), all.lost)
	if runs < 20 || len(all.exchanges) == 0 || all.lost > 0 {
		t.Errorf("%d runs, %d codes and %d lost show nothing", runs, len(all.exchanges), all.lost)
	}
	for code, n := range all.exchanges {
		if n != 1 {
			t.Errorf("code %s was sent %d times", code, n)
		}
	}
}
