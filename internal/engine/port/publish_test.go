package port

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/engine/operators"
)

type jsonCodec struct{}

func (jsonCodec) Check(reflect.Type) error { return nil }

func (jsonCodec) Append(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(dst, data...), err
}

func (jsonCodec) Decode(data []byte, p any) error { return json.Unmarshal(data, p) }

// nowhere is the remote of a graph that is only fed.
type nowhere struct{ engine.Remote }

func (nowhere) Read(int, int32, int, uint64) {}

func (nowhere) Given(context.Context, int32, int) (uint64, bool, error) { return 0, false, nil }

func (nowhere) Want(ctx context.Context, _ int, _ int32, _ []byte) (context.Context, func()) {
	return ctx, func() {}
}

func (nowhere) Stopped(int) *engine.Blocked { return nil }

// threePorts is a graph with a port of each kind.
type threePorts struct {
	graph   *engine.Graph
	in      *Input[int]
	stream  *Output[int]
	entries *EntryOutput[int, int]
	value   *ValueOutput[int]
}

func newThreePorts(remote engine.Remote) *threePorts {
	p := &threePorts{graph: engine.New(engine.Settings{Queue: 64, Buffer: 64, Wrap: func(p *engine.Panic) error { return p }})}
	if remote == nil {
		logdriven.Drive(p.graph, jsonCodec{}, nil)
	} else {
		logdriven.Facade(p.graph, jsonCodec{}, remote)
	}
	s := p.graph.NewLocation("here")
	in, n := NewInput[int](s, engine.NewOp(s, "in", ""))
	p.in, p.stream = in, NewOutput(n, engine.NewOp(s, "stream", ""))
	p.entries = NewEntryOutput(operators.KeyBy(n, engine.NewOp(s, "KeyBy", ""), func(x int) int { return x }), engine.NewOp(s, "entries", ""))
	p.value = NewValueOutput(operators.Fold(n, engine.NewOp(s, "Fold", ""), func() int { return 0 }, func(sum *int, x int) { *sum += x }), engine.NewOp(s, "value", ""))
	p.graph.Start(context.Background())
	return p
}

// shown returns what is visible: the number of unread elements, the number of entries and the value.
func (p *threePorts) shown() [3]int {
	v, _ := p.value.Latest()
	return [3]int{len(p.stream.buf) - p.stream.off, p.entries.Len(), v}
}

// TestFeedIsAllOrNothing feeds ports the output of a step, damaged in its last part, in its
// first, cut short and named twice. Nothing of it becomes visible, and the step can still be fed whole.
func TestFeedIsAllOrNothing(t *testing.T) {
	leads := newThreePorts(nil)
	leader := logdriven.NewExecutor(leads.graph, 0)
	if _, err := leader.Begin(0); err != nil {
		t.Fatal(err)
	}
	step := func(xs ...int) []byte {
		var records [][]byte
		for _, x := range xs {
			r := codec.Record{Op: leads.in.Op.Index, Value: []byte(string(rune('0' + x)))}
			records = append(records, r.Encode(nil))
		}
		e, err := leader.Step(1, records, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.Outputs
	}
	fed := newThreePorts(nowhere{})
	if err := logdriven.Feed(fed.graph, 0, 0, nil, step(3)); err != nil {
		t.Fatal(err)
	}
	if got := fed.shown(); got != [3]int{1, 1, 3} {
		t.Fatalf("the ports show %v", got)
	}
	good := step(4, 5)
	value := bytes.LastIndex(good, []byte("12")) // 3 + 4 + 5
	bad := bytes.Clone(good)
	bad[value] = '?'
	for what, outputs := range map[string][]byte{
		"damaged in its last part": bad,
		"cut short":                good[:value],
		"named twice":              append(bytes.Clone(good), good...),
		"of an operator that is not there, at the end": append(bytes.Clone(good), 99),
	} {
		if err := logdriven.Feed(fed.graph, 0, 0, nil, outputs); err == nil {
			t.Errorf("a step %s is accepted", what)
		}
		if got := fed.shown(); got != [3]int{1, 1, 3} {
			t.Errorf("of a step %s the ports show %v", what, got)
		}
	}
	for range 2 { // the second time as after a change of ownership
		if err := logdriven.Feed(fed.graph, 0, 0, nil, good); err != nil {
			t.Fatal(err)
		}
		if got := fed.shown(); got != [3]int{3, 3, 12} {
			t.Errorf("the ports show %v", got)
		}
	}
	for _, want := range []int{3, 4, 5} {
		if x, err := fed.stream.Next(t.Context()); x != want || err != nil {
			t.Errorf("%d, %v; want %d", x, err, want)
		}
	}
}
