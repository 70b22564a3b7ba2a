package windows

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/port"
)

// settings returns the settings of the graphs of these tests.
func settings() engine.Settings {
	return engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }}
}

// itself returns the time of an element that is a time.
func itself(x int64) int64 { return x }

// event returns the event of an element that is a time: the element itself.
func event(_, x int64) int64 { return x }

// TestConfirm checks that the mark advances when as many elements as must confirm it are as new, in any
// order. A heap in the wrong order would let the mark run ahead, so events in time would be late, or stay behind.
func TestConfirm(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		op := engine.NewOp(engine.New(settings()).NewLocation("here"), "Stamp", "")
		c := Clock[int64]{Slack: r.Int64N(5), Confirm: 2 + r.IntN(12)}
		s := newStamp(op, c)
		var all []int64
		m := past
		for range 60 {
			x := r.Int64N(100)
			if x < m {
				continue
			}
			all = append(all, x)
			slices.Sort(all)
			want := past
			if n := len(all) - c.Confirm; n >= 0 {
				want = all[n] - c.Slack
			}
			if m = s.next(x, x, m, s.newest); m != want {
				t.Fatalf("seed %d: behind %d the mark is %d, want %d, of which %d with a slack of %d confirm it", seed, all, m, want, c.Confirm, c.Slack)
			}
		}
	}
}

// TestStampPanics has the function for the time of an element panic, for a single element and in a batch.
// The error must name Stamp and not the operator before it.
func TestStampPanics(t *testing.T) {
	for name, send := range map[string]func(in *port.Input[int64]) error{
		"alone":      func(in *port.Input[int64]) error { return in.Send(t.Context(), 7) },
		"in a batch": func(in *port.Input[int64]) error { _, err := in.SendBatch(t.Context(), []int64{7, 8}); return err },
	} {
		g := live.Drive(engine.New(settings()))
		s := g.NewLocation("here")
		in, n := port.NewInput[int64](s, engine.NewOp(s, "in", ""))
		op := engine.NewOp(s, "Stamp", "")
		Stamp(n, op, func(x int64) int64 { panic(x) }, event, Clock[int64]{})
		g.Start(t.Context())
		send(in)
		if p, ok := g.Wait().(*engine.Panic); !ok || p.Op != op || p.Value != int64(7) {
			t.Errorf("%s: the flow fails with %+v", name, p)
		}
	}
}

// A seen is one observation that a simulation is told of.
type seen struct{ observer, what uint64 }

// A seeing simulation records what observers report.
type seeing struct{ all []seen }

func (s *seeing) Observed(_ string, id, what uint64) { s.all = append(s.all, seen{id, what}) }

func (*seeing) Note(func() string) {}

func (*seeing) Published(*engine.Op, any) {}

// TestStampKeyedIsSeen checks that a simulation is told of each element of a key whether it was late:
// this depends on the order between keys. Otherwise the simulation would treat two schedules that differ
// in it as one.
func TestStampKeyedIsSeen(t *testing.T) {
	run := func(ks []string, xs []int64) []seen {
		w := &seeing{}
		set := settings()
		set.Watch = w
		g := live.Drive(engine.New(set))
		s := g.NewLocation("here")
		in, n := port.NewKeyedInput[string, int64](s, engine.NewOp(s, "in", ""))
		StampKeyed(n, engine.NewOp(s, "StampKeyed", ""), itself, event, Clock[int64]{})
		g.Start(t.Context())
		if _, err := in.SendBatch(t.Context(), ks, xs); err != nil {
			t.Fatal(err)
		}
		return w.all
	}
	early := run([]string{"a", "a", "b"}, []int64{10, 20, 30})
	late := run([]string{"b", "a", "a"}, []int64{30, 10, 20})
	again := run([]string{"a", "a", "b"}, []int64{10, 20, 30})
	if len(early) != 3 || len(late) != 3 || !slices.Equal(early, again) {
		t.Fatalf("of 3 elements are seen %v, %v and %v", early, late, again)
	}
	if early[0].observer != early[1].observer || early[0].observer == early[2].observer {
		t.Errorf("of two keys, one twice, the observers are %v", early)
	}
	if late[0] != early[2] {
		t.Errorf("an element in time is %v and %v", early[2], late[0])
	}
	for i, x := range early[:2] {
		if y := late[i+1]; y.observer != x.observer || y.what == x.what {
			t.Errorf("an element in time is seen as %v, and late as %v", x, y)
		}
	}
}
