package port

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// A box is large enough not to share its memory with others.
type box [64]byte

// TestNothingIsKept passes elements and entries through a port, alone and in batches, sent before and
// after the start. After they are read or taken the port keeps none of them, though it keeps its buffers.
func TestNothingIsKept(t *testing.T) {
	ctx := t.Context()
	var seen []weak.Pointer[box]
	fresh := func() *box {
		b := new(box)
		seen = append(seen, weak.Make(b))
		return b
	}
	many := func(n int) (ks []int, bs []*box) {
		for range n {
			ks, bs = append(ks, len(seen)), append(bs, fresh())
		}
		return ks, bs
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	graph := func(build func(s *engine.Location, op func(string) *engine.Op)) *engine.Graph {
		g := newTestGraph()
		s := g.NewLocation("here")
		build(s, func(name string) *engine.Op { return engine.NewOp(s, name, "") })
		return g
	}
	for name, pass := range map[string]func() any{
		"an input": func() any {
			var in *Input[*box]
			g := graph(func(s *engine.Location, op func(string) *engine.Op) {
				in, _ = NewInput[*box](s, op("in"))
			})
			_, before := many(10)
			must(in.Send(ctx, fresh()))
			_, err := in.SendBatch(ctx, before)
			must(err)
			g.Start(context.Background())
			must(in.Send(ctx, fresh()))
			_, after := many(10)
			_, err = in.SendBatch(ctx, after)
			must(err)
			return in
		},
		"an input with keys": func() any {
			var in *KeyedInput[int, *box]
			g := graph(func(s *engine.Location, op func(string) *engine.Op) {
				in, _ = NewKeyedInput[int, *box](s, op("in"))
			})
			ks, bs := many(10)
			must(in.Send(ctx, 1, fresh()))
			_, err := in.SendBatch(ctx, ks, bs)
			must(err)
			g.Start(context.Background())
			must(in.Send(ctx, 1, fresh()))
			ks, bs = many(10)
			_, err = in.SendBatch(ctx, ks, bs)
			must(err)
			return in
		},
		"an output": func() any {
			var in *Input[*box]
			var out *Output[*box]
			g := graph(func(s *engine.Location, op func(string) *engine.Op) {
				var n *engine.Node[*box]
				in, n = NewInput[*box](s, op("in"))
				out = NewOutput(n, op("out"))
			})
			g.Start(context.Background())
			for range 3 {
				_, bs := many(10)
				_, err := in.SendBatch(ctx, bs)
				must(err)
				must(in.Send(ctx, fresh()))
			}
			for range 33 {
				_, err := out.Next(ctx)
				must(err)
			}
			return []any{in, out}
		},
		"an output of entries": func() any {
			var in *KeyedInput[int, *box]
			var out *EntryOutput[int, *box]
			g := graph(func(s *engine.Location, op func(string) *engine.Op) {
				var n *engine.KeyedNode[int, *box]
				in, n = NewEntryInput[int, *box](s, op("in"), nil)
				out = NewEntryOutput(n, op("out"))
			})
			g.Start(context.Background())
			first := len(seen)
			for range 3 {
				ks, bs := many(10)
				_, err := in.PutBatch(ctx, ks, bs)
				must(err)
				must(in.Send(ctx, len(seen), fresh()))
			}
			for k := first; k < len(seen); k++ {
				_, err := out.Await(ctx, k, true)
				must(err)
			}
			return []any{in, out}
		},
		"an exchange of events": func() any {
			g := newTestGraph()
			here, there := g.NewLocation("here"), g.NewLocation("there")
			in, n := NewInput[*box](here, engine.NewOp(here, "in", ""))
			n.Mark = state.NewMark(engine.NewOp(here, "stamp", ""))
			moved := Exchange(n, engine.NewOp(there, "Exchange", ""))
			g.Start(context.Background())
			_, bs := many(10)
			_, err := in.SendBatch(ctx, bs)
			must(err)
			must(in.Send(ctx, fresh()))
			g.Stop()
			must(g.Wait())
			return []any{in, moved}
		},
		"a value": func() any {
			var in *Input[*box]
			var out *ValueOutput[*box]
			g := graph(func(s *engine.Location, op func(string) *engine.Op) {
				var n *engine.Node[*box]
				in, n = NewInput[*box](s, op("in"))
				v := engine.NewValueNode[*box](engine.Derived(op("last"), n))
				n.Consume(&engine.Consumer[*box]{Push: func(b []*box) { v.Set(b[len(b)-1]) }, One: v.Set})
				out = NewValueOutput(v, op("out"))
			})
			g.Start(context.Background())
			for range 10 {
				must(in.Send(ctx, fresh()))
			}
			must(in.Send(ctx, nil))
			return []any{in, out}
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen = nil
			ports := pass()
			for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
				runtime.GC()
				var kept []int
				for i, x := range seen {
					if x.Value() != nil {
						kept = append(kept, i)
					}
				}
				if len(kept) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal(fmt.Sprint("of ", len(seen), " these are kept: ", kept))
				}
			}
			runtime.KeepAlive(ports)
		})
	}
}
