package sim_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type numbers = map[int]bool

func noNumbers() numbers { return numbers{} }

func put(acc *numbers, x int) { (*acc)[x] = true }

func fresh(acc *numbers, x int) {
	next := numbers{x: true}
	for y := range *acc {
		next[y] = true
	}
	*acc = next
}

func alone(x int) numbers { return numbers{x: true} }

// spoil changes its argument.
func spoil(m numbers) int { m[-1] = true; return len(m) }

func size(m numbers) int { return len(m) }

// TestAliases changes a value after each way in which it can reach a second reader. Beside each is
// a program that does not change the value, or has one reader only. It catches a way that is not
// checked, and a program that is refused although no difference is visible.
func TestAliases(t *testing.T) {
	cell := func(b bench, step func(*numbers, int)) dataflow.Singleton[numbers, Server, unbounded] {
		return dataflow.Fold(b.stream("xs", 1, 2), noNumbers, step)
	}
	read := func(b bench, out *dataflow.SingletonOutputPort[numbers]) {
		in, more := dataflow.Input[int](b.at, "more")
		dataflow.Output(more, "more")
		b.Start()
		b.Quiesce()
		out.Latest()
		b.Check(in.Send(b.Context(), 1))
		b.Quiesce()
	}
	tests := []struct {
		name  string
		build func(b bench)
		want  []string
	}{
		{"a latest value, folded in place later", func(b bench) {
			in, xs := dataflow.Input[int](b.at, "xs")
			out := singleton.Output(dataflow.Fold(xs, noNumbers, put), "out")
			b.Start()
			b.Check(in.Send(b.Context(), 1))
			b.Quiesce()
			out.Latest()
			b.Check(in.Send(b.Context(), 2))
			b.Quiesce()
		}, []string{"after singleton.Output out (", "dataflow.Fold (", "ran last"}},
		{"a latest value, folded afresh", func(b bench) { read(b, singleton.Output(cell(b, fresh), "out")) }, nil},
		{"a latest value that nobody has read while it changed", func(b bench) { read(b, singleton.Output(cell(b, put), "out")) }, nil},
		{"an element of an output, changed by who made it", func(b bench) {
			last := noNumbers()
			dataflow.Output(dataflow.Map(b.stream("xs", 1, 2), func(x int) numbers { last[x] = true; return last }), "out")
			b.Start()
		}, []string{"after dataflow.Output out (", "dataflow.Output"}},
		{"elements that reach an output together, one of which is changed later", func(b bench) {
			kept := noNumbers()
			twice := func(_ int, emit func(numbers)) { emit(noNumbers()); emit(kept) }
			dataflow.Output(dataflow.FlatMap(b.stream("xs", 1), twice), "out")
			dataflow.Inspect(b.stream("ys", 1), func(y int) { kept[y] = true })
			b.Start()
		}, []string{"after dataflow.Output out (", "dataflow.Inspect ("}},
		{"an element of an output", func(b bench) {
			dataflow.Output(dataflow.Map(b.stream("xs", 1, 2), alone), "out")
			b.Start()
		}, nil},
		{"an entry, changed by who made it", func(b bench) {
			last := noNumbers()
			keyedsingleton.Output(keyedsingleton.Map(b.entries("xs", 1, 2), func(x int) numbers { last[x] = true; return last }), "out")
			b.Start()
		}, []string{"after keyedsingleton.Output out ("}},
		{"an entry", func(b bench) {
			keyedsingleton.Output(keyedsingleton.Map(b.entries("xs", 1, 2), alone), "out")
			b.Start()
		}, nil},
		{"an element with two readers, the first of which changes it", func(b bench) {
			ms := dataflow.Map(b.stream("xs", 1), alone)
			dataflow.Output(dataflow.Map(ms, spoil), "a")
			dataflow.Output(dataflow.Map(ms, size), "b")
			b.Start()
		}, []string{"a value that dataflow.Map (", "and dataflow.Map (", "ran last"}},
		{"an element with two readers", func(b bench) {
			ms := dataflow.Map(b.stream("xs", 1), alone)
			dataflow.Output(dataflow.Map(ms, size), "a")
			dataflow.Output(dataflow.Map(ms, size), "b")
			b.Start()
		}, nil},
		{"an element with one reader, which changes it", func(b bench) {
			dataflow.Output(dataflow.Map(dataflow.Map(b.stream("xs", 1), alone), spoil), "a")
			b.Start()
		}, nil},
		{"values under keys with two readers", func(b bench) {
			ms := keyedsingleton.Map(b.entries("xs", 1), alone)
			keyedsingleton.Output(keyedsingleton.Map(ms, spoil), "a")
			keyedsingleton.Output(keyedsingleton.Map(ms, size), "b")
			b.Start()
		}, []string{"a value that keyedsingleton.Map ("}},
		{"a value with two readers", func(b bench) {
			m := cell(b, fresh)
			singleton.Output(singleton.Map(m, spoil), "a")
			singleton.Output(singleton.Map(m, size), "b")
			b.Start()
		}, []string{"a value that dataflow.Fold ("}},
		{"a snapshot that the slice changes", func(b bench) {
			emit(singleton.Map(slice.Snapshot(slice.At(b.at), cell(b, fresh), tried), spoil))
			b.Start()
		}, []string{"a value that dataflow.Fold (", "and singleton.Map ("}},
		{"a snapshot of what is folded in place and read in slices only", func(b bench) {
			emit(singleton.Map(slice.Snapshot(slice.At(b.at), cell(b, put), tried), size))
			b.Start()
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			story, _ := sim.Fails(t, func(s *sim.Sim) { test.build(bench{s, dataflow.At[Server](s.Flow())}) })
			if test.want == nil && story != "" {
				t.Errorf("it fails: %s", story)
			}
			for _, part := range test.want {
				if !strings.Contains(story, part) {
					t.Errorf("the story lacks %q: %s", part, story)
				}
			}
		})
	}
}
