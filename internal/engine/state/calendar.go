package state

import (
	"math"
	"math/bits"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A Calendar keeps the entries of a table in the order of the times at which they end. An entry may end later than when it was
// added: it is checked when it comes up, and only then moved to its new place, so changing its end costs nothing.
//
// It is a calendar queue. Distant times are in buckets, to which entries are appended; the bucket of the present is a heap.
// Adding an entry and removing it when it comes up take constant time while buckets have about equally many entries, and O(log n)
// at worst.
//
// It is not saved, since the entries say when they end: when a calendar is loaded, it is rebuilt from its table. What comes up
// depends only on the entries.
//
// It maintains: a live entry is in near if its due time is in the open bucket or an earlier one, and otherwise in the bucket of
// its due time. An entry may also occur elsewhere, with other times.
type Calendar[K comparable, V any] struct {
	table *keyed.Table[K, V]
	times func(*V) (due *int64, end int64)
	shift int // the bucket of a time is the time without this many low bits
	hash  *keyed.Hasher[int64]

	near []dated // a heap
	open int64
	far  *keyed.Table[int64, []dated]
	next []dated // the buckets of far, a heap
	free [][]dated
	seen int64 // has no meaning: it keeps the compiler from removing prefetching reads
}

// A dated is entry number i, as it was added to a calendar.
type dated struct {
	at int64
	i  uint32
}

// NewCalendar returns a calendar in m of the entries of a table in m. times returns when an entry ends, and the variable in which
// the calendar records when it checks the entry; only the calendar writes to that variable, and it is not saved. span is roughly
// how far ahead ends are.
func NewCalendar[K comparable, V any](m engine.Memory, table *keyed.Table[K, V], span int64, times func(*V) (due *int64, end int64)) *Calendar[K, V] {
	c := &Calendar[K, V]{table: table, times: times, shift: max(0, bits.Len64(uint64(span))-9), hash: engine.Hasher[int64]()}
	c.clear()
	m.Add(c.clear, func(*engine.Op) engine.State { return calendarState[K, V]{c} })
	return c
}

func (c *Calendar[K, V]) clear() {
	c.near, c.open, c.far, c.next, c.free = nil, math.MinInt64, keyed.NewTable[int64, []dated](), nil, nil
}

// Add makes an entry come up when it ends. It is called for an entry that is new, that ends earlier than before, or that was
// passed to the function of Until and continues.
func (c *Calendar[K, V]) Add(i uint32, v *V) {
	due, end := c.times(v)
	*due = end
	x := dated{end, i}
	if b := end >> c.shift; b > c.open {
		c.file(b, x)
	} else {
		c.near = append(c.near, x)
		rise(c.near)
	}
}

// file puts x in the bucket b.
func (c *Calendar[K, V]) file(b int64, x dated) {
	list, added := c.far.Put(b, c.hash.Hash(b))
	if added {
		c.next = append(c.next, dated{at: b})
		rise(c.next)
		if n := len(c.free); n > 0 {
			*list, c.free = c.free[n-1], c.free[:n-1]
		}
	}
	*list = append(*list, x)
}

// Until calls f with the entries that end at or before now, in the order of their ends and then of their numbers. f either
// deletes the entry, or makes it end later and adds it again.
func (c *Calendar[K, V]) Until(now int64, f func(i uint32, k K, v *V)) {
	for {
		for len(c.near) > 0 && c.near[0].at <= now {
			x := take(&c.near)
			k, v, ok := c.table.At(x.i)
			if !ok {
				continue
			}
			switch due, end := c.times(v); {
			case *due != x.at: // it was added again
			case end > x.at:
				c.Add(x.i, v)
			default:
				f(x.i, k, v)
			}
		}
		if len(c.next) == 0 || c.next[0].at > now>>c.shift {
			return
		}
		c.turn()
	}
}

// turn opens the next bucket. near is empty: everything that was in it ended before that bucket, and has come up.
func (c *Calendar[K, V]) turn() {
	b := take(&c.next).at
	h := c.hash.Hash(b)
	list := *c.far.Get(b, h)
	c.far.Delete(b, h)
	c.open = b
	for _, x := range list { // together, so that their cache misses overlap
		if _, v, ok := c.table.At(x.i); ok {
			due, _ := c.times(v)
			c.seen += *due
		}
	}
	for _, x := range list {
		_, v, ok := c.table.At(x.i)
		if !ok {
			continue
		}
		due, end := c.times(v)
		if *due != x.at {
			continue
		}
		*due = end
		if to := end >> c.shift; to > b {
			c.file(to, dated{end, x.i})
		} else {
			c.near = append(c.near, dated{end, x.i})
		}
	}
	for i := len(c.near)/2 - 1; i >= 0; i-- {
		sink(c.near, i)
	}
	if len(c.free) <= len(c.next) && cap(list) <= 4096 {
		c.free = append(c.free, list[:0])
	}
}

func (x dated) before(y dated) bool { return x.at < y.at || x.at == y.at && x.i < y.i }

// rise moves the last element of a heap into place.
func rise(heap []dated) {
	for i := len(heap) - 1; i > 0 && heap[i].before(heap[(i-1)/2]); i = (i - 1) / 2 {
		heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
	}
}

// take removes the first element of a heap.
func take(heap *[]dated) dated {
	h := *heap
	first, n := h[0], len(h)-1
	h[0] = h[n]
	*heap = h[:n]
	sink(h[:n], 0)
	return first
}

// sink moves element i of a heap into place.
func sink(heap []dated, i int) {
	if i >= len(heap) {
		return
	}
	x := heap[i]
	for {
		j := 2*i + 1
		if j >= len(heap) {
			break
		}
		if j+1 < len(heap) && heap[j+1].before(heap[j]) {
			j++
		}
		if !heap[j].before(x) {
			break
		}
		heap[i] = heap[j]
		i = j
	}
	heap[i] = x
}

// A calendarState saves nothing.
type calendarState[K comparable, V any] struct{ c *Calendar[K, V] }

func (s calendarState[K, V]) Kind() string { return "calendar" }

func (s calendarState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) { return dst, nil }

// Load rebuilds the calendar. The table is loaded earlier.
func (s calendarState[K, V]) Load(*codec.Decoder, codec.Codec) {
	s.c.clear()
	n, _, _ := s.c.table.Numbers().Next()
	for i := range n {
		if _, v, ok := s.c.table.At(i); ok {
			s.c.Add(i, v)
		}
	}
}

func (s calendarState[K, V]) Describe(*codec.Describer) {}
