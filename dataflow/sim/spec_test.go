package sim_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/linear"
	"github.com/millrace/millrace/internal/long"
)

type looks = func(v *sim.View, p counted) string

// TestSpecReducedIsWhole compares what properties see with and without the reduction. It catches a
// property that reads something on which no move is marked as dependent.
func TestSpecReducedIsWhole(t *testing.T) {
	reader := sim.Client[counted]{Name: "c", Do: func(c *sim.Ctx, p counted) error {
		n, _ := p.other.Latest()
		c.Observe(n)
		return nil
	}}
	always := map[string]looks{
		"nothing": func(*sim.View, counted) string { return "" },
		"both counts": func(_ *sim.View, p counted) string {
			n, _ := p.count.Latest()
			m, _ := p.other.Latest()
			return fmt.Sprint(n, m)
		},
		"one count": func(_ *sim.View, p counted) string { n, _ := p.count.Latest(); return fmt.Sprint(n) },
		"the other count if there is one": func(_ *sim.View, p counted) string {
			if n, _ := p.count.Latest(); n != 1 {
				return ""
			}
			m, _ := p.other.Latest()
			return fmt.Sprint(m)
		},
		"elements and keys": func(v *sim.View, p counted) string {
			has, _ := p.in.Has(t.Context(), 2)
			return fmt.Sprint(sim.Elements(v, p.out), has)
		},
		"what clients have done": func(v *sim.View, p counted) string {
			return fmt.Sprint(len(v.Ops("a")), len(v.Ops("b")), v.Done("c"))
		},
		"order of clients": func(v *sim.View, p counted) string { return turnsOf(v) },
	}
	eventually := map[string]looks{
		"order of clients": func(v *sim.View, p counted) string { return turnsOf(v) },
		"counts": func(_ *sim.View, p counted) string {
			n, _ := p.count.Latest()
			return fmt.Sprint(n)
		},
	}
	saved := 0
	compared := 0
	compare := func(name string, look looks, set func(s *sim.Spec[counted], p map[string]func(*sim.View, counted) error)) {
		if compared++; compared > long.Of(2, len(always)+len(eventually)) {
			return
		}
		see := func(opts ...sim.Option) (seen map[string]bool, executions int) {
			seen = make(map[string]bool)
			spec := sim.Spec[counted]{Build: buildCounted, Clients: []sim.Client[counted]{puts("a", 1, 2), sends("b", 1), reader}}
			set(&spec, map[string]func(*sim.View, counted) error{name: func(v *sim.View, p counted) error {
				seen[look(v, p)] = true
				return nil
			}})
			report, err := sim.Check(t.Context(), spec, opts...)
			if err != nil || !report.Complete {
				t.Fatalf("%s: %v", name, err)
			}
			return seen, report.Executions
		}
		reduced, few := see()
		whole, many := see(sim.Unreduced())
		if !maps.Equal(reduced, whole) {
			t.Errorf("%s: %d executions show %q, and %d without the reduction %q", name, few, slices.Sorted(maps.Keys(reduced)), many, slices.Sorted(maps.Keys(whole)))
		}
		saved += many - few
		t.Logf("%s: %d outcomes in %d executions, %d without the reduction", name, len(reduced), few, many)
	}
	for name, look := range always {
		compare(name, look, func(s *sim.Spec[counted], p map[string]func(*sim.View, counted) error) { s.Always = p })
	}
	for name, look := range eventually {
		compare(name, look, func(s *sim.Spec[counted], p map[string]func(*sim.View, counted) error) { s.Eventually = p })
	}
	if saved < long.Of(1, 1000) {
		t.Errorf("the reduction saves %d executions", saved)
	}
}

// turnsOf returns the order in which clients used ports.
func turnsOf(v *sim.View) string {
	var all []string
	for _, op := range v.History() {
		all = append(all, op.Client)
	}
	return strings.Join(all, "")
}

// everySpec has two clients that put the same key, so that one is refused.
func everySpec() sim.Spec[counted] {
	return sim.Spec[counted]{Build: buildCounted, Clients: []sim.Client[counted]{puts("a", 1), puts("b", 1)}}
}

// TestVacuous checks that a Sometimes property that never holds is an error, and so is an
// incomplete exploration. It catches a proof of nothing.
func TestVacuous(t *testing.T) {
	spec := sim.Spec[counted]{Build: buildCounted, Clients: []sim.Client[counted]{puts("a", 1, 2), sends("b", 1, 2)}}
	spec.Sometimes = map[string]func(*sim.View, counted) bool{
		"two":   func(_ *sim.View, p counted) bool { n, _ := p.count.Latest(); return n == 2 },
		"three": func(_ *sim.View, p counted) bool { n, _ := p.count.Latest(); return n == 3 },
	}
	report, err := sim.Check(t.Context(), spec)
	if !errors.Is(err, sim.ErrVacuous) || !strings.Contains(err.Error(), `"three"`) || !report.Complete || report.Sometimes["two"] == 0 {
		t.Errorf("%v: %v", err, report)
	}
	one := sim.Spec[counted]{Build: buildCounted, Clients: []sim.Client[counted]{puts("a", 1), puts("b", 2)}}
	spec.Always = map[string]func(*sim.View, counted) error{"order": func(v *sim.View, _ counted) error { turnsOf(v); return nil }}
	if report, err = sim.Check(t.Context(), spec, sim.Limit(3)); !errors.Is(err, sim.ErrIncomplete) || report.Complete || report.Executions != 3 || report.Why != "the limit is 3 executions" {
		t.Errorf("with a limit: %v: %v", err, report)
	}
	if report, err = sim.Check(t.Context(), one, sim.AtRandom(5, 3)); err != nil || report.Complete || report.Executions != 5 || report.Seed != 3 {
		t.Errorf("at random: %v: %v", err, report)
	}
}

// TestClientsFail checks that an error, a panic, and a wait for something that never comes fail the
// schedule, with the name of the client. It catches a client that ends unnoticed.
func TestClientsFail(t *testing.T) {
	wrong := errors.New("wrong")
	for _, test := range []struct {
		do       func(c *sim.Ctx, p counted) error
		is       error
		says     string
		property string
	}{
		{func(*sim.Ctx, counted) error { return wrong }, wrong, "wrong", `client "x"`},
		{func(c *sim.Ctx, p counted) error {
			if c.Choose(3) == 2 {
				return wrong
			}
			return nil
		}, wrong, "wrong", `client "x"`},
		{func(c *sim.Ctx, p counted) error { panic("no") }, nil, "it panicked: no", `client "x"`},
		{func(c *sim.Ctx, p counted) error { _, err := p.out.Next(c); return err }, sim.ErrQuiet, "never come", `client "x"`},
		{func(c *sim.Ctx, p counted) error {
			c.Never(func() error {
				if n, _ := p.count.Latest(); n > 0 {
					return wrong
				}
				return nil
			})
			return nil
		}, wrong, "wrong", `client "x"`},
	} {
		spec := everySpec()
		spec.Clients[1] = sim.Client[counted]{Name: "x", Do: test.do}
		_, err := sim.Check(t.Context(), spec)
		var failure *sim.Failure
		if !errors.As(err, &failure) || failure.Property != test.property || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want %q", err, test.says)
		}
	}
	spec := everySpec() // the second put of one key
	if _, err := sim.Check(t.Context(), spec); !errors.Is(err, dataflow.ErrDuplicateKey) {
		t.Error(err)
	}
	spec.Clients[1].Do = func(c *sim.Ctx, p counted) error { c.Assume(false); return wrong }
	if report, err := sim.Check(t.Context(), spec); err != nil || report.Discarded == 0 || report.Schedules != 0 {
		t.Errorf("%v: %v", err, report)
	}
}

// TestPropertiesChangeNothing checks that a property that sends, takes or waits gets an error. It
// catches a property whose reads are moves.
func TestPropertiesChangeNothing(t *testing.T) {
	for _, do := range []func(c *sim.View, p counted) error{
		func(_ *sim.View, p counted) error { _ = p.sent.Send(t.Context(), 1); return nil },
		func(_ *sim.View, p counted) error { _ = p.in.Put(t.Context(), 9, 1); return nil },
		func(_ *sim.View, p counted) error { _, _ = p.out.Next(t.Context()); return nil },
	} {
		spec := sim.Spec[counted]{Build: buildCounted, Clients: []sim.Client[counted]{sends("a", 1)}}
		spec.Eventually = map[string]func(*sim.View, counted) error{"looks": do}
		if _, err := sim.Check(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "a property looks at ports and changes nothing") {
			t.Error(err)
		}
	}
}

// TestWrongSpecs checks that a specification that cannot run is an error that says what is missing.
func TestWrongSpecs(t *testing.T) {
	client := puts("a", 1)
	for want, spec := range map[string]sim.Spec[counted]{
		"no Build":                           {},
		`client "a" of the spec`:             {Build: buildCounted, Clients: []sim.Client[counted]{{Name: "a"}}},
		`the name "a"`:                       {Build: buildCounted, Clients: []sim.Client[counted]{client, client}},
		`Always "x"`:                         {Build: buildCounted, Always: map[string]func(*sim.View, counted) error{"x": nil}},
		`Eventually "x"`:                     {Build: buildCounted, Eventually: map[string]func(*sim.View, counted) error{"x": nil}},
		`Sometimes "x"`:                      {Build: buildCounted, Sometimes: map[string]func(*sim.View, counted) bool{"x": nil}},
		`Monitor "x"`:                        {Build: buildCounted, Monitors: map[string]func() sim.Monitor{"x": nil}},
		"has no name":                        {Build: buildCounted, Linear: []sim.Linear{{}}},
		`"x" of the specification has no Of`: {Build: buildCounted, Linear: []sim.Linear{{Name: "x"}}},
		"the model of Linear":                {Build: buildCounted, Linear: []sim.Linear{{Name: "x", Of: func(sim.Op) (k, in, out any, ok bool) { return }}}},
	} {
		if report, err := sim.Check(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) || report != nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, option := range map[string]sim.Option{"Limit(0)": sim.Limit(0), "AtRandom(0, 1)": sim.AtRandom(0, 1), "ByPriority(2) is about": sim.ByPriority(2), "ByPriority(0)": sim.ByPriority(0), `"x" is no schedule`: sim.Trace("x")} {
		if _, err := sim.Check(t.Context(), everySpec(), option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A quota is a monitor that lets each client use ports twice, and waits for the second use of client a.
type quota struct{ used map[string]int }

func (q *quota) On(op sim.Op) error {
	if q.used[op.Client]++; q.used[op.Client] > 2 {
		return fmt.Errorf("%s has used ports %d times", op.Client, q.used[op.Client])
	}
	return nil
}

func (q *quota) Hot() bool { return q.used["a"] == 1 }

// TestMonitor checks that a monitor receives the operations of clients, can fail a schedule, and is
// asked at the end. It catches a monitor that is reused for the next schedule.
func TestMonitor(t *testing.T) {
	for n, want := range []string{"", "it waits for something", "", "a has used ports 3 times"} {
		spec := sim.Spec[counted]{
			Build: buildCounted, Clients: []sim.Client[counted]{puts("a", []int{1, 2, 3}[:n]...), puts("b", 4, 5)},
			Monitors: map[string]func() sim.Monitor{"quota": func() sim.Monitor { return &quota{make(map[string]int)} }},
		}
		_, err := sim.Check(t.Context(), spec)
		var failure *sim.Failure
		if want == "" && err != nil || want != "" && (!errors.As(err, &failure) || failure.Property != "quota" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %q", n, err, want)
		}
	}
}

// TestLinear checks that reading a register and then writing the sum is not linearizable as an
// addition, and that puts of one key are linearizable, whoever wins. It catches operations recorded
// in another order than that of the schedule.
func TestLinear(t *testing.T) {
	spec := lostUpdate()
	spec.Eventually = nil
	add := func(c *sim.Ctx, p register) error {
		_, err := sim.Call(c, "add", nil, 1, func() (int, error) {
			n, _ := p.value.Latest()
			return n + 1, p.in.Send(c, n+1)
		})
		return err
	}
	spec.Clients = []sim.Client[register]{{Name: "ann", Do: add}, {Name: "bob", Do: add}}
	spec.Linear = []sim.Linear{{Name: "adds", Model: linear.Counter(), Of: func(op sim.Op) (key, input, output any, ok bool) {
		return nil, linear.Add{N: 1}, op.Value, op.Do == "call"
	}}}
	if _, err := sim.Check(t.Context(), spec); !errors.Is(err, linear.ErrNot) {
		t.Error(err)
	}
	puts := sim.Spec[counted]{Build: buildCounted, Linear: []sim.Linear{{
		Name: "puts", Model: linear.PutOnce(), Of: func(op sim.Op) (key, input, output any, ok bool) {
			return op.Key, linear.Put{Value: op.Value}, op.OK, op.Do == "put"
		},
	}}}
	for i, name := range []string{"a", "b", "c"} {
		puts.Clients = append(puts.Clients, sim.Client[counted]{Name: name, Do: func(c *sim.Ctx, p counted) error {
			if err := p.in.Put(c, 1, i); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
				return err
			}
			return nil
		}})
	}
	won := make(map[string]bool)
	puts.Eventually = map[string]func(*sim.View, counted) error{"": func(v *sim.View, _ counted) error {
		for _, op := range v.History() {
			if op.OK {
				won[op.Client] = true
			}
		}
		return nil
	}}
	if _, err := sim.Check(t.Context(), puts); err != nil || len(won) != 3 {
		t.Errorf("%v: %v have won", err, won)
	}
}

// A failing is a test that may fail and records its output.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Helper()                      {}
func (f *failing) Logf(format string, a ...any) { f.said = append(f.said, fmt.Sprintf(format, a...)) }
func (f *failing) Fatalf(format string, a ...any) {
	f.Logf("FAIL: "+format, a...)
	runtime.Goexit()
}

// fails runs a test that may fail and returns its output.
func fails(t *testing.T, f func(t testing.TB)) string {
	x := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(x)
	}()
	<-done
	return strings.Join(x.said, "\n")
}

func (f *failing) Errorf(format string, a ...any) { f.Logf("FAIL: "+format, a...) }
func (f *failing) FailNow()                       { runtime.Goexit() }
