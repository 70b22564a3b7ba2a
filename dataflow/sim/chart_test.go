package sim_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

var update = flag.Bool("update", false, "write the golden files of charts")

type register struct {
	in    *dataflow.SharedInputPort[int]
	value *dataflow.SingletonOutputPort[int]
}

// lostUpdate is a register that clients read and then write.
func lostUpdate() sim.Spec[register] {
	add := func(c *sim.Ctx, p register) error {
		n, _ := p.value.Latest()
		return p.in.Send(c, n+1)
	}
	return sim.Spec[register]{
		Build: func(f *dataflow.Flow) register {
			in, xs := dataflow.SharedInput[int](dataflow.At[Server](f), "set")
			last := dataflow.Fold(dataflow.AssumeOrder(xs, "the last write wins"), func() int { return 0 }, func(acc *int, x int) { *acc = x })
			return register{in, singleton.Output(last, "value")}
		},
		Clients: []sim.Client[register]{{Name: "ann", Do: add}, {Name: "bob", Do: add}},
		Eventually: map[string]func(*sim.View, register) error{"both count": func(_ *sim.View, p register) error {
			if n, _ := p.value.Latest(); n != 2 {
				return fmt.Errorf("the value is %d", n)
			}
			return nil
		}},
	}
}

type pinged struct {
	in    *dataflow.EntryInputPort[string, int]
	pong  *dataflow.EntryOutputPort[string, int]
	count *dataflow.SingletonOutputPort[int]
	far   *dataflow.EntryOutputPort[string, int]
}

// staleRead reads the count of one location after another location has answered.
func staleRead() sim.Spec[pinged] {
	return sim.Spec[pinged]{
		Build: func(f *dataflow.Flow) pinged {
			in, es := keyedsingleton.Input[string, int](dataflow.At[Server](f), "ping")
			there := keyedsingleton.Send(es, dataflow.At[Away](f))
			return pinged{in, keyedsingleton.Output(es, "pong"), singleton.Output(keyedsingleton.KeyCount(there), "count"), keyedsingleton.Output(there, "far")}
		},
		Clients: []sim.Client[pinged]{{Name: "ann", Do: func(c *sim.Ctx, p pinged) error {
			if err := p.in.Put(c, "a", 1); err != nil {
				return err
			}
			if _, err := p.pong.Await(c, "a"); err != nil {
				return err
			}
			if n, _ := p.count.Latest(); n != 1 {
				return fmt.Errorf("the count is %d after the pong", n)
			}
			return nil
		}}},
	}
}

type leased struct {
	in   *dataflow.KeyedInputPort[string, string]
	says *dataflow.OutputPort[string]
}

// lateTimer has a lease that expires before it is renewed.
func lateTimer() sim.Spec[leased] {
	const end keyedstream.Timer = 0
	type turn = keyedstream.TimedTurn[string, string, bool]
	return sim.Spec[leased]{
		Build: func(f *dataflow.Flow) leased {
			in, words := keyedstream.Input[string, string](dataflow.At[Server](f), "leases")
			says, _ := keyedstream.TimedMachine(words, func() int { return 0 },
				func(_ *int, word string, do *turn) { do.After(end, time.Second) },
				func(_ *int, _ keyedstream.Timer, do *turn) { do.Emit("it is over") }, "a lease ends when nobody renews it")
			return leased{in, dataflow.Output(keyedstream.Values(says), "says")}
		},
		Clients: []sim.Client[leased]{{Name: "ann", Do: func(c *sim.Ctx, p leased) error {
			return errors.Join(p.in.Send(c, "a", "take"), p.in.Send(c, "a", "renew"))
		}}},
		Eventually: map[string]func(*sim.View, leased) error{"it ends once": func(v *sim.View, p leased) error {
			if all := sim.Elements(v, p.says); len(all) != 1 {
				return fmt.Errorf("it has ended %d times", len(all))
			}
			return nil
		}},
	}
}

var lineNumbers = regexp.MustCompile(`\.go:\d+`)

// TestCharts compares the shortest counterexamples of typical bugs with golden files, as text and
// as a diagram. It catches a counterexample that is longer than necessary, depends on how it was
// found, or is wider than a page.
func TestCharts(t *testing.T) {
	charts(t, "lost-update", lostUpdate())
	charts(t, "stale-read", staleRead())
	charts(t, "late-timer", lateTimer())
	charts(t, "lost-message", lostMessage())
	charts(t, "crash", crash())
}

// lostMessage is staleRead with a message that may be lost.
func lostMessage() sim.Spec[pinged] {
	spec := staleRead()
	spec.Faults = sim.Faults{Lose: 1}
	spec.Clients = []sim.Client[pinged]{{Name: "ann", Do: func(c *sim.Ctx, p pinged) error { return p.in.Put(c, "a", 1) }}}
	spec.Eventually = map[string]func(*sim.View, pinged) error{"all count": func(_ *sim.View, p pinged) error {
		if n, _ := p.count.Latest(); n != 1 {
			return fmt.Errorf("the count is %d", n)
		}
		return nil
	}}
	return spec
}

// crash is lostMessage with a location that may stop.
func crash() sim.Spec[pinged] {
	spec := lostMessage()
	spec.Faults = sim.Faults{Halts: 1, Locations: []string{"Away"}}
	spec.Eventually = nil
	spec.Clients[0].Do = func(c *sim.Ctx, p pinged) error {
		if err := p.in.Put(c, "a", 1); err != nil {
			return err
		}
		_, err := p.pong.Await(c, "a")
		return err
	}
	spec.Clients = append(spec.Clients, sim.Client[pinged]{Name: "bob", Do: func(c *sim.Ctx, p pinged) error {
		for range p.far.All(c) {
			return nil
		}
		return errors.New("nothing has come")
	}})
	return spec
}

func charts[P any](t *testing.T, name string, spec sim.Spec[P]) {
	t.Helper()
	var first string
	for _, opts := range [][]sim.Option{nil, {sim.AtRandom(1000, 1)}, {sim.AtRandom(1000, 2)}} {
		_, err := sim.Check(context.Background(), spec, opts...)
		var failure *sim.Failure
		if !errors.As(err, &failure) {
			t.Fatalf("%s: %v", name, err)
		}
		if first == "" {
			first = failure.Counterexample.Trace()
		}
		if got := failure.Counterexample.Trace(); got != first {
			t.Errorf("%s: the schedule is %s, and %s when it is found in another way", name, got, first)
		}
		var text, diagram bytes.Buffer
		if err := errors.Join(failure.Counterexample.WriteText(&text), failure.Counterexample.WriteMermaid(&diagram)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s: a line has %d columns: %s", name, n, line)
			}
		}
		golden(t, name+".txt", text.Bytes())
		golden(t, name+".mmd", diagram.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	got = lineNumbers.ReplaceAll(got, []byte(".go:NN"))
	path := filepath.Join("testdata", "charts", name)
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, got, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s%v", path, got, want, err)
	}
}
