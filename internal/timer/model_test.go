package timer

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/btree"
)

var seedFlag = flag.Int64("seed", 1, "seed of the random tests")

// An index is the set of methods that FIFO, Wheel and the model have in common.
type index interface {
	Add(h uint32, at int64)
	Cancel(h uint32) bool
	Next() (at int64, ok bool)
	Expire(now int64, fire func(h uint32))
	Len() int
}

var indexes = []struct {
	name string
	make func() index
}{
	{"fifo", func() index { return NewFIFO() }},
	{"wheel", func() index { return NewWheel() }},
}

// A model keeps timers in a tree by (deadline, insertion). It implements the rules
// of the package and nothing else.
type model struct {
	tree *btree.BTreeG[timed]
	by   map[uint32]timed
	seq  uint64
}

type timed struct {
	at  int64
	seq uint64
	h   uint32
}

func newModel() *model {
	return &model{
		tree: btree.NewG(32, func(a, b timed) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }),
		by:   map[uint32]timed{},
	}
}

func (m *model) Add(h uint32, at int64) {
	m.Cancel(h)
	m.seq++
	m.by[h] = timed{at, m.seq, h}
	m.tree.ReplaceOrInsert(m.by[h])
}

func (m *model) Cancel(h uint32) bool {
	x, ok := m.by[h]
	if ok {
		delete(m.by, h)
		m.tree.Delete(x)
	}
	return ok
}

func (m *model) Next() (int64, bool) {
	x, ok := m.tree.Min()
	return x.at, ok
}

func (m *model) Expire(now int64, fire func(uint32)) {
	for {
		x, ok := m.tree.Min()
		if !ok || x.at > now {
			return
		}
		m.Cancel(x.h)
		fire(x.h)
	}
}

func (m *model) Len() int { return m.tree.Len() }

// A workload draws the delays of timers and the advances of the clock.
type workload struct {
	name  string
	start int64
	delay func(r *rand.Rand) int64
	tick  func(r *rand.Rand) int64
}

const hour = int64(3600e9)

func constant(d int64) func(*rand.Rand) int64 { return func(*rand.Rand) int64 { return d } }
func upTo(d int64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return r.Int64N(d) }
}

// magnitudes draws durations from a nanosecond to decades, each magnitude equally
// often. Some are negative.
func magnitudes(r *rand.Rand) int64 {
	d := r.Int64N(1 << (1 + r.IntN(61)))
	if r.IntN(8) == 0 {
		return -d
	}
	return d
}

var workloads = []workload{
	{"constant", 0, constant(1000), upTo(3)},
	{"varying", 1e18, upTo(5000), upTo(3)},
	{"few deadlines", -100, upTo(10), upTo(2)},
	{"past", 1e15, func(r *rand.Rand) int64 { return r.Int64N(2000) - 1500 }, upTo(3)},
	{"hours", 1_700_000_000e9, upTo(50 * hour), upTo(hour)},
	{"years", -5e18, magnitudes, upTo(24 * 400 * hour)},
	{"magnitudes", 0, magnitudes, func(r *rand.Rand) int64 { return max(0, magnitudes(r)>>8) }},
}

// TestAgainstModel makes random calls on an index and the model, from outside
// and from inside fire, and compares all answers.
func TestAgainstModel(t *testing.T) {
	all := append(slices.Clone(indexes), indexes[0])
	all[len(indexes)].name = "selective"
	all[len(indexes)].make = func() index { return NewSelective(func(uint32) bool { return true }) }
	for _, x := range all {
		for _, w := range workloads {
			t.Run(x.name+"/"+w.name, func(t *testing.T) {
				for round := range uint64(4) {
					if err := compare(x.make(), w, rand.New(rand.NewPCG(uint64(*seedFlag), round))); err != nil {
						t.Fatalf("round %d: %v\nrerun: go test ./internal/timer -run '^%s$' -seed %d", round, err, t.Name(), *seedFlag)
					}
				}
			})
		}
	}
}

func compare(got index, w workload, r *rand.Rand) error {
	want := newModel()
	const handles = 500
	now := w.start
	add := func(now int64, delay int64) int64 {
		if at := now + delay; (at > now) == (delay > 0) {
			return at
		}
		return math.MaxInt64
	}
	for step := range 3000 {
		switch h := uint32(r.IntN(handles)); {
		case r.IntN(3) > 0:
			at := add(now, w.delay(r))
			got.Add(h, at)
			want.Add(h, at)
		case r.IntN(2) > 0:
			if g, w := got.Cancel(h), want.Cancel(h); g != w {
				return fmt.Errorf("step %d: Cancel(%d) = %v, want %v", step, h, g, w)
			}
		default:
			now = add(now, w.tick(r))
			// Both indexes fire with the same random choices.
			seed := r.Uint64()
			fired := func(x index) (hs []uint32) {
				r := rand.New(rand.NewPCG(seed, 0))
				x.Expire(now, func(h uint32) {
					hs = append(hs, h)
					other := uint32(r.IntN(handles))
					delay, again := w.delay(r), r.IntN(20)
					switch {
					case again < 2:
						x.Add(other, add(now, delay))
					case again == 3:
						x.Add(h, add(now, -delay))
					case again == 4:
						x.Cancel(other)
					}
				})
				return hs
			}
			if g, w := fired(got), fired(want); !slices.Equal(g, w) {
				return fmt.Errorf("step %d: Expire(%d) fired\n%v, want\n%v", step, now, g, w)
			}
		}
		if g, w := got.Len(), want.Len(); g != w {
			return fmt.Errorf("step %d: Len() = %d, want %d", step, g, w)
		}
		if err := compareNext(got, want); err != nil {
			return fmt.Errorf("step %d: %v", step, err)
		}
	}
	return nil
}

func compareNext(got, want index) error {
	g, gok := got.Next()
	w, wok := want.Next()
	_, bound := got.(*Wheel)
	if gok != wok || g != w && !(bound && g < w) {
		return fmt.Errorf("Next() = %d, %v, want %d, %v", g, gok, w, wok)
	}
	return nil
}
