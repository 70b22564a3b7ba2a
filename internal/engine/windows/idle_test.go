package windows

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

type jsonCodec struct{}

func (jsonCodec) Check(reflect.Type) error { return nil }

func (jsonCodec) Append(dst []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(dst, data...), err
}

func (jsonCodec) Decode(data []byte, p any) error { return json.Unmarshal(data, p) }

// A pair is two merged streams of times. The first one is silent after a quiet of 10.
type pair struct {
	t           *testing.T
	steps       *logdriven.Executor
	a, b        *port.Input[int64]
	first, both *mark.Mark
	still       []int64 // of the first stream, in time
	tardy       []int64
}

func newPair(t *testing.T) *pair {
	g := engine.New(settings())
	logdriven.Drive(g, jsonCodec{}, nil)
	s := g.NewLocation("here")
	op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
	p := &pair{t: t}
	var as, bs *engine.Node[int64]
	p.a, as = port.NewInput[int64](s, op("a"))
	p.b, bs = port.NewInput[int64](s, op("b"))
	as, _ = Stamp(as, op("Stamp"), itself, event, Clock[int64]{Slack: 50})
	bs, _ = Stamp(bs, op("Stamp"), itself, event, Clock[int64]{})
	still, tardy := Idle(as, op("Idle"), func(x *int64) int64 { return *x }, 10)
	operators.Inspect(still, op("Inspect"), func(x int64) { p.still = append(p.still, x) })
	operators.Inspect(tardy, op("Inspect"), func(x int64) { p.tardy = append(p.tardy, x) })
	p.first, p.both = still.Mark, operators.Merge(op("Merge"), still, bs).Mark
	g.Start(t.Context())
	p.steps = logdriven.NewExecutor(g, 0)
	return p
}

// step makes a step that takes one element from in, or none if in is nil.
func (p *pair) step(now int64, in *port.Input[int64], x int64) {
	p.t.Helper()
	var records [][]byte
	if in != nil {
		data, _ := json.Marshal(x)
		records = append(records, (&codec.Record{Op: in.Op.Index, Value: data}).Encode(nil))
	}
	if _, err := p.steps.Step(now, records, nil); err != nil {
		p.t.Fatal(err)
	}
}

// TestIdleBegins checks that a stream is silent when it has been quiet for long enough since the first
// step that knows of Idle, even if the history is older, as when Idle is new in a program. If it were
// silent at once, its events would be late.
func TestIdleBegins(t *testing.T) {
	for _, begins := range []int64{1, 1007} {
		p := newPair(t)
		if begins > 1 {
			p.step(begins, nil, 0)
		} else if _, err := p.steps.Begin(0); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct{ after, want int64 }{{0, past}, {9, past}, {10, mark.Silent}} {
			if p.step(begins+x.after, nil, 0); p.first.Now() != x.want {
				t.Errorf("%d after a history goes on at %d the mark is %d, want %d", x.after, begins, p.first.Now(), x.want)
			}
		}
	}
}

// TestIdleSpeaks makes a silent stream active again. From its first event in time, the other stream waits
// for it, even while its own mark, which has a slack, is further back. Otherwise events that come right
// after that one would be late.
func TestIdleSpeaks(t *testing.T) {
	p := newPair(t)
	if _, err := p.steps.Begin(0); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		now         int64
		in          *port.Input[int64]
		x           int64
		first, both int64 // marks after the step
	}{
		{1, nil, 0, past, past},
		{20, nil, 0, mark.Silent, past},
		{21, p.b, 100, mark.Silent, 100},
		{22, p.a, 99, mark.Silent, 100},
		{23, p.a, 120, 100, 100},
		{24, p.b, 200, 100, 100},
		{25, p.a, 130, 100, 100},
		{26, p.a, 190, 140, 140},
	} {
		if p.step(x.now, x.in, x.x); p.first.Now() != x.first || p.both.Now() != x.both {
			t.Errorf("at %d, behind %d, the marks are %d and %d, want %d and %d", x.now, x.x, p.first.Now(), p.both.Now(), x.first, x.both)
		}
	}
	if !slices.Equal(p.still, []int64{120, 130, 190}) || !slices.Equal(p.tardy, []int64{99}) {
		t.Errorf("in time are %d, and late %d", p.still, p.tardy)
	}
}
