package windows

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// mostPanes is how many spans have a table of their own. A table takes some KiB, so further spans, as a wrong clock or a long
// slack opens them, share one.
const mostPanes = 16

// A Pane is an open span with a table of its own. It is exported so that it can be saved.
type Pane struct {
	From, To int64
	Open     bool
}

// panes hold the aggregates of the open spans.
//
// It maintains: an open span either has a pane, whose table holds its keys, or is in chains, which lists its keys in the shared
// table.
type panes[K comparable, A any] struct {
	panes  *[]Pane
	tables [mostPanes]*keyed.Table[K, A]
	last   int // the pane that was used last, as a guess

	shared *keyed.Table[spanned[K], link[A]]
	chains *keyed.Table[int64, chain]
	ends   *queue[int64] // the starts of the chains, by their ends
	starts *keyed.Hasher[int64]
	keys   *keyed.Hasher[spanned[K]]

	soon int64 // no open span ends before it
	due  []Pane
}

// A spanned is a key in the span that begins at From.
type spanned[K comparable] struct {
	Key  K
	From int64
}

// A link is the aggregate of a key, and one plus the index of the next entry of its span, or 0.
type link[A any] struct {
	acc  A
	next uint32
}

// A chain is a span of the shared table, with one plus the indexes of its first and last entry.
type chain struct {
	to          int64
	first, last uint32
}

func newPanes[K comparable, A any](m engine.Memory) *panes[K, A] {
	p := &panes[K, A]{panes: state.NewVar(m, make([]Pane, mostPanes)), soon: past}
	for i := range p.tables {
		p.tables[i] = state.NewTable(m, state.Plain[K], state.Plain[A])
	}
	p.shared = state.NewTable(m, state.Plain[spanned[K]], linkCodec[A])
	p.chains = state.NewTable(m, state.Plain[int64], chainCodec)
	p.ends = newQueue[int64](m)
	m.Op.Scratch(&p.last, &p.due)
	p.starts, p.keys = engine.Hasher[int64](), engine.Hasher[spanned[K]]()
	return p
}

// at returns the aggregate of a key in a span. If it was added, it is a zero value.
//
// Two open spans may begin at the same time: a program that was upgraded, or has new rules for a zone, finds spans
// of the earlier shape open.
func (p *panes[K, A]) at(from, to int64, k K, h uint64) (acc *A, added bool) {
	all := *p.panes
	want := Pane{from, to, true}
	if all[p.last] == want {
		return p.tables[p.last].Put(k, h)
	}
	free := -1
	for i := range all {
		switch {
		case !all[i].Open && free < 0:
			free = i
		case all[i] == want:
			p.last = i
			return p.tables[i].Put(k, h)
		}
	}
	if p.chains.Len() > 0 {
		if i, c := p.chains.GetIndex(from, p.starts.Hash(from)); c != nil {
			p.chains.Change(i)
			return p.link(c, from, k)
		}
	}
	p.soon = min(p.soon, to)
	if free >= 0 {
		p.last = free
		all[free] = Pane{from, to, true}
		return p.tables[free].Put(k, h)
	}
	c, _ := p.chains.Put(from, p.starts.Hash(from))
	*c = chain{to: to}
	p.ends.add(to, from)
	return p.link(c, from, k)
}

// link returns the aggregate of a key in a span of the shared table.
func (p *panes[K, A]) link(c *chain, from int64, k K) (acc *A, added bool) {
	key := spanned[K]{k, from}
	i, l, added := p.shared.PutIndex(key, p.keys.Hash(key))
	if !added {
		return &l.acc, false
	}
	if c.last == 0 {
		c.first = i + 1
	} else {
		p.shared.Change(c.last - 1)
		_, before, _ := p.shared.At(c.last - 1)
		before.next = i + 1
	}
	c.last = i + 1
	return &l.acc, true
}

// close calls each for the spans that end at or before m, in the order in which they end, with an iteration over their keys in
// order of arrival. It then forgets them.
func (p *panes[K, A]) close(m int64, each func(x Pane, keys func(func(K, *A)))) {
	if m < p.soon {
		return
	}
	p.due = p.due[:0]
	for _, x := range *p.panes {
		if x.Open && x.To <= m {
			p.due = append(p.due, x)
		}
	}
	for p.ends.next() <= m && len(*p.ends.all) > 0 {
		x := p.ends.take()
		p.due = append(p.due, Pane{From: x.What, To: x.At})
	}
	slices.SortFunc(p.due, func(x, y Pane) int { return cmp.Or(cmp.Compare(x.To, y.To), cmp.Compare(x.From, y.From)) })
	for _, x := range p.due {
		if x.Open {
			i := slices.Index(*p.panes, x)
			each(x, func(do func(K, *A)) {
				for k, acc := range keyed.All(p.tables[i]) {
					do(k, acc)
				}
			})
			p.tables[i].Clear()
			(*p.panes)[i] = Pane{}
			continue
		}
		each(x, func(do func(K, *A)) { p.unlink(x.From, do) })
	}
	p.soon = future
	for _, x := range *p.panes {
		if x.Open {
			p.soon = min(p.soon, x.To)
		}
	}
	p.soon = min(p.soon, p.ends.next())
}

// unlink removes a span from the shared table.
func (p *panes[K, A]) unlink(from int64, do func(K, *A)) {
	h := p.starts.Hash(from)
	c := p.chains.Get(from, h)
	for i := c.first; i != 0; {
		k, l, _ := p.shared.At(i - 1)
		do(k.Key, &l.acc)
		i = l.next
		p.shared.Delete(k, p.keys.Hash(k))
	}
	p.chains.Delete(from, h)
}

// linkCodec returns the codec of an entry of the shared table.
func linkCodec[A any](op *engine.Op) codec.Of[link[A]] {
	acc := state.Plain[A](op)
	return codec.Of[link[A]]{
		Kind: "link " + acc.Kind,
		Save: func(dst []byte, c codec.Codec, x *link[A]) ([]byte, error) {
			return acc.Save(binary.AppendUvarint(dst, uint64(x.next)), c, &x.acc)
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *link[A]) {
			x.next = uint32(d.Uint())
			acc.Load(d, c, &x.acc)
		},
	}
}

// chainCodec returns the codec of a span of the shared table.
func chainCodec(*engine.Op) codec.Of[chain] {
	return codec.Of[chain]{
		Kind: "chain",
		Save: func(dst []byte, _ codec.Codec, x *chain) ([]byte, error) {
			dst = binary.AppendVarint(dst, x.to)
			return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(x.first)), uint64(x.last)), nil
		},
		Load: func(d *codec.Decoder, _ codec.Codec, x *chain) {
			*x = chain{to: d.Int(), first: uint32(d.Uint()), last: uint32(d.Uint())}
		},
	}
}
