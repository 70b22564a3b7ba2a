package windows

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Kinds of notices about a split.
const (
	SplitFound = iota // the split exists
	SplitRead         // a reader begins to read it
	SplitIdle         // it is read up to its present end, and nothing comes
	SplitEnded        // it has ended
)

// A Notice is a report about a split.
type Notice struct {
	Is     uint8
	Reader uint64 // the reader that reports it; 0 if any may
	ID     string // of the split's incarnation
}

// A Split is the state of a split. It is exported so that it can be saved.
type Split struct {
	Mark   int64 // earlier elements of the split are late
	Left   bool  // it is not waited for
	Reader uint64
	ID     string
	Newest []int64 // see stamp
}

// splits is the state of a StampSplits. It maintains, between two elements:
//
//  1. the mark of a split that is waited for is not before the mark of the stream, so what is in time by the one is in time by
//     the other,
//  2. the mark of the stream is the least of these marks or, if there are none, the greatest mark that a split ever had. So it
//     does not matter which split was the last to leave.
type splits[K comparable, V any] struct {
	Clock[V]
	mark  *mark.Mark
	most  *int64 // the greatest mark of a split
	table *keyed.Table[K, Split]
	ended *keyed.Table[K, struct{}]
	m     int64 // the mark of the stream as of the last element of the step
	stale bool  // since then a split that held it back has moved or left
}

// begin starts a batch, before which the mark of the stream is up to date.
func (s *splits[K, V]) begin() { s.m, s.stale = s.mark.Now(), false }

// moves records that a split with the mark m moves or leaves.
func (s *splits[K, V]) moves(m int64) { s.stale = s.stale || m <= s.m }

// now returns the mark of the stream. It looks at all splits if one that held it back has moved.
func (s *splits[K, V]) now() int64 {
	if !s.stale {
		return s.m
	}
	least, some := future, false
	for _, x := range keyed.All(s.table) {
		if !x.Left {
			least, some = min(least, x.Mark), true
		}
	}
	if !some {
		least = *s.most
	}
	s.m, s.stale = max(least, s.m), false
	return s.m
}

// join makes the stream wait for a split, from its present mark on.
func (s *splits[K, V]) join(k K, h uint64) *Split {
	m := s.now() // before the split is one of them
	p, added := s.table.Put(k, h)
	if added {
		*p = Split{Mark: past}
		s.ended.Delete(k, h)
	}
	p.Mark, p.Left = max(p.Mark, m), false
	*s.most = max(*s.most, p.Mark)
	return p
}

// leave makes the stream no longer wait for a split.
func (s *splits[K, V]) leave(p *Split) {
	if !p.Left {
		s.moves(p.Mark)
		p.Left = true
	}
}

// apply applies a notice about a split.
func (s *splits[K, V]) apply(k K, h uint64, n Notice) {
	p := s.table.Get(k, h)
	if p != nil && n.Is != SplitFound {
		p, _ = s.table.Put(k, h) // records the change
	}
	switch n.Is {
	case SplitFound:
		if p == nil && s.ended.Get(k, h) == nil {
			s.join(k, h)
		}
	case SplitRead:
		if p == nil || p.ID != n.ID {
			m := s.now()
			p = s.join(k, h)
			p.Mark, p.Newest = m, nil // another incarnation's mark says nothing about this one
		} else {
			p = s.join(k, h)
		}
		p.ID, p.Reader = n.ID, n.Reader
	case SplitIdle:
		if p != nil && n.by(p) {
			s.leave(p)
		}
	case SplitEnded:
		if p != nil && n.by(p) {
			s.leave(p)
			s.table.Delete(k, h)
			s.ended.Put(k, h)
		}
	}
}

// by reports whether the reader of a notice is entitled to it: another reader may have taken over.
func (n *Notice) by(p *Split) bool { return n.Reader == 0 || p.Reader == 0 || n.Reader == p.Reader }

// StampSplits is [StampKeyed] with a mark for each key, which is a split of a source; the mark of the stream is the least of
// them. told contains the notices about splits.
func StampSplits[K comparable, V, N, E any](
	in *engine.KeyedNode[K, V], told *engine.KeyedNode[K, N], op *engine.Op, at func(V) int64, event func(int64, V) E, notice func(N) Notice, c Clock[V],
) (events, tardy *engine.KeyedNode[K, E]) {
	engine.Permuted(&in.Head)
	h := engine.Derived(op, in, told)
	memory := engine.Lasting(op)
	s := &splits[K, V]{
		Clock: c, mark: own(op), most: state.NewVar(memory, past), stale: true,
		table: state.NewTable(memory, state.Plain[K], state.Plain[Split]), ended: state.NewSet[K](memory),
	}
	h.Mark = s.mark
	events = engine.NewKeyedNode[K, E](h)
	h.Mark = nil
	tardy = engine.NewKeyedNode[K, E](h)
	engine.AtEnd(op, func() { s.mark.Advance(future) })
	hash := engine.Hasher[K]()
	var intime, out engine.Columns[K, E]
	var b engine.Batch[K, E]
	var inHash, toldHash []uint64
	op.Holds(&intime, &out)
	op.Scratch(&b, &inHash, &toldHash, &s.m, &s.stale)
	watch := in.Loc.Graph.Settings.Watch
	saw := func(k K, what uint64) {
		watch.Observed(in.Loc.Name, engine.FirstObserver+uint64(op.Index)<<32^digest.Of(k), what)
	}
	in.To(func(batch *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs := batch.Hashes(hash, &inHash)
		s.begin()
		var p *Split
		for i, k := range batch.K {
			x := batch.V[i]
			t := at(x)
			if i == 0 || k != batch.K[i-1] {
				if p = s.table.Get(k, hs[i]); p == nil || p.Left {
					p = s.join(k, hs[i])
				} else {
					p, _ = s.table.Put(k, hs[i])
				}
			}
			isLate := t < p.Mark || never(t)
			if watch != nil {
				saw(k, engine.ChainDigest(digest.Of(x), digest.Of(isLate)))
			}
			if isLate {
				engine.AppendEntry(&out, false, k, event(t, x), 0)
				continue
			}
			engine.AppendEntry(&intime, false, k, event(t, x), 0)
			if m := s.next(x, t, p.Mark, &p.Newest); m > p.Mark {
				s.moves(p.Mark)
				p.Mark, *s.most = m, max(*s.most, m)
			}
		}
		engine.PushEntries(events, intime, &b)
		engine.ClearEntries(&intime)
		engine.PushEntries(tardy, out, &b)
		engine.ClearEntries(&out)
		s.mark.Advance(s.now())
	})
	told.To(func(batch *engine.Batch[K, N]) {
		op.Loc.At = op.Index
		hs := batch.Hashes(hash, &toldHash)
		s.begin()
		for i, k := range batch.K {
			n := notice(batch.V[i])
			if watch != nil {
				saw(k, digest.Of(n))
			}
			s.apply(k, hs[i], n)
		}
		s.mark.Advance(s.now())
	})
	return events, tardy
}
