package operators_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

type knode = engine.KeyedNode[int, int]

// drawnKeyed is a program of keyed operators, drawn from a seed, and the output of each.
type drawnKeyed struct {
	t     *testing.T
	r     *rand.Rand
	s     *engine.Location
	other *engine.Location
	nodes []*knode // of s at the top level; their values do not change
	ops   int
	log   []string                   // the output of each operator, in order
	once  *port.KeyedInput[int, int] // takes each key once
	ends  []func()                   // check outputs at the end
}

func (d *drawnKeyed) op(name string) *engine.Op {
	d.ops++
	return engine.NewOp(d.s, fmt.Sprint(name, " ", d.ops), "")
}

func (d *drawnKeyed) say(id int, what ...any) { d.log = append(d.log, fmt.Sprintln(id, what)) }

// node returns one of the nodes so far, usually the newest.
func (d *drawnKeyed) node() *knode {
	if d.r.IntN(3) > 0 {
		return d.nodes[len(d.nodes)-1]
	}
	return d.nodes[d.r.IntN(len(d.nodes))]
}

// watch logs the output of n. It adds no operator, so n handles single entries if its operator does.
func (d *drawnKeyed) watch(n *knode) *knode {
	id := d.ops
	engine.Attach(n.Origin(), func(b *engine.Batch[int, int]) {
		for i, k := range b.K {
			if b.Gone != nil && b.Gone[i] {
				d.say(id, k, "gone")
			} else {
				d.say(id, k, b.V[i])
			}
		}
	}).One = func(k, v int, h uint64) {
		if h != 0 && h != engine.Hasher[int]().Hash(k) {
			d.t.Errorf("operator %d pushes %d with the hash of another key", id, k)
		}
		d.say(id, k, v)
	}
	return n
}

func (d *drawnKeyed) cell(c *engine.ValueNode[string]) {
	id := d.ops
	c.To(func(x string) { d.say(id, x) })
}

func (d *drawnKeyed) text(c *engine.ValueNode[int]) {
	d.cell(operators.ValueMap(c, d.op("text"), func(x int) string { return fmt.Sprint(x) }))
}

// inSlice adds a slice over a batch of n and returns the result of f inside it.
func (d *drawnKeyed) inSlice(n *knode, f func(r *engine.Region, in *knode) *knode) *knode {
	r := engine.NewSlice(d.s)
	return operators.EmitKeyed(f(r, operators.BatchKeyed(r, n, d.op("BatchKeyed"), false)), d.op("EmitKeyed"))
}

func sum(acc *int, v int) { *acc += v }

// keyedOps add an operator each. They are named after the functions of this package.
var keyedOps = map[string]func(d *drawnKeyed, n *knode) *knode{
	"KMap": func(d *drawnKeyed, n *knode) *knode {
		return operators.KMap(n, d.op("KMap"), func(v int) int { return v + 1 })
	},
	"KMapWithKey": func(d *drawnKeyed, n *knode) *knode {
		return operators.KMapWithKey(n, d.op("KMapWithKey"), func(k, v int) int { return k + v })
	},
	"KFilterMap": func(d *drawnKeyed, n *knode) *knode {
		return operators.KFilterMap(n, d.op("KFilterMap"), func(k, v int) (int, bool) { return v * 3, (k+v)%4 > 0 })
	},
	"KInspect": func(d *drawnKeyed, n *knode) *knode {
		op := d.op("KInspect")
		id := d.ops
		return operators.KInspect(n, op, func(k, v int) { d.say(id, "inspect", k, v) })
	},
	"KMerge": func(d *drawnKeyed, n *knode) *knode { return operators.KMerge(d.op("KMerge"), n, d.node()) },
	"First":  func(d *drawnKeyed, n *knode) *knode { return operators.First(n, d.op("First")) },
	"firstOver": func(d *drawnKeyed, n *knode) *knode {
		if d.r.IntN(2) == 0 {
			return operators.FirstSequenced(n, d.op("FirstSequenced"), operators.Sequenced(func(k int) (int, uint64) { return k % 2, uint64(k) }))
		}
		return d.retained(operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 3}))
	},
	"FoldEarlyStop": func(d *drawnKeyed, n *knode) *knode {
		return operators.FoldEarlyStop(n, d.op("FoldEarlyStop"), func() int { return 1 }, func(acc *int, v int) bool { *acc += v; return *acc > 20 })
	},
	"foldEarlyStopOver": func(d *drawnKeyed, n *knode) *knode {
		init, step := func() int { return 1 }, func(acc *int, v int) bool { *acc += v; return *acc > 12 }
		if d.r.IntN(2) == 0 {
			return operators.FoldEarlyStopSequenced(n, d.op("FoldEarlyStopSequenced"), init, step, operators.Sequenced(func(k int) (int, uint64) { return k % 2, uint64(k) }))
		}
		return d.retained(operators.FoldEarlyStopWithin(n, d.op("FoldEarlyStopWithin"), init, step, operators.Retain{Keys: 2, Open: time.Duration(d.r.IntN(2)) * time.Millisecond}))
	},
	"KFold": func(d *drawnKeyed, n *knode) *knode {
		fold := func(n *knode) *knode { return operators.KFold(n, d.op("KFold"), func() int { return 1 }, sum) }
		if d.r.IntN(2) == 0 {
			return d.inSlice(n, func(_ *engine.Region, in *knode) *knode { return fold(in) })
		}
		d.revised(d.watch(fold(n)))
		return n
	},
	"Scan": func(d *drawnKeyed, n *knode) *knode {
		return operators.Scan(n, d.op("Scan"), func() int { return 0 }, func(s *int, v int, emit func(int)) {
			*s += v
			for i := range *s % 4 {
				emit(*s + i)
			}
		})
	},
	"ScanFirst": func(d *drawnKeyed, n *knode) *knode {
		a, b := operators.ScanFirst(n, d.op("ScanFirst"), func() int { return 0 }, func(s *int, v int, emit func(int)) (int, bool) {
			*s += v
			for i := range *s % 3 {
				emit(*s + i)
			}
			return *s, *s > 10
		})
		d.watch(b)
		return a
	},
	"KeyCount": func(d *drawnKeyed, n *knode) *knode { d.text(operators.KeyCount(n, d.op("KeyCount"))); return n },
	"IntoSingleton": func(d *drawnKeyed, n *knode) *knode {
		d.cell(operators.IntoSingleton(n, d.op("IntoSingleton"), viewText))
		return n
	},
	"ForgetAfter": func(d *drawnKeyed, n *knode) *knode {
		d.revised(d.watch(operators.ForgetAfter(operators.First(n, d.op("First")), d.op("ForgetAfter"), 3*time.Millisecond)))
		return n
	},
	"After": func(d *drawnKeyed, n *knode) *knode {
		var each func(int) time.Duration
		if d.r.IntN(2) == 0 {
			each = func(v int) time.Duration { return time.Duration(v%5) * time.Millisecond }
		}
		return operators.After(n, d.op("After"), 2*time.Millisecond, each)
	},
	"matchSide": func(d *drawnKeyed, n *knode) *knode {
		return operators.KJoin(operators.First(n, d.op("First")), operators.KFilterMap(d.node(), d.op("KFilterMap"), func(k, v int) (int, bool) { return v, v%5 == 0 }), d.op("KJoin"), func(a, b int) int { return a - b })
	},
	"KLookup": func(d *drawnKeyed, n *knode) *knode {
		return d.inSlice(n, func(_ *engine.Region, in *knode) *knode {
			small := operators.KMap(in, d.op("KMap"), func(v int) int { return v % 7 })
			return operators.KLookup(small, in, d.op("KLookup"), func(v int, w operators.Found[int]) int { return v*100 + w.Value })
		})
	},
	"Lookup": func(d *drawnKeyed, n *knode) *knode {
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			content := operators.SnapshotEntries(r, operators.First(m, d.op("First")), d.op("SnapshotEntries"))
			return operators.Lookup(operators.KMap(in, d.op("KMap"), func(v int) int { return v % 7 }), content, d.op("Lookup"), func(v int, w operators.Found[int]) int { return v*100 + w.Value })
		})
	},
	"Join": func(d *drawnKeyed, n *knode) *knode {
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			if d.r.IntN(2) == 0 {
				return operators.Join(in, operators.First(in, d.op("First")), d.op("Join"), func(v, w int) int { return v*100 + w })
			}
			content := operators.SnapshotEntries(r, operators.KFold(m, d.op("KFold"), func() int { return 0 }, sum), d.op("SnapshotEntries"))
			return operators.Join(in, operators.KFilterMap(content, d.op("KFilterMap"), func(k, v int) (int, bool) { return v, k%3 > 0 }), d.op("Join"), func(v, w int) int { return v*100 + w })
		})
	},
	"KWithout": func(d *drawnKeyed, n *knode) *knode {
		if d.r.IntN(2) == 0 {
			keys := operators.Constant(d.s, nil, []int{1, 4})
			return operators.KWithout(n, keys, d.op("KWithout"))
		}
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			return operators.KWithout(in, operators.Keys(operators.BatchKeyed(r, m, d.op("BatchKeyed"), false), d.op("Keys")), d.op("KWithout"))
		})
	},
	"KCross": func(d *drawnKeyed, n *knode) *knode {
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			return operators.KCross(in, operators.KeyCount(operators.BatchKeyed(r, m, d.op("BatchKeyed"), false), d.op("KeyCount")), d.op("KCross"), func(v, n int) int { return v + n })
		})
	},
	"KPick": func(d *drawnKeyed, n *knode) *knode {
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			key := operators.KeyCount(operators.BatchKeyed(r, m, d.op("BatchKeyed"), false), d.op("KeyCount"))
			return operators.KeyBy(operators.KPick(in, key, d.op("KPick")), d.op("KeyBy"), func(x int) int { return x % 3 })
		})
	},
	"KSort": func(d *drawnKeyed, n *knode) *knode {
		return d.inSlice(n, func(_ *engine.Region, in *knode) *knode {
			return operators.KSort(in, d.op("KSort"), func(a, b int) int { return b%7 - a%7 })
		})
	},
	"KMaxKey": func(d *drawnKeyed, n *knode) *knode {
		less := func(a, b int) bool { return a < b }
		entry := func(k, v int) string { return fmt.Sprint(k, ":", v) }
		d.cell(operators.KMaxKey(n, d.op("KMaxKey"), less, entry))
		return d.inSlice(n, func(_ *engine.Region, in *knode) *knode {
			d.cell(operators.KMaxKey(in, d.op("KMaxKey"), less, entry))
			return in
		})
	},
	"KChain": func(d *drawnKeyed, n *knode) *knode {
		if d.r.IntN(2) == 0 {
			return operators.KChain(d.op("KChain"), operators.KeyBy(operators.Constant(d.s, nil, []int{5, 6}), d.op("KeyBy"), func(x int) int { return x }), n)
		}
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			return operators.KChain(d.op("KChain"), in, operators.BatchKeyed(r, m, d.op("BatchKeyed"), false))
		})
	},
	"StateEntries": func(d *drawnKeyed, n *knode) *knode {
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			now, keep := operators.StateEntries(r, d.op("StateEntries"), []operators.Pair[int, int]{{Key: 1, Value: 2}})
			next := operators.KFold(operators.KMerge(d.op("KMerge"), in, now), d.op("KFold"), func() int { return 0 }, sum)
			keep(next)
			return next
		})
	},
	"KThreshold": func(d *drawnKeyed, n *knode) *knode {
		m := operators.First(d.node(), d.op("First"))
		return operators.KThreshold(n, m, d.op("KThreshold"), func(v, x int) bool { return v >= x })
	},
	"KUniform": func(d *drawnKeyed, n *knode) *knode {
		return operators.KUniform(n, d.op("KUniform"), 6, func(v, x int) bool { return v >= x })
	},
	"KFlatMap": func(d *drawnKeyed, n *knode) *knode {
		return operators.KFlatMap(n, d.op("KFlatMap"), func(v int, emit func(int)) {
			for i := range v % 4 {
				emit(v + i)
			}
		})
	},
	"KRekey": func(d *drawnKeyed, n *knode) *knode {
		return operators.KRekey(n, d.op("KRekey"), func(k, v int) int { return (k + v) % 9 })
	},
	"KFork": func(d *drawnKeyed, n *knode) *knode {
		a, b := operators.KFork(n, d.op("KFork"), func(v int) (int, int, bool) { return v, -v, v%2 == 0 })
		d.watch(b)
		return a
	},
	"KUnique": func(d *drawnKeyed, n *knode) *knode { return operators.KUnique(n, d.op("KUnique")) },
	"KStep": func(d *drawnKeyed, n *knode) *knode {
		return operators.KStep(n, d.op("KStep"), func(s *int, v int) (int, bool) { *s += v; return *s, *s%3 > 0 })
	},
	"KExtreme": func(d *drawnKeyed, n *knode) *knode {
		d.revised(d.watch(operators.KExtreme(n, d.op("KExtreme"), func(a, b int) int { return max(a, b) })))
		return d.inSlice(n, func(_ *engine.Region, in *knode) *knode {
			return operators.KExtreme(in, d.op("KExtreme"), func(a, b int) int { return min(a, b) })
		})
	},
	"newIndex": func(d *drawnKeyed, n *knode) *knode {
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			return operators.Join(in, operators.SnapshotEntries(r, operators.First(m, d.op("First")), d.op("SnapshotEntries")), d.op("Join"), func(v, w int) int { return v*100 + w })
		})
	},
	"deferred": func(d *drawnKeyed, n *knode) *knode {
		m := d.node()
		return d.inSlice(n, func(r *engine.Region, in *knode) *knode {
			right := operators.First(operators.BatchKeyed(r, m, d.op("BatchKeyed"), false), d.op("First"))
			return operators.Join(in, right, d.op("Join"), func(v, w int) int { return v*100 + w })
		})
	},
	"BatchKeyed": func(d *drawnKeyed, n *knode) *knode {
		return d.inSlice(n, func(_ *engine.Region, in *knode) *knode { return in })
	},
	"EmitKeyed": func(d *drawnKeyed, n *knode) *knode {
		return d.inSlice(n, func(_ *engine.Region, in *knode) *knode { return operators.First(in, d.op("First")) })
	},
	"Keys": func(d *drawnKeyed, n *knode) *knode {
		return operators.KeyBy(operators.Keys(n, d.op("Keys")), d.op("KeyBy"), func(x int) int { return x % 3 })
	},
	"Values": func(d *drawnKeyed, n *knode) *knode {
		return operators.KeyByRef(operators.Values(n, d.op("Values")), d.op("KeyByRef"), func(x *int) int { return *x % 3 })
	},
	"Zip": func(d *drawnKeyed, n *knode) *knode {
		es := operators.Zip(n, d.op("Zip"), func(k, v int) operators.Pair[int, int] { return operators.Pair[int, int]{Key: k, Value: v} })
		return operators.Split(es, d.op("Split"), func(e *operators.Pair[int, int]) (int, int) { return e.Value % 5, e.Key })
	},
	"calls": func(d *drawnKeyed, n *knode) *knode {
		return port.MapAsync(operators.First(n, d.op("First")), d.op("MapAsync"), func(_ context.Context, k, v int) int { return k - v }, 1)
	},
	"NewEntryOutput": func(d *drawnKeyed, n *knode) *knode {
		op := d.op("NewKOutlet")
		out, id := port.NewEntryOutput(operators.First(n, d.op("First")), op), d.ops
		d.ends = append(d.ends, func() {
			for k := range 30 {
				if v, ok := out.Get(k); ok {
					d.say(id, k, v)
				}
			}
		})
		return n
	},
	"exchangeEntries": func(d *drawnKeyed, n *knode) *knode {
		there := port.KeyedExchange(n, engine.NewOp(d.other, fmt.Sprint("KMove ", d.ops), ""))
		return d.watch(port.KeyedExchange(operators.KMap(there, engine.NewOp(d.other, "KMap", ""), func(v int) int { return v + 2 }), d.op("KMove")))
	},
	"Lives": func(d *drawnKeyed, n *knode) *knode {
		return operators.Lives(operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 1}), d.op("Lives"))
	},
	"exchangeLives": func(d *drawnKeyed, n *knode) *knode {
		there := port.KeyedExchange(operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 2}), engine.NewOp(d.other, fmt.Sprint("KMove ", d.ops), ""))
		back := port.KeyedExchange(operators.KMap(there, engine.NewOp(d.other, "KMap", ""), func(v int) int { return v + 2 }), d.op("KMove"))
		return d.retained(d.watch(back))
	},
	"batchLives": func(d *drawnKeyed, n *knode) *knode {
		r := engine.NewSlice(d.s)
		in := operators.BatchKeyed(r, operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 2}), d.op("BatchEntries"), true)
		return operators.EmitKeyed(d.watch(in), d.op("EmitKeyed"))
	},
	"EmitRetained": func(d *drawnKeyed, n *knode) *knode {
		in := operators.BatchKeyed(engine.NewSlice(d.s), operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 2}), d.op("BatchEntries"), true)
		some := operators.KFilterMap(in, d.op("KFilterMap"), func(k, v int) (int, bool) { return v + k, v%3 > 0 })
		return d.retained(d.watch(operators.EmitRetained(some, d.op("EmitRetained"))))
	},
	"ForgetGone": func(d *drawnKeyed, n *knode) *knode {
		kept := operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 2})
		port.ForgetGone(d.once, kept)
		return d.retained(kept)
	},
	"Changes": func(d *drawnKeyed, n *knode) *knode {
		return operators.Changes(operators.FirstWithin(n, d.op("FirstWithin"), operators.Retain{Keys: 2}), d.op("Changes"), func(old, now operators.Found[int]) int { return 100*old.Value + now.Value })
	},
	"listen": func(d *drawnKeyed, n *knode) *knode {
		parts := port.KDivide(n, d.op("KDivide"), []*engine.Location{d.s, d.other})
		return operators.KMerge(d.op("KMerge"), parts[0], port.KeyedExchange(parts[1], d.op("KMove")))
	},
}

// revised adds operators over values that change.
func (d *drawnKeyed) revised(n *knode) {
	n = d.watch(operators.KMap(n, d.op("KMap"), func(v int) int { return v * 2 }))
	switch d.r.IntN(4) {
	case 0:
		d.watch(operators.KFilterMap(n, d.op("KFilterMap"), func(k, v int) (int, bool) { return v, v%3 > 0 }))
	case 1:
		a, b := operators.KFork(n, d.op("KFork"), func(v int) (int, int, bool) { return v, -v, v%3 > 0 })
		d.watch(a)
		d.watch(b)
	case 2:
		d.text(operators.KeyCount(n, d.op("KeyCount")))
	case 3:
		d.cell(operators.IntoSingleton(n, d.op("IntoSingleton"), viewText))
	}
}

// retained adds operators over entries that are forgotten, and returns their lives.
func (d *drawnKeyed) retained(n *knode) *knode {
	d.watch(n)
	switch d.r.IntN(4) {
	case 0:
		d.watch(operators.After(n, d.op("After"), 2*time.Millisecond, nil))
	case 1:
		d.watch(operators.ForgetAfter(n, d.op("ForgetAfter"), 2*time.Millisecond))
	case 2:
		out, id := port.NewEntryOutput(n, d.op("NewKOutlet")), d.ops
		d.ends = append(d.ends, func() {
			for k := range 30 {
				if v, ok := out.Get(k); ok {
					d.say(id, k, v)
				}
			}
		})
	case 3:
		d.revised(n)
	}
	return operators.Lives(n, d.op("Lives"))
}

func viewText(v cow.View[int, int]) string {
	var b strings.Builder
	for k, x := range v.All() {
		fmt.Fprint(&b, k, ":", x, " ")
	}
	return b.String()
}
