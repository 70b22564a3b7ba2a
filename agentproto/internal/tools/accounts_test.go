package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/internal/rerun"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

// accounts are the sums of a session's emissions, as the flow computes them.
type accounts struct {
	Loads  map[string]Load
	Alive  map[Name]int
	Grants map[Grant]int
	Stops  map[uint64]int
}

func newAccounts() accounts {
	return accounts{make(map[string]Load), make(map[Name]int), make(map[Grant]int), make(map[uint64]int)}
}

func (a accounts) add(outs []Out) {
	for _, o := range outs {
		switch {
		case o.Load != nil:
			l := a.Loads[o.Load.Runtime]
			l.add(o.Load.Load)
			a.Loads[o.Load.Runtime] = l
		case o.Alive != nil:
			a.Alive[o.Alive.Name] += counts(o.Alive.Over)
		case o.Grant != nil:
			a.Grants[o.Grant.Grant] += counts(o.Grant.Over)
		case o.Stop != nil:
			a.Stops[o.Stop.Number] += counts(o.Stop.Over)
		}
	}
}

func (a accounts) String() string {
	maps.DeleteFunc(a.Loads, func(_ string, l Load) bool { return l == Load{} })
	maps.DeleteFunc(a.Alive, func(_ Name, n int) bool { return n == 0 })
	maps.DeleteFunc(a.Grants, func(_ Grant, n int) bool { return n == 0 })
	maps.DeleteFunc(a.Stops, func(_ uint64, n int) bool { return n == 0 })
	return fmt.Sprintf("%+v", struct {
		Loads  map[string]Load
		Alive  map[Name]int
		Grants map[Grant]int
		Stops  map[uint64]int
	}(a))
}

// recount computes the accounts from the state of a session.
func recount(s *Session) accounts {
	a := newAccounts()
	add := func(runtime string, l Load) { a.add([]Out{{Load: &LoadOf{runtime, l}}}) }
	still := s.Move.Place.Leaving()
	for _, c := range s.Calls {
		a.Alive[place.name(c.ID)]++
		if still {
			continue
		}
		l := Load{Calls: 1}
		for _, m := range c.Queue {
			l.Busy = 1
			l.Bytes += int64(len(m.Body)) + messageWeight
		}
		add(c.ID.Runtime, l)
	}
	for _, r := range s.Replies {
		add(r.Call.Runtime, Load{Calls: 1, Busy: 1, Bytes: int64(len(r.Message.Body)) + messageWeight})
	}
	for _, f := range s.Done {
		add("", Load{Finished: 1, Results: int64(len(f.Result))})
	}
	for _, g := range s.Grants {
		a.Grants[g]++
	}
	for _, n := range s.Stops {
		a.Stops[n]++
	}
	return a
}

// A clerk does random things to a session and keeps its accounts.
type clerk struct {
	*play
	a        accounts
	open     []Job // jobs without an outcome
	moved    *Moved
	transfer int // number of the last transfer
	steps    int
	seen     map[string]int // what has happened, to check that a run covers everything
}

func (k *clerk) note() string {
	k.steps++
	k.a.add(k.outs)
	k.open = append(k.open, k.jobs...)
	for _, o := range k.outs {
		if o.Token != "" && o.Told != nil && o.Told.Data != nil {
			k.moved = new(Moved) // of the place of a turn made by hand, which is empty
			if err := json.Unmarshal(o.Told.Data, k.moved); err != nil {
				return "what was exported cannot be read: " + err.Error()
			}
		}
	}
	if got, want := k.a.String(), recount(k.s).String(); got != want {
		return fmt.Sprintf("the accounts are\n%s\nand the session has\n%s", got, want)
	}
	results := int64(0)
	for _, f := range k.s.Done {
		results += int64(len(f.Result))
	}
	if results != k.s.Results || len(k.s.Order) != len(k.s.Done) {
		return fmt.Sprintf("%d bytes of results and %d keys are counted, there are %d and %d", k.s.Results, len(k.s.Order), results, len(k.s.Done))
	}
	for _, c := range k.s.Calls {
		if _, done := k.s.Done[c.ID.key()]; done {
			return fmt.Sprint("a call goes on and is finished: ", c.ID)
		}
	}
	if k.over {
		if len(k.open) > 0 {
			return fmt.Sprintf("the session is forgotten while jobs are under way: %+v", k.open)
		}
		k.seen["forgotten"]++
		k.s = newSession()
		if got := recount(k.s).String(); k.a.String() != got {
			return "a forgotten session leaves " + k.a.String()
		}
	}
	return ""
}

// tooLong is the text of a result that is too long to be kept.
var tooLong = strings.Repeat("x", maxKept)

// do makes the step that n encodes.
func (k *clerk) do(n int) string {
	draw := func(most int) (x int) { x, n = n%most, n/most; return x }
	what := draw(16)
	inv := invocation([]string{firstURL, otherURL, "https://runtime.example/cb/3"}[draw(3)], []string{"one", "two"}[draw(7)/6])
	inv.ID = []string{"c", "d", "e"}[draw(3)]
	if draw(2) == 1 {
		inv.GroupID, inv.ThreadAncestors = "child", []string{"g"}
	}
	id := CallID{[]string{"r", "q"}[draw(4)/3], inv.GroupID, inv.ID}
	post := func(kind, text string) *Message {
		m := message(kind, text)
		m.Body = bytes.ReplaceAll(m.Body, []byte(`"id":"c"`), []byte(`"id":"`+id.ID+`"`))
		m.Body = bytes.ReplaceAll(m.Body, []byte(`"group_id":"g"`), []byte(`"group_id":"`+id.Group+`"`))
		return m
	}
	words := []string{"a", "some more words", tooLong}[draw(13)/6]
	order := func(step handover.Step, do Inquiry) {
		k.take(In{Move: &MoveOrder{Step: step, Do: do, Transfer: fmt.Sprint(k.transfer, ".t"), URL: "https://to.example"}})
	}
	switch what {
	case 0, 1, 2:
		k.take(In{Invoke: &Invoke{Call: id, Inv: inv, Print: PrintOf(inv), Epoch: "e", Barred: draw(8) == 7}})
	case 3:
		k.take(In{Post: &Post{Call: id, Message: post(agentproto.TypeViewUpdate, words)}})
	case 4:
		k.take(In{Post: &Post{Call: id, Message: post(agentproto.TypeSubscriptionEvent, words), Event: true, Final: draw(3) == 0, Kept: true, State: []byte(words)}})
	case 5:
		if draw(3) > 0 {
			id.ID = ""
		}
		k.take(In{Cancel: &Cancel{id.Group, id.ID}})
	case 6:
		k.take(In{Grant: &Grant{id.Runtime, id.Group, fmt.Sprint(draw(100))}})
	case 7:
		switch n := draw(8); n {
		case 0:
			k.transfer++
			order(handover.Freeze, "")
		case 1:
			order(handover.Send, "")
		case 2:
			order(handover.Abort, "")
		default:
			order(0, []Inquiry{Look, Interrupt, Quiet, Export, Await}[n-3])
		}
	case 8:
		k.transfer++
		for _, o := range []struct {
			step handover.Step
			do   Inquiry
		}{{handover.Freeze, ""}, {0, Interrupt}, {0, Quiet}, {0, Export}, {handover.Send, ""}}[:1+draw(5)] {
			order(o.step, o.do)
			if why := k.note(); why != "" {
				return why
			}
		}
		order(0, Look)
	case 9:
		if k.moved == nil || k.s.Move.Place.Leaving() {
			return ""
		}
		k.seen["imported"]++
		k.transfer++
		k.take(In{Import: k.moved, Transfer: fmt.Sprint(k.transfer, ".t")})
	case 10: // time passes
		for _, c := range k.s.Calls {
			for _, m := range c.Queue {
				m.Wake = 0
			}
		}
		for _, r := range k.s.Replies {
			r.Message.Wake = 0
		}
		if draw(3) == 0 {
			k.rules.Remember = 0
		}
		k.turn(func(do *turn) { k.rules.fire(k.s, alarm, do) })
		k.rules.Remember = time.Hour
	default:
		if len(k.open) == 0 {
			return ""
		}
		i := draw(len(k.open))
		j := k.open[i]
		k.open = slices.Delete(k.open, i, i+1)
		id = j.Call
		o := Outcome{Suspended: draw(6) == 5}
		switch k.seen[string(j.Kind)]++; {
		case o.Suspended:
		case j.Kind == Run:
			o.Result, o.Subscribe = post(agentproto.TypeToolResult, words), draw(2) == 1
		case j.Kind == Produce:
			o.Final = post(agentproto.TypeSubscriptionEvent, words)
		case j.Kind == Attempt:
			o.Class = []Class{Accepted, Accepted, Accepted, Again, Refused, Gone}[draw(6)]
			if draw(8) == 7 {
				o.Load = Load{Finished: maxDoneAll, Results: maxKeptAll + 10}
			}
		case j.Kind == Settle:
			o.Committed = draw(2) == 1
		}
		k.outcome(j, o)
	}
	return k.note()
}

// TestN76_Accounts does random things to a session. After each step it compares the accounts of its load, calls, grants and jobs
// with its state. It catches a sum that drifts, which would refuse calls forever or bound nothing, and an entry that is left.
func TestN76_Accounts(t *testing.T) {
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	seen, steps := make(map[string]int), 0
	params := gopter.DefaultTestParametersWithSeed(*seed)
	params.MinSuccessfulTests, params.MinSize, params.MaxSize = 800, 20, 120
	properties := gopter.NewProperties(params)
	properties.Property("the accounts are those of the state", prop.ForAll(func(all []int) string {
		k := &clerk{play: newPlay(t), a: newAccounts(), seen: seen}
		defer func() { steps += k.steps }()
		for i, n := range all {
			if why := k.do(n); why != "" {
				return fmt.Sprintf("step %d: %s", i, why)
			}
		}
		return ""
	}, gen.SliceOf(gen.IntRange(0, min(1<<40, math.MaxInt-1)))))
	var report bytes.Buffer
	if !properties.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\nrerun: %s", &report, rerun.Line(t.Name(), "-seed", fmt.Sprint(*seed)))
	}
	for _, what := range []string{"run", "produce", "attempt", "hold", "settle", "imported", "forgotten"} {
		if seen[what] < 20 {
			t.Errorf("%q has happened %d times in %d steps (seed %d)", what, seen[what], steps, *seed)
		}
	}
	t.Logf("seed %d: %d steps, %v", *seed, steps, seen)
}
