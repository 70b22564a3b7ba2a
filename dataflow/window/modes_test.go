package window_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// The helpers in this file run a program in each way in which a flow can run: in a real app with
// batches of several sizes, from a recording, and in every schedule.

type server struct{ dataflow.Process }

// A tick is an element of the tests: a key, a time in seconds, and a number that identifies it.
type tick struct {
	Key string
	At  int
	N   int
}

func at(t tick) window.Time { return seconds(t.At) }

func seconds(n int) window.Time { return window.Time(0).Add(time.Duration(n) * time.Second) }

func key(e window.Event[tick]) string { return e.Value.Key }

func slack(n int) window.Disorder { return window.Disorder{Slack: time.Duration(n) * time.Second} }

type (
	ticks        = dataflow.Stream[tick, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	eventStream  = dataflow.Stream[window.Event[tick], server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	text         = dataflow.Stream[string, server, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	counts       = dataflow.KeyedSingleton[window.Key[string], int, server, bounds.BoundedValue]
	boundedValue = bounds.BoundedValue
	bounded      = bounds.Bounded
	unbounded    = bounds.Unbounded
)

// of returns ticks of one key at the given times, numbered from 1.
func of(key string, times ...int) (all []tick) {
	for i, t := range times {
		all = append(all, tick{key, t, i + 1})
	}
	return all
}

func inSeconds(t window.Time) string { return fmt.Sprint(int64(t) / int64(time.Second)) }

func spanned(k window.Key[string]) string {
	return fmt.Sprintf("%s[%s,%s)", k.Key, inSeconds(k.Span.From), inSeconds(k.Span.To))
}

// counted writes the closed spans with their counts.
func counted(closed counts) text {
	return dataflow.WeakenOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
		return fmt.Sprintf("%s=%d", spanned(e.Key), e.Value)
	}))
}

// said writes each event after a name.
func said[O dataflow.Order](name string, es dataflow.Stream[window.Event[tick], server, bounds.Unbounded, O, dataflow.ExactlyOnce]) text {
	return dataflow.WeakenOrder(dataflow.Map(es, func(e window.Event[tick]) string {
		return fmt.Sprintf("%s %s%d@%s", name, e.Value.Key, e.Value.N, inSeconds(e.At))
	}))
}

// keyedLines writes each value after its key, in the order of the key.
func keyedLines[V any](ks dataflow.KeyedStream[string, V, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], line func(V) string) text {
	return dataflow.WeakenOrder(keyedstream.Values(keyedstream.MapWithKey(ks, func(k string, v V) string { return k + " " + line(v) })))
}

// A program takes its sources and returns its outputs.
type program func(xs []ticks) []text

type ports struct {
	ins  []*dataflow.InputPort[tick]
	outs []*dataflow.OutputPort[string]
}

func build(flow *dataflow.Flow, sources int, p program) (b ports) {
	here := dataflow.At[server](flow)
	var xs []ticks
	for i := range sources {
		in, x := dataflow.Input[tick](here, fmt.Sprintf("source %d", i))
		b.ins, xs = append(b.ins, in), append(xs, x)
	}
	for i, out := range p(xs) {
		b.outs = append(b.outs, dataflow.Output(out, fmt.Sprintf("out %d", i)))
	}
	return b
}

// report joins the outputs into one text. The lines of an output are sorted unless inOrder.
func report(outs [][]string, inOrder bool) string {
	var all []string
	for _, lines := range outs {
		if !inOrder {
			slices.Sort(lines)
		}
		all = append(all, strings.Join(lines, " "))
	}
	return strings.Join(all, " | ")
}

// produce runs a program in a real app: it sends the sources in turn, cut elements at a time.
func produce(t *testing.T, sources [][]tick, cut int, p program, record *dataflow.Recording) [][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	flow := dataflow.NewWithOptions(dataflow.Options{Record: record})
	b := build(flow, len(sources), p)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		t.Fatal(err)
	}
	for sent, more := 0, true; more; sent += cut {
		more = false
		for i, xs := range sources {
			if sent >= len(xs) {
				continue
			}
			more = true
			if _, err := b.ins[i].SendBatch(ctx, xs[sent:min(sent+cut, len(xs))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, in := range b.ins {
		in.Close()
	}
	outs := make([][]string, len(b.outs))
	for i, out := range b.outs {
		for x, err := out.Next(ctx); err == nil; x, err = out.Next(ctx) {
			outs[i] = append(outs[i], x)
		}
	}
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	return outs
}

// simulated runs one schedule of a program. If send is false, the elements come from a recording.
func simulated(s *sim.Sim, sources [][]tick, p program, send bool) [][]string {
	b := build(s.Flow(), len(sources), p)
	s.Start()
	if send {
		for i, in := range b.ins {
			for _, x := range sources[i] {
				s.Check(in.Send(s.Context(), x))
			}
			in.Close()
		}
	}
	outs := make([][]string, len(b.outs))
	for i, out := range b.outs {
		outs[i] = sim.Collect(s, out)
	}
	return outs
}

// A want is the output of a program, however it is run.
type want struct {
	report    string
	inOrder   bool
	schedules int // 0 means 1
}

// check runs a program in every way and compares its output.
func check(t *testing.T, sources [][]tick, w want, p program) {
	t.Helper()
	for _, cut := range []int{1, 2, 3, 5, 1000} {
		var record dataflow.Recording
		if got := report(produce(t, sources, cut, p, &record), w.inOrder); got != w.report {
			t.Errorf("in batches of %d:\n got %s\nwant %s", cut, got, w.report)
		}
		sim.Rerun(t, &record, func(s *sim.Sim) {
			if got := report(simulated(s, sources, p, false), w.inOrder); got != w.report {
				s.Errorf("recorded in batches of %d:\n got %s\nwant %s", cut, got, w.report)
			}
		})
	}
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		if got := report(simulated(s, sources, p, true), w.inOrder); got != w.report {
			s.Errorf("got %s\nwant %s", got, w.report)
		}
	})
	if n != max(w.schedules, 1) {
		t.Errorf("%d schedules, want %d", n, max(w.schedules, 1))
	}
}
