package operators_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// A box is large enough not to share its memory with others.
type box [64]byte

// TestNothingGatheredIsKept passes entries through operators that collect what they push, and then a
// few others. It fails if the collected keys and values are not cleared: they would stay in memory
// until as many come at once again, which may be never.
func TestNothingGatheredIsKept(t *testing.T) {
	type node = engine.KeyedNode[*box, *box]
	const many = 10
	for name, x := range map[string]struct {
		later int // how many others come at once
		build func(s *engine.Location, op func(string) *engine.Op, in *node)
	}{
		"flat map": {3 * many, func(_ *engine.Location, op func(string) *engine.Op, in *node) { // a batch keeps what it has emitted until another one comes
			operators.KFlatMap(in, op("KFlatMap"), func(b *box, emit func(*box)) {
				emit(b)
				if b != nil {
					emit(b)
					emit(b)
				}
			})
		}},
		"delayed": {1, func(_ *engine.Location, op func(string) *engine.Op, in *node) {
			operators.After(in, op("After"), time.Millisecond, nil)
		}},
		"in a slice, after what comes with it": {1, func(s *engine.Location, op func(string) *engine.Op, in *node) {
			b := operators.BatchKeyed(engine.NewSlice(s), in, op("BatchKeyed"), false)
			count := operators.KeyCount(operators.KMap(b, op("KMap"), func(*box) int { return 0 }), op("KeyCount"))
			operators.KCross(b, count, op("KCross"), func(_ *box, n int) int { return n })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestGraph()
				s := g.NewLocation("here")
				op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
				in, root := port.NewKeyedInput[*box, *box](s, op("in"))
				x.build(s, op, root)
				g.Start(t.Context())
				var seen []weak.Pointer[box]
				fresh := func() *box {
					b := new(box)
					seen = append(seen, weak.Make(b))
					return b
				}
				send := func(n int, fresh func() *box) {
					var ks, vs []*box
					for range n {
						ks, vs = append(ks, fresh()), append(vs, fresh())
					}
					if _, err := in.SendBatch(t.Context(), ks, vs); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Millisecond)
					for range 3 {
						if err := in.Send(t.Context(), fresh(), fresh()); err != nil {
							t.Fatal(err)
						}
						time.Sleep(2 * time.Millisecond)
					}
				}
				send(many, fresh)
				send(x.later, func() *box { return nil })
				for tries := 0; ; tries++ {
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
					if tries == 10 {
						t.Fatal("of ", len(seen), " these are kept: ", kept)
					}
				}
				g.Stop()
				if err := g.Wait(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
