package tools

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
)

const (
	firstURL = "https://runtime.example/cb/1"
	otherURL = "https://runtime.example/cb/2"
)

var rules = Rules{Horizon: 24 * time.Hour, Remember: Forever, Pauses: []time.Duration{time.Second, 5 * time.Second}, Most: time.Hour}

// A world is the environment of the flow in one schedule: a function, a producer, and a runtime.
type world struct {
	s         *sim.Sim
	p         *Ports
	function  string  // what it returns: "result", "subscription"
	faults    []Class // of the first attempts
	runs      int
	attempts  int
	delivered []sent
}

// A sent is a message that the runtime has received.
type sent struct {
	to, kind, id string
	number       uint64
	reply        bool
}

var (
	place  = Place{"", "g"}
	callID = CallID{"r", "g", "c"}
)

func newWorld(s *sim.Sim, function string, faults ...Class) *world {
	w := &world{s: s, function: function, faults: faults}
	w.p = Build(s.Flow(), Options{Rules: rules, Asked: time.Hour, Jobs: 100, Do: w.do})
	s.Start()
	return w
}

func message(kind, id string) *Message {
	body := `{"type":"` + kind + `","group_id":"g","id":"c","text":"` + id + `"}`
	if kind == agentproto.TypeViewUpdate {
		body = `{"type":"view_update","group_id":"g","view_type":"v","content":{}}`
	}
	return &Message{Kind: kind, ID: "msg_" + id, Body: []byte(body)}
}

func (w *world) do(_ context.Context, _ Place, j Job) Outcome {
	switch j.Kind {
	case Run:
		w.runs++
		return Outcome{Result: message(agentproto.TypeToolResult, "result"), Subscribe: w.function == "subscription", State: []byte("s")}
	case Produce:
		return Outcome{Final: message(agentproto.TypeSubscriptionEvent, "final")}
	case Attempt:
		w.attempts++
		if w.attempts <= len(w.faults) {
			return Outcome{Class: w.faults[w.attempts-1]}
		}
		w.delivered = append(w.delivered, sent{j.To, j.Message.Kind, j.ID, j.Message.Number, j.Reply})
		return Outcome{Class: Accepted}
	}
	return Outcome{}
}

func (w *world) tell(in In) { w.s.Check(w.p.Sessions.Send(w.s.Context(), place, in)) }

func invocation(url, text string) *agentproto.Invocation {
	return &agentproto.Invocation{Operation: "x", ID: "c", GroupID: "g", CallbackURL: url, Arguments: []byte(`{"text":"` + text + `"}`)}
}

func (w *world) invoke(url, text string) {
	inv := invocation(url, text)
	w.tell(In{Invoke: &Invoke{Call: callID, Inv: inv, Print: PrintOf(inv), Epoch: "e"}})
}

// check reports what is wrong once the flow is at rest.
func (w *world) check() {
	w.s.Quiesce()
	if n := w.p.Alive.Len() + w.p.Places.Len() + w.p.Stops.Len(); n > 0 {
		w.s.Errorf("%d entries of calls or jobs are left", n)
	}
	loads, _ := w.p.Load.Latest()
	if l := loads.All; l.Calls != 0 || l.Busy != 0 || l.Bytes != 0 {
		w.s.Errorf("the load is %+v", l)
	}
	if w.runs > 1 {
		w.s.Errorf("the function has run %d times", w.runs)
	}
	// An attempt to an address that the call had earlier may arrive late.
	results, ended, last := make(map[string]int), make(map[string]bool), make(map[string]uint64)
	for _, m := range w.delivered {
		switch {
		case m.reply:
			continue
		case ended[m.to]:
			w.s.Errorf("%v came behind the final event", m)
		case m.number < last[m.to], m.number == last[m.to] && m.kind != agentproto.TypeToolResult:
			w.s.Errorf("%v is not in order", w.delivered)
		}
		last[m.to] = m.number
		if m.kind == agentproto.TypeToolResult {
			results[m.to]++
		}
		ended[m.to] = m.kind == agentproto.TypeSubscriptionEvent && m.id[:9] == "msg_final"
	}
	for to, n := range results {
		if n > 1 {
			w.s.Errorf("%d results at %s", n, to)
		}
	}
}

// results returns the addresses that received results, in order.
func (w *world) results() (to []string) {
	for _, m := range w.delivered {
		if m.kind == agentproto.TypeToolResult && !m.reply {
			to = append(to, m.to)
		}
	}
	return to
}

// A scenario describes what happens to one call.
type scenario struct {
	function string
	fault    string
	other    string // what else arrives
	posts    int    // views
}

var faults = map[string][]Class{"none": nil, "again": {Again}, "again twice": {Again, Again}, "refused": {Refused}, "gone": {Gone}}

func (x scenario) String() string {
	return fmt.Sprint(x.function, ", ", x.fault, ", ", x.other, ", ", x.posts)
}

func (x scenario) once(s *sim.Sim) {
	w := newWorld(s, x.function, faults[x.fault]...)
	w.invoke(firstURL, "one")
	for i := range x.posts {
		w.tell(In{Post: &Post{Call: callID, Message: message(agentproto.TypeViewUpdate, fmt.Sprint("view", i))}})
	}
	switch x.other {
	case "cancel":
		w.tell(In{Cancel: &Cancel{"g", "c"}})
	case "close":
		w.tell(In{Cancel: &Cancel{"g", ""}})
	case "again":
		w.invoke(firstURL, "one")
	case "other URL":
		w.invoke(otherURL, "one")
	case "other call":
		w.invoke(otherURL, "two")
	}
	w.check()
	// Every message says how the call ended. A call that was not cancelled has one result.
	wanted := x.other != "cancel" && x.other != "close"
	if to := w.results(); wanted && x.fault != "refused" && x.fault != "gone" && len(to) == 0 {
		s.Errorf("there is no result: %v", w.delivered)
	} else if x.other == "other URL" && len(to) > 0 && len(faults[x.fault]) == 0 {
		urls := slices.Clone(to)
		if replies := slices.DeleteFunc(slices.Clone(w.delivered), func(m sent) bool { return !m.reply }); len(replies) > 0 {
			urls = append(urls, replies[0].to)
		}
		if !slices.Contains(urls, otherURL) && !slices.Contains(urls, firstURL) {
			s.Errorf("nobody has a result: %v", w.delivered)
		}
	}
}

// scenarios returns all scenarios. It omits those that add many schedules but show nothing new.
func scenarios() (all []scenario) {
	for _, function := range []string{"result", "subscription"} {
		for _, fault := range []string{"none", "again", "again twice", "refused", "gone"} {
			for _, other := range []string{"nothing", "cancel", "close", "again", "other URL", "other call"} {
				another := other == "other URL" || other == "other call"
				retried := fault == "again" || fault == "again twice"
				if another && retried && (function == "subscription" || fault == "again twice") {
					continue
				}
				all = append(all, scenario{function, fault, other, 0})
				if fault != "again twice" && !(another && fault != "none") && other != "other call" && (function == "result" || fault == "none" && !another) {
					all = append(all, scenario{function, fault, other, 1})
				}
			}
		}
	}
	return append(all, scenario{"result", "none", "nothing", 2}, scenario{"result", "none", "cancel", 2})
}

var update = flag.Bool("update", false, "write the numbers of schedules")

// TestEveryScenario runs all schedules of each scenario and compares their number with the one in a file. A different number
// means that the test covers less than before, or that the flow does something new.
func TestEveryScenario(t *testing.T) {
	const file = "testdata/schedules.txt"
	want, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(want)))
	var got strings.Builder
	for i, x := range scenarios() {
		if !long.Searches() && !*update && i%5 > 0 && i < len(lines) {
			got.WriteString(lines[i])
			continue
		}
		n := sim.Exhaustive(t, x.once)
		if t.Failed() {
			t.Fatal(x)
		}
		t.Log(x, n)
		fmt.Fprintf(&got, "%v: %d\n", x, n)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(want) != got.String() {
		t.Errorf("the numbers of schedules are\n%s\nand not those of %s (-update writes them)", &got, file)
	}
}
