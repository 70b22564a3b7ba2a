package operators_test

import (
	"context"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// BenchmarkSingles sends single entries through a thousand operators of a kind, as single entries
// and as batches of one, and reports the cost of one operator.
func BenchmarkSingles(b *testing.B) {
	const length = 1000
	for _, x := range []struct {
		name string
		add  func(n *knode, op *engine.Op) *knode
	}{
		{"KMap", func(n *knode, op *engine.Op) *knode { return operators.KMap(n, op, func(v int) int { return v + 1 }) }},
		{"KFilterMap", func(n *knode, op *engine.Op) *knode {
			return operators.KFilterMap(n, op, func(k, v int) (int, bool) { return v, k >= 0 })
		}},
		{"KInspect", func(n *knode, op *engine.Op) *knode { return operators.KInspect(n, op, func(k, v int) {}) }},
		{"KRekey", func(n *knode, op *engine.Op) *knode { return operators.KRekey(n, op, func(k, v int) int { return k }) }},
		{"KFork", func(n *knode, op *engine.Op) *knode {
			yes, _ := operators.KFork(n, op, func(v int) (int, int, bool) { return v, v, true })
			return yes
		}},
		{"KStep", func(n *knode, op *engine.Op) *knode {
			return operators.KStep(n, op, func(s *int, v int) (int, bool) { *s += v; return *s, true })
		}},
		{"KFold", func(n *knode, op *engine.Op) *knode { return operators.KFold(n, op, func() int { return 0 }, sum) }},
		{"Scan", func(n *knode, op *engine.Op) *knode {
			return operators.Scan(n, op, func() int { return 0 }, func(s *int, v int, emit func(int)) { *s += v; emit(*s) })
		}},
	} {
		for _, batches := range []bool{false, true} {
			form := "form=single"
			if batches {
				form = "form=batch"
			}
			b.Run(x.name+"/"+form, func(b *testing.B) {
				ctx := context.Background()
				g := newTestGraph()
				if batches {
					g.PushBatches()
				}
				s := g.NewLocation("here")
				in, n := port.NewKeyedInput[int, int](s, engine.NewOp(s, "Input", ""))
				for range length {
					n = x.add(n, engine.NewOp(s, x.name, ""))
				}
				g.Start(ctx)
				i := 0
				for b.Loop() {
					if err := in.Send(ctx, i%16, 1); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/length, "ns/operator")
				b.ReportMetric(0, "ns/op")
				g.Stop()
			})
		}
	}
}

// BenchmarkAsk compares Ask with Put and Take.
func BenchmarkAsk(b *testing.B) {
	for _, form := range []string{"form=ask", "form=puttake"} {
		b.Run(form, func(b *testing.B) {
			ctx := context.Background()
			g := newTestGraph()
			s := g.NewLocation("here")
			in, n := port.NewEntryInput[int, int](s, engine.NewOp(s, "Input", ""), nil)
			out := port.NewEntryOutput(operators.KMap(n, engine.NewOp(s, "KMap", ""), func(v int) int { return v + 1 }), engine.NewOp(s, "Output", ""))
			g.Start(ctx)
			i := 0
			for b.Loop() {
				var err error
				if form == "form=ask" {
					_, err = port.Ask(ctx, in, out, i, i)
				} else if err = in.Send(ctx, i, i); err == nil {
					_, err = out.Await(ctx, i, true)
				}
				if err != nil {
					b.Fatal(err)
				}
				i++
			}
			g.Stop()
		})
	}
}
