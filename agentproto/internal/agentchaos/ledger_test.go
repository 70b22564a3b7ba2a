package agentchaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// A ledger records what the processes reported: runtimes report accepted calls and their
// outcomes, tool servers report callbacks that were answered 200.
type ledger struct {
	mu      sync.Mutex
	calls   map[agentproto.CallKey]*entry
	threads map[string]*agenda
	wrong   []string
	told    int // number of reported outcomes
	again   int // of those, for a call whose outcome was known
	oks     map[string]int
}

// An entry is what the ledger records of a call.
type entry struct {
	operation string // without the name of the server
	accepted  bool
	cancelled bool
	outcome   *outcome
	results   []string // those that were answered 200
	events    []string // those that were answered 200
}

// An agenda is what the ledger records of a thread of a conversation.
type agenda struct {
	api   string // of a runtime that holds it
	calls []conversation.Call
	said  bool // the user's text was accepted
}

func newLedger() *ledger {
	return &ledger{calls: map[agentproto.CallKey]*entry{}, threads: map[string]*agenda{}, oks: map[string]int{}}
}

// entry returns the entry of a call. The caller holds mu.
func (l *ledger) entry(key agentproto.CallKey) *entry {
	e := l.calls[key]
	if e == nil {
		e = new(entry)
		l.calls[key] = e
	}
	return e
}

// on calls do with the entry of a call.
func (l *ledger) on(key agentproto.CallKey, do func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(l.entry(key))
}

// tell records the outcome of a call. It may be reported often and must always be the
// same.
func (l *ledger) tell(key agentproto.CallKey, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(key)
	l.told++
	switch {
	case e.outcome == nil:
		e.outcome = &o
	case *e.outcome != o:
		l.wrong = append(l.wrong, fmt.Sprintf("%v has two results: %+v and %+v", key, *e.outcome, o))
	default:
		l.again++
	}
}

// ok records a callback that was answered 200.
func (l *ledger) ok(n note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.oks[n.Type]++
	e := l.entry(agentproto.CallKey{GroupID: n.Thread, ID: n.Call})
	switch n.Type {
	case "result":
		e.results = append(e.results, n.Text)
	case "event":
		e.events = append(e.events, n.Text)
	}
}

// report counts and checks the entries at the end.
func (l *ledger) report(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	accepted, lost, causes, operations := 0, 0, map[string]int{}, map[string]int{}
	for key, e := range l.calls {
		if e.accepted {
			accepted++
			operations[e.operation]++
		}
		switch {
		case e.outcome != nil:
			causes[e.outcome.Cause]++
			l.judge(key, e)
		case e.accepted, len(e.results) > 0:
			lost++
			l.wrong = append(l.wrong, fmt.Sprintf("%v (%s) is lost: accepted %t, results answered 200: %q", key, e.operation, e.accepted, e.results))
		}
	}
	t.Logf("%d calls accepted %v; causes of their results %v; lost %d; told %d times, %d of them again; callbacks answered 200: %v",
		accepted, operations, causes, lost, l.told, l.again, l.oks)
	slices.Sort(l.wrong)
	for i, w := range l.wrong {
		if i == 20 {
			t.Errorf("and %d more", len(l.wrong)-i)
			break
		}
		t.Error(w)
	}
	if good := causes[agentproto.ByResult.String()]; good < accepted*8/10 || accepted == 0 {
		t.Errorf("only %d of %d calls have the result of their tool: nothing much was tried", good, accepted)
	}
}

// judge records what is wrong with the outcome of a call.
func (l *ledger) judge(key agentproto.CallKey, e *entry) {
	complain := func(format string, args ...any) {
		l.wrong = append(l.wrong, fmt.Sprintf("%v (%s): ", key, e.operation)+fmt.Sprintf(format, args...))
	}
	text, failed := strings.CutPrefix(e.outcome.Text, "Error: ")
	switch cause := e.outcome.Cause; cause {
	case agentproto.ByResult.String():
		if text, _ := strings.CutPrefix(text, key.ID+" "); e.operation == "choose" && !failed && !strings.HasPrefix(text, offered[chosen]) {
			complain("the user has chosen %q, and the result is %q", offered[chosen], e.outcome.Text)
		}
		if !strings.HasPrefix(text, key.ID+" ") {
			complain("the result is another's: %q", e.outcome.Text)
		}
		if failed != (e.operation == "fail") && e.operation != "" {
			complain("the result is %q", e.outcome.Text)
		}
	case agentproto.ByTimeout.String():
		if e.operation != "mute" {
			complain("timed out; results answered 200: %q", e.results)
		}
	case agentproto.ByInterruption.String():
		if !e.cancelled {
			complain("interrupted by nobody")
		}
	case agentproto.ByRejection.String(), agentproto.ByDispatch.String():
		// The tools of its server could not be fetched, or the server was down for long.
	default:
		complain("resolved by %s: %q", cause, e.outcome.Text)
	}
	if !failed && e.outcome.Cause != agentproto.ByResult.String() {
		complain("%s is not an error: %q", e.outcome.Cause, e.outcome.Text)
	}
	if e.outcome.Cause == agentproto.ByRejection.String() && len(e.results) > 0 {
		complain("rejected, and has results: %q", e.results)
	}
}

// read compares a history with what was said and accepted. It returns what is still
// missing and records what is wrong.
func (l *ledger) read(thread string, history []conversation.Message) (missing string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	complain := func(format string, args ...any) {
		l.wrong = append(l.wrong, thread+": "+fmt.Sprintf(format, args...))
	}
	plan := l.threads[thread]
	results := map[string]string{} // by call
	brought := map[string]string{} // the subscription of a synthetic call
	events, open := map[string][]string{}, map[string]bool{}
	said := 0
	for _, m := range history {
		switch m.Kind {
		case conversation.User:
			said++
		case conversation.Assistant:
			for _, c := range m.Calls {
				if open[c.ID] {
					complain("the call %s is there twice", c.ID)
				}
				open[c.ID] = true
				if m.Synthetic {
					_, id, _ := strings.Cut(c.Arguments, `"tool_call_id":"`)
					brought[c.ID], _, _ = strings.Cut(id, `"`)
				}
			}
		case conversation.Result:
			id, text := m.Result.ID, m.Result.Text()
			if of := brought[id]; of != "" {
				events[of] = append(events[of], text)
				continue
			}
			if before, twice := results[id]; twice {
				complain("the call %s has two results: %q and %q", id, before, text)
			}
			results[id] = text
			if !open[id] {
				complain("a result of %s, which was not called", id)
			}
		case conversation.Notice:
			complain("notice: %s", m.Text)
		}
	}
	if said == 0 && plan.said {
		return "what the user said"
	}
	for _, c := range plan.calls {
		key := agentproto.CallKey{GroupID: thread, ID: c.ID}
		e, result := l.entry(key), results[c.ID]
		if result == "" {
			if plan.said || said > 0 {
				return "the result of " + c.ID
			}
			continue
		}
		if e.outcome != nil && e.outcome.Text != result {
			complain("%s resolved to %q, and the model was told %q", c.ID, e.outcome.Text, result)
		}
		if e.operation == "count" && !strings.HasPrefix(result, "Error: ") {
			if got := events[c.ID]; len(got) < countTo {
				return fmt.Sprintf("events of %s: there are %q; answered 200 were %q", c.ID, got, e.events)
			}
		}
	}
	for id, got := range events {
		for i, text := range got {
			if text != fmt.Sprint(i+1) {
				complain("event %d of %s is %q, of %q", i+1, id, text, got)
				break
			}
		}
		if len(got) > countTo {
			complain("%s has %d events", id, len(got))
		}
	}
	return ""
}

// keys returns all calls in the ledger.
func (l *ledger) keys() []agentproto.CallKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.calls))
}
