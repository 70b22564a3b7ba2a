package state

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A stay has an end, and the time for which it has been noted.
type stay struct{ end, due int64 }

// TestCalendar compares the expired entries with those of a sorted list. Entries end when they
// were due, later or earlier, near together and far apart. Loading the calendar in between
// changes nothing.
func TestCalendar(t *testing.T) {
	loads, moves, ties := 0, 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		op := engine.NewOp(engine.New(engine.Settings{}).NewLocation("here"), "Test", "")
		m := engine.Lasting(op)
		table := NewTable(m, Plain[int], Plain[stay])
		span := []int64{1, 100, 1000, 1 << 40}[r.IntN(4)]
		c := NewCalendar(m, table, span, func(s *stay) (*int64, int64) { return &s.due, s.end })
		hash := engine.Hasher[int]()
		now := int64(-1000)
		later := func() int64 {
			switch r.IntN(10) {
			case 0:
				return math.MaxInt64
			case 1:
				return now + 1 + r.Int64N(1<<45)
			case 2:
				return now + 1 // as other entries do
			}
			return now + 1 + r.Int64N(2*span)
		}
		var got, want []string
		for range 200 {
			for range r.IntN(8) {
				k := r.IntN(20)
				i, s, added := table.PutIndex(k, hash.Hash(k))
				end := later()
				switch {
				case added || end < s.due:
					s.end = end
					c.Add(i, s)
				case end > s.end:
					moves++
					s.end = end
				}
			}
			if r.IntN(10) == 0 {
				loads++
				for _, s := range keyed.All(table) {
					s.due = r.Int64() // is not saved
				}
				op.States[1].Load(&codec.Decoder{}, nil)
			}
			if now += 1 + r.Int64N(span); r.IntN(50) == 0 {
				now += 1 << 44
			}
			type ended struct {
				end int64
				i   uint32
			}
			var ends []ended
			n, _, _ := table.Numbers().Next()
			for i := range n {
				if _, s, ok := table.At(i); ok && s.end <= now {
					ends = append(ends, ended{s.end, i})
				}
			}
			slices.SortFunc(ends, func(a, b ended) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.i, b.i)) })
			for j, x := range ends {
				if want = append(want, fmt.Sprint(x)); j > 0 && ends[j-1].end == x.end {
					ties++
				}
			}
			c.Until(now, func(i uint32, k int, s *stay) {
				got = append(got, fmt.Sprint(ended{s.end, i}))
				if r.IntN(3) > 0 {
					table.Delete(k, hash.Hash(k))
					return
				}
				s.end = later()
				c.Add(i, s)
			})
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: at %d came up\n%v, want\n%v", seed, now, got, want)
			}
		}
	}
	if loads == 0 || moves == 0 || ties == 0 {
		t.Error("loaded, moved, tied:", loads, moves, ties)
	}
}

// TestCalendarForgets adds an entry repeatedly, each time with an earlier end, and each time
// extends its life before that end. The calendar must drop an old end when its time comes.
func TestCalendarForgets(t *testing.T) {
	for _, span := range []int64{1000, 1 << 22} { // each time has a bucket of its own, or many share one
		op := engine.NewOp(engine.New(engine.Settings{}).NewLocation("here"), "Test", "")
		m := engine.Lasting(op)
		table := NewTable(m, Plain[int], Plain[stay])
		c := NewCalendar(m, table, span, func(s *stay) (*int64, int64) { return &s.due, s.end })
		i, s, _ := table.PutIndex(1, engine.Hasher[int]().Hash(1))
		s.end = 1000
		c.Add(i, s)
		for now := int64(0); now < 1e6; now += 100 {
			s.end = now + 50 + now%7
			c.Add(i, s)
			s.end = now + 2000
			c.Until(now+100, func(uint32, int, *stay) { t.Fatal("it ended") })
			n := len(c.near)
			for _, list := range keyed.All(c.far) {
				n += len(*list)
			}
			if n > 30 {
				t.Fatalf("of one entry it has %d, with a span of %d", n, span)
			}
		}
	}
}
