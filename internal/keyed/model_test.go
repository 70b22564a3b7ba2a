package keyed

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

var seedFlag = flag.Int64("seed", 1, "seed of the random tests")

func rerun(t testing.TB) string {
	return fmt.Sprintf("rerun: go test ./internal/keyed -run '^%s$' -seed %d", t.Name(), *seedFlag)
}

// A model is the simplest table: a builtin map, and the numbers that the documentation promises.
type model[K comparable] struct {
	values map[K]int
	number map[K]uint32
	keys   []K // by number
	free   []uint32
}

func newModel[K comparable]() *model[K] {
	return &model[K]{values: map[K]int{}, number: map[K]uint32{}}
}

func (m *model[K]) put(k K) (i uint32, added bool) {
	if i, ok := m.number[k]; ok {
		return i, false
	}
	if n := len(m.free); n > 0 {
		i = m.free[n-1]
		m.free = m.free[:n-1]
		m.keys[i] = k
	} else {
		i = uint32(len(m.keys))
		m.keys = append(m.keys, k)
	}
	m.number[k], m.values[k] = i, 0
	return i, true
}

func (m *model[K]) delete(k K) bool {
	i, ok := m.number[k]
	if ok {
		delete(m.number, k)
		delete(m.values, k)
		m.free = append(m.free, i)
	}
	if len(m.number) == 0 {
		m.clear()
	}
	return ok
}

func (m *model[K]) clear() { *m = *newModel[K]() }

// order returns the live keys by number.
func (m *model[K]) order() (keys []K) {
	for i, k := range m.keys {
		if n, ok := m.number[k]; ok && int(n) == i {
			keys = append(keys, k)
		}
	}
	return keys
}

// A pair is a table with its model.
type pair[K comparable, V value] struct {
	table *Table[K, V]
	model *model[K]
	hash  func(K) uint64
	step  int
}

// A value is a number with a given amount of memory.
type value interface{ [1]int | [64]int }

func newPair[V value, K comparable](hash func(K) uint64) *pair[K, V] {
	return &pair[K, V]{table: NewTable[K, V](), model: newModel[K](), hash: hash}
}

// do makes one call, chosen by op, on both and compares the results.
func (p *pair[K, V]) do(op uint8, k K) error {
	p.step++
	h := p.hash(k)
	want, has := p.model.values[k]
	switch {
	case op == 0:
		p.table.Clear()
		p.model.clear()
	case op < 90:
		if got := p.table.Delete(k, h); got != p.model.delete(k) {
			return fmt.Errorf("step %d: Delete(%v) = %v, want %v", p.step, k, got, has)
		}
	case op < 120:
		v := p.table.Get(k, h)
		if (v != nil) != has || has && (*v)[0] != want {
			return fmt.Errorf("step %d: Get(%v) = %v, want %v, %v", p.step, k, v, want, has)
		}
		if i := p.model.number[k]; has {
			if gk, gv, ok := p.table.At(i); !ok || gk != k || gv != v {
				return fmt.Errorf("step %d: At(%d) = %v, %v, %v, want key %v", p.step, i, gk, gv, ok, k)
			}
		}
	default:
		i, v, added := uint32(0), (*V)(nil), false
		if op%2 == 0 && h != 0 { // 0 stands for an unknown hash
			var same uint64
			if v, same, added = p.table.PutOne(nil, k, h); same != h {
				return fmt.Errorf("step %d: PutOne(%v) returns another hash than it was given", p.step, k)
			}
			i, _ = p.table.GetIndex(k, h)
		} else {
			i, v, added = p.table.PutIndex(k, h)
		}
		wi, wadded := p.model.put(k)
		if i != wi || added != wadded || (*v)[0] != want {
			return fmt.Errorf("step %d: PutIndex(%v) = %d, %d, %v, want %d, %d, %v", p.step, k, i, (*v)[0], added, wi, want, wadded)
		}
		(*v)[0] = p.step
		p.model.values[k] = p.step
	}
	return nil
}

// same compares all contents and checks the invariants.
func (p *pair[K, V]) same() error {
	var keys []K
	for k, v := range All(p.table) {
		keys = append(keys, k)
		if (*v)[0] != p.model.values[k] {
			return fmt.Errorf("All: value of %v is %d, want %d", k, (*v)[0], p.model.values[k])
		}
	}
	if want := p.model.order(); !slices.Equal(keys, want) {
		return fmt.Errorf("All: keys %v, want %v", keys, want)
	}
	if got, want := p.table.Len(), len(p.model.values); got != want {
		return fmt.Errorf("Len() = %d, want %d", got, want)
	}
	for _, i := range p.model.free {
		if k, _, ok := p.table.At(i); ok {
			return fmt.Errorf("At(%d) of a deleted entry has key %v", i, k)
		}
	}
	if _, _, ok := p.table.At(p.table.nums.next); ok {
		return fmt.Errorf("At(%d) past the last entry is there", p.table.nums.next)
	}
	return p.table.check()
}

// check returns an error for the first invariant that does not hold.
func (t *Table[K, V]) check() error {
	if uint32(len(t.nums.free))+t.nums.live != t.nums.next {
		return fmt.Errorf("%d free + %d live entries, want %d", len(t.nums.free), t.nums.live, t.nums.next)
	}
	seen := make(map[uint32]bool)
	for _, i := range t.spill {
		seen[i] = true
	}
	x := &t.index
	if len(x.dir) != len(x.ids) || len(x.dir) != 1<<(64-x.shift) || len(x.dir) < 2 {
		return fmt.Errorf("directory of %d places, %d ids, shift %d", len(x.dir), len(x.ids), x.shift)
	}
	for j := range x.dir {
		s := x.segs[x.ids[j]]
		first := j &^ (len(x.dir)>>s.depth - 1)
		if x.dir[j] != x.dir[first] || x.ids[j] != x.ids[first] {
			return fmt.Errorf("place %d is not of the segment of place %d", j, first)
		}
		if j != first {
			continue
		}
		used := 0
		slots := unsafe.Slice((*uint64)(x.dir[j]), x.mask+1)
		for p, s := range slots {
			if s == 0 {
				continue
			}
			used++
			for q := s >> 32 & x.mask; q != uint64(p); q = (q + 1) & x.mask {
				if slots[q] == 0 {
					return fmt.Errorf("segment %d: slot %d is behind a gap", x.ids[j], p)
				}
			}
			if x.dir[s>>x.shift] != x.dir[j] {
				return fmt.Errorf("segment %d: slot %d belongs to another", x.ids[j], p)
			}
			if i := uint32(s) - 1; i >= t.nums.next || t.nums.isDead(i) || seen[i] {
				return fmt.Errorf("segment %d: slot %d has entry %d, dead or seen", x.ids[j], p, i)
			}
			seen[uint32(s)-1] = true
		}
		if used != int(s.used) || used > len(slots)*7/8 {
			return fmt.Errorf("segment %d: %d of %d slots used, counted %d", x.ids[j], used, len(slots), s.used)
		}
	}
	for _, id := range x.idle {
		if x.segs[id] != (segment{}) {
			return fmt.Errorf("segment %d is idle and has %+v", id, x.segs[id])
		}
	}
	if len(seen) != int(t.nums.live) {
		return fmt.Errorf("%d entries are in the index, want %d", len(seen), t.nums.live)
	}
	return t.checkChunks()
}

func (t *Table[K, V]) checkChunks() error {
	used := 0
	for c, chunk := range t.chunks {
		if chunk != nil {
			used++
			continue
		}
		for i := c * chunkLen; i < (c+1)*chunkLen; i++ {
			if uint32(i) >= t.nums.next || !t.nums.isDead(uint32(i)) {
				return fmt.Errorf("entry %d lives or was not given out, and has no chunk", i)
			}
		}
	}
	if used != t.used || len(t.chunks) < pages(t.nums.next) {
		return fmt.Errorf("%d of %d chunks are there, want %d of %d or more", used, len(t.chunks), t.used, pages(t.nums.next))
	}
	for _, chunk := range t.spare {
		for i := range chunk {
			if reflect.ValueOf(chunk[i].v).IsZero() && reflect.ValueOf(chunk[i].k).IsZero() {
				continue
			}
			return fmt.Errorf("entry %d of a spare chunk is not zero", i)
		}
	}
	return nil
}
