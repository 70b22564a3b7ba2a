package keyedstream_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// An act is one thing that a machine does in a turn. An act that sets a timer contains the acts
// of the turn in which the timer fires.
type act struct {
	do    string // emit, decide, forget, after, stop, forgetAfter
	timer keyedstream.Timer
	n     int
	ring  []act
}

// doer is the set of methods that turns and the model of a turn have in common.
type doer interface {
	Emit(string)
	Decide(int)
	Forget()
	After(keyedstream.Timer, time.Duration)
	Stop(keyedstream.Timer)
	ForgetAfter(time.Duration)
}

// actor is the state of the random machine.
type actor struct {
	turns int
	rings [4][]act
}

func (a *actor) perform(acts []act, do doer) {
	a.turns++
	for _, x := range acts {
		switch d := 2 * time.Duration(x.n) * time.Second; x.do {
		case "emit":
			do.Emit(fmt.Sprint(a.turns, ":", x.n))
		case "decide":
			do.Decide(x.n)
		case "forget":
			do.Forget()
		case "after":
			a.rings[x.timer] = x.ring
			do.After(x.timer, d)
		case "stop":
			do.Stop(x.timer)
		case "forgetAfter":
			do.ForgetAfter(d)
		}
	}
}

func (a *actor) step(acts []act, do *timedTurn) { a.perform(acts, do) }

func (a *actor) ring(t keyedstream.Timer, do *timedTurn) { a.perform(a.rings[t], do) }

// A modelLife is a life of a key in the model, with the results of its present turn.
type modelLife struct {
	actor
	decided *int
	timers  map[keyedstream.Timer]modelTimer
	idle    *modelTimer

	us     []string
	a      *int
	forget bool
	later  []func() // changes of timers, applied when the turn is over
	m      *modelMachine
}

type modelTimer struct {
	at    time.Duration
	order int
}

// modelMachine implements the description of machines with a map and a clock.
type modelMachine struct {
	now   time.Duration
	order int
	lives map[string]*modelLife
	lines []string
}

func (l *modelLife) Emit(u string) { l.us = append(l.us, u) }
func (l *modelLife) Forget()       { l.forget = true }
func (l *modelLife) Decide(a int) {
	if l.a == nil {
		l.a = &a
	}
}
func (l *modelLife) due(d time.Duration) modelTimer {
	l.m.order++
	return modelTimer{l.m.now + max(d, 1), l.m.order}
}
func (l *modelLife) After(t keyedstream.Timer, d time.Duration) {
	l.later = append(l.later, func() { l.timers[t] = l.due(d) })
}
func (l *modelLife) Stop(t keyedstream.Timer) {
	l.later = append(l.later, func() { delete(l.timers, t) })
}
func (l *modelLife) ForgetAfter(d time.Duration) {
	l.later = append(l.later, func() { x := l.due(d); l.idle = &x })
}

// turn calls f with the life of a key and applies the results.
func (m *modelMachine) turn(k string, f func(l *modelLife)) {
	l := m.lives[k]
	f(l)
	for _, u := range l.us {
		m.lines = append(m.lines, k+" "+u)
	}
	if l.a != nil && l.decided == nil {
		l.decided = l.a
		m.lines = append(m.lines, fmt.Sprint(k, " decided ", *l.a))
	}
	for _, f := range l.later {
		f()
	}
	if l.forget {
		delete(m.lives, k)
	}
	l.us, l.a, l.later = nil, nil, nil
}

func (m *modelMachine) value(k string, acts []act) {
	if m.lives[k] == nil {
		m.lives[k] = &modelLife{m: m, timers: make(map[keyedstream.Timer]modelTimer)}
	}
	m.turn(k, func(l *modelLife) { l.perform(acts, l) })
}

// pass advances the clock and makes everything happen that is due.
func (m *modelMachine) pass(to time.Duration) {
	for {
		var key string
		var timer keyedstream.Timer
		idles, found := false, false
		next := modelTimer{at: to + 1}
		sooner := func(x modelTimer, idle bool) bool {
			if x.at != next.at {
				return x.at < next.at
			}
			return idles && !idle || idle == idles && x.order < next.order
		}
		for k, l := range m.lives {
			for t, x := range l.timers {
				if sooner(x, false) {
					key, timer, next, idles, found = k, t, x, false, true
				}
			}
			if l.idle != nil && sooner(*l.idle, true) {
				key, next, idles, found = k, *l.idle, true, true
			}
		}
		if !found {
			m.now = to
			return
		}
		if m.now = next.at; idles {
			delete(m.lives, key)
			continue
		}
		delete(m.lives[key].timers, timer)
		m.turn(key, func(l *modelLife) { l.perform(l.rings[timer], l) })
	}
}

// view returns the present decisions.
func (m *modelMachine) view() map[string]int {
	all := make(map[string]int)
	for k, l := range m.lives {
		if l.decided != nil {
			all[k] = *l.decided
		}
	}
	return all
}

// A moment is a batch of values, and the time that passes after it is sent.
type moment struct {
	keys  []string
	acts  [][]act
	sleep time.Duration
}

func drawActs(r *rand.Rand, depth int) (acts []act) {
	for range r.IntN(4) {
		x := act{timer: keyedstream.Timer(r.IntN(4)), n: r.IntN(8)}
		switch n := r.IntN(20); {
		case n < 4:
			x.do = "emit"
		case n < 6:
			x.do = "decide"
		case n < 7:
			x.do = "forget"
		case n < 9:
			x.do = "forgetAfter"
		case n < 12:
			x.do = "stop"
		default:
			if x.do = "after"; depth > 0 {
				x.ring = drawActs(r, depth-1)
			}
		}
		acts = append(acts, x)
	}
	return acts
}

func drawMoments(seed uint64) (all []moment) {
	r := rand.New(rand.NewPCG(seed, 2))
	for range 1 + r.IntN(12) {
		m := moment{sleep: 2 * time.Duration(r.IntN(6)) * time.Second}
		for range r.IntN(5) {
			m.keys, m.acts = append(m.keys, string(rune('a'+r.IntN(3)))), append(m.acts, drawActs(r, 3))
		}
		all = append(all, m)
	}
	return all
}

// byKey sorts lines by key, because keys have no order, and keeps the order within each key. It
// puts decisions after all other lines.
func byKey(lines []string) string {
	decided := func(line string) bool { return strings.Contains(line, "decided") }
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	var us, as []string
	for _, line := range lines {
		if decided(line) {
			as = append(as, line)
		} else {
			us = append(us, line)
		}
	}
	return strings.Join(us, ", ") + "; " + strings.Join(as, ", ")
}

// TestTimedMachineAgainstMap compares random machines with a map and a simulated clock: what
// they emit and decide, the present decisions at each moment, and how many timers are set.
func TestTimedMachineAgainstMap(t *testing.T) {
	params := gopter.DefaultTestParameters()
	params.MinSuccessfulTests = 1000
	laws := gopter.NewProperties(params)
	laws.Property("a machine is a map with timers", prop.ForAll(func(seed uint64) (result *gopter.PropResult) {
		synctest.Test(t, func(t *testing.T) { result = machineAgainstMap(t, drawMoments(seed)) })
		return result
	}, gen.UInt64()))
	laws.TestingRun(t)
}

func machineAgainstMap(t *testing.T, moments []moment) *gopter.PropResult {
	flow := dataflow.New()
	in, ks := keyedstream.Input[string, []act](dataflow.At[Shop](flow), "values")
	var lines []string
	emitted, decided := keyedstream.TimedMachine(ks, func() actor { return actor{} }, (*actor).step, (*actor).ring, "compared")
	keyedstream.InspectWithKey(emitted, func(k, u string) { lines = append(lines, k+" "+u) })
	keyedsingleton.InspectWithKey(decided, func(k string, a int) { lines = append(lines, fmt.Sprint(k, " decided ", a)) })
	view := singleton.Output(keyedsingleton.IntoSingleton(decided), "view")
	app := starts(t, flow)
	m := &modelMachine{lives: make(map[string]*modelLife), now: 1}
	wrong := func(format string, args ...any) *gopter.PropResult {
		app.Stop(t.Context())
		return &gopter.PropResult{Status: gopter.PropFalse, Labels: []string{fmt.Sprintf("%+v\n", moments) + fmt.Sprintf(format, args...)}}
	}
	for i, x := range moments {
		for j, k := range x.keys {
			m.value(k, x.acts[j])
		}
		var err error
		if len(x.keys) == 1 {
			err = in.Send(t.Context(), x.keys[0], x.acts[0])
		} else {
			_, err = in.SendBatch(t.Context(), x.keys, x.acts)
		}
		if err != nil {
			t.Fatal(err)
		}
		// Values arrive at times at which no timer is due.
		time.Sleep(x.sleep + 1001*time.Millisecond)
		synctest.Wait()
		m.pass(m.now + x.sleep + 1001*time.Millisecond)
		if got, want := byKey(lines), byKey(m.lines); got != want {
			return wrong("moment %d: got  %s\nwant %s", i, got, want)
		}
		lines, m.lines = nil, nil
		now, _ := view.Latest()
		got := make(map[string]int)
		for k, a := range now.All() {
			got[k] = a
		}
		if want := m.view(); fmt.Sprint(got) != fmt.Sprint(want) {
			return wrong("moment %d: decided are %v, want %v", i, got, want)
		}
		timers := 0
		for _, l := range m.lives {
			if timers += len(l.timers); l.idle != nil {
				timers++
			}
		}
		if status := app.Status(); len(status) != 1 || status[0].Timers != timers {
			return wrong("moment %d: %+v, want %d timers", i, status, timers)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &gopter.PropResult{Status: gopter.PropTrue}
}
