package port

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/state"
)

// A letter is a value that contains a pointer.
type letter struct {
	To   *string
	Text string
}

// A post is a graph with an output of letters.
type post struct {
	graph   *engine.Graph
	in      *Input[int]
	letters *EntryOutput[int, *letter]
}

func newPost(drive func(*engine.Graph)) *post {
	p := &post{graph: engine.New(engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }})}
	drive(p.graph)
	s := p.graph.NewLocation("here")
	in, n := NewInput[int](s, engine.NewOp(s, "in", ""))
	keyed := operators.KeyBy(n, engine.NewOp(s, "KeyBy", ""), func(x int) int { return x })
	p.in = in
	p.letters = NewEntryOutput(operators.KMap(keyed, engine.NewOp(s, "Map", ""), letterOf), engine.NewOp(s, "letters", ""))
	p.graph.Start(context.Background())
	return p
}

func letterOf(x int) *letter {
	to := fmt.Sprint("reader ", x)
	return &letter{&to, strings.Repeat("text ", x)}
}

func led() *post { return newPost(func(g *engine.Graph) { logdriven.Drive(g, jsonCodec{}, nil) }) }

func shownBy(remote engine.Remote) *post {
	return newPost(func(g *engine.Graph) { logdriven.Facade(g, jsonCodec{}, remote) })
}

func (p *post) step(t *testing.T, l *logdriven.Executor, xs ...int) logdriven.Emission {
	t.Helper()
	var records [][]byte
	for _, x := range xs {
		r := codec.Record{Op: p.in.Op.Index, Value: []byte(fmt.Sprint(x))}
		records = append(records, r.Encode(nil))
	}
	e, err := l.Step(1, records, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// packedAt returns the address and the content of the packed value of an entry.
func (p *post) packedAt(k int) (*byte, string) {
	for key, s := range p.letters.entries.AllPacked() {
		if key == k {
			return unsafe.StringData(*s), *s
		}
	}
	return nil, ""
}

// TestValuesAreShared checks that a location and the port that shows its output share one copy of a
// value, whether the port was fed with a step or with the whole state of the location. A port of
// another process has its own copy.
func TestValuesAreShared(t *testing.T) {
	leads := led()
	leader := logdriven.NewExecutor(leads.graph, 0)
	if _, err := leader.Begin(0); err != nil {
		t.Fatal(err)
	}
	here, elsewhere := shownBy(nowhere{}), shownBy(nowhere{})
	e := leads.step(t, leader, 1, 2, 3)
	if err := logdriven.Feed(here.graph, 0, 0, nil, e.Outputs, e.Gave...); err != nil {
		t.Fatal(err)
	}
	if err := logdriven.Feed(elsewhere.graph, 0, 0, nil, e.Outputs); err != nil {
		t.Fatal(err)
	}
	restarted := shownBy(nowhere{})
	waited := make(chan *letter)
	go func() {
		v, _ := restarted.letters.Await(context.Background(), 3, false)
		waited <- v
	}()
	for restarted.letters.listeners.Load() == 0 {
		runtime.Gosched()
	}
	if err := logdriven.FeedFrom(restarted.graph, 0, 0, leader, func(*engine.Op, []byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if v := <-waited; !reflect.DeepEqual(v, letterOf(3)) {
		t.Errorf("who waited for number 3 has %v", v)
	}
	for k := 1; k <= 3; k++ {
		at, is := leads.packedAt(k)
		want, _ := json.Marshal(letterOf(k))
		if is != string(want) {
			t.Errorf("of number %d the location keeps %q", k, is)
		}
		for name, p := range map[string]*post{"a step": here, "all": restarted, "elsewhere": elsewhere} {
			there, has := p.packedAt(k)
			if has != is || (there == at) != (name != "elsewhere") {
				t.Errorf("number %d, %s: %q, shared %v", k, name, has, there == at)
			}
		}
	}
	// Feeding existing entries again changes nothing, and entries that are gone meanwhile are removed.
	taken := codec.Record{Op: leads.letters.op.Index, Kind: codec.KindTaken, Key: []byte("2")}
	if e, err := leader.Step(2, [][]byte{taken.Encode(nil)}, nil); err != nil || len(e.Refused) > 0 {
		t.Fatal(e.Refused, err)
	}
	if err := logdriven.FeedFrom(here.graph, 0, 0, leader, func(*engine.Op, []byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if _, ok := here.letters.Get(2); ok || here.letters.Len() != 2 {
		t.Errorf("number 2 is there: %v, %d entries", ok, here.letters.Len())
	}
	// The same holds for all entries.
	var all [][]byte
	for _, k := range []string{"1", "3"} {
		taken := codec.Record{Op: leads.letters.op.Index, Kind: codec.KindTaken, Key: []byte(k)}
		all = append(all, taken.Encode(nil))
	}
	if e, err := leader.Step(3, all, nil); err != nil || len(e.Refused) > 0 {
		t.Fatal(e.Refused, err)
	}
	if err := logdriven.FeedFrom(here.graph, 0, 0, leader, func(*engine.Op, []byte) bool { return true }); err != nil || here.letters.Len() != 0 {
		t.Errorf("%d entries are there that are gone, %v", here.letters.Len(), err)
	}
}

// TestValuesAreReadApart checks that a reader may change the entry that it gets: no other reader and
// no history contains the change.
func TestValuesAreReadApart(t *testing.T) {
	leads := led()
	leader := logdriven.NewExecutor(leads.graph, 0)
	if _, err := leader.Begin(0); err != nil {
		t.Fatal(err)
	}
	p := shownBy(nowhere{})
	e := leads.step(t, leader, 4)
	if err := logdriven.Feed(p.graph, 0, 0, nil, e.Outputs, e.Gave...); err != nil {
		t.Fatal(err)
	}
	first, _ := p.letters.Get(4)
	first.Text, *first.To = "changed", "changed"
	if second, _ := p.letters.Get(4); !reflect.DeepEqual(second, letterOf(4)) {
		t.Errorf("there is %+v", second)
	}
	if value, ok, err := leader.Lookup(leads.letters.op.Index, []byte("4")); !ok || err != nil || strings.Contains(string(value), "changed") {
		t.Errorf("the location has %s (%v)", value, err)
	}
}

// TestOtherValuesAreNotShared checks that values that differ from those of the history are not shared.
func TestOtherValuesAreNotShared(t *testing.T) {
	leads := led()
	leader := logdriven.NewExecutor(leads.graph, 0)
	if _, err := leader.Begin(0); err != nil {
		t.Fatal(err)
	}
	first, second := leads.step(t, leader, 5), leads.step(t, leader, 6)
	p := shownBy(nowhere{})
	if err := logdriven.Feed(p.graph, 0, 0, nil, first.Outputs, second.Gave...); err != nil {
		t.Fatal(err)
	}
	if v, ok := p.letters.Get(5); !ok || !reflect.DeepEqual(v, letterOf(5)) {
		t.Errorf("of number 5 there is %+v", v)
	}
}

// TestPackedIsForgotten checks that an output keeps no packed value of a step that is over: neither where the step ran, nor where its
// output is shown. Once the entry is taken, nothing else may keep its value in memory.
func TestPackedIsForgotten(t *testing.T) {
	leads := led()
	leader := logdriven.NewExecutor(leads.graph, 0)
	if _, err := leader.Begin(0); err != nil {
		t.Fatal(err)
	}
	here, elsewhere := shownBy(nowhere{}), shownBy(nowhere{})
	for n, xs := range [][]int{{1, 2, 3}, {4}, {5, 6}} {
		e := leads.step(t, leader, xs...)
		if err := logdriven.Feed(here.graph, 0, 0, nil, e.Outputs, e.Gave...); err != nil {
			t.Fatal(err)
		}
		if err := logdriven.Feed(elsewhere.graph, 0, 0, nil, e.Outputs); err != nil {
			t.Fatal(err)
		}
		for name, p := range map[string]*post{"the location": leads, "the port here": here, "the port elsewhere": elsewhere} {
			out := p.letters
			if cap(out.packed) == 0 {
				t.Fatalf("step %d: %s has packed nothing", n, name)
			}
			if len(out.packed) > 0 || out.shared != nil {
				t.Errorf("step %d: %s has %d packed and %d shared values", n, name, len(out.packed), len(out.shared))
			}
			for _, s := range out.packed[:cap(out.packed)] {
				if s != "" {
					t.Errorf("step %d: %s keeps %q", n, name, s)
				}
			}
		}
	}
}

// TestNotPackedInMemory checks that values of a flow without a history are not packed.
func TestNotPackedInMemory(t *testing.T) {
	memory := engine.New(engine.Settings{})
	if s := state.NewEntries[int, *letter](engine.NewOp(memory.NewLocation("here"), "out", "")); s.Packs() {
		t.Error("values of a flow that is not kept are packed")
	}
}
