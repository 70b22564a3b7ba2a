// Package mark has the marks of streams of events. The mark of a stream is a time before
// which no event of the stream is still to come; it only grows.
//
// A [Mark] belongs to a node of the graph and is settled while a flow is built. The operator
// that owns one advances it after it has pushed everything that the mark covers, so a
// follower learns of a mark behind the events before it. A merged stream has the least of the
// marks of its sources. Start reading at [Mark.Advance].
package mark

import (
	"math"
	"slices"
)

// Past is before all times, and Future after all of them.
const (
	Past   int64 = math.MinInt64
	Future int64 = math.MaxInt64
)

// Silent is the mark of a stream of which nobody knows how far it is, and for which nobody
// waits: the least of it and other marks is the least of the others.
const Silent = Past + 1

// A Mark is the mark of a stream. What it is now is in a variable that its owner saves with
// its state; that of several sources has none of its own.
type Mark struct {
	at        *int64
	until     *int64  // what it was before it was Future
	of        []*Mark // of which it is the least, if it has no owner
	from      []*Mark // of what the owner reads
	least     []*Mark // that are the least of this one and others
	made      []*Mark // that are the marks of what operators make of the stream
	told      int64   // what followers were told last, of one without owner
	partial   bool    // it is of one partition of a location
	closing   bool    // the last of its sources has ended, and followers are told where they were
	followers []func(now int64)
}

// Own returns the mark that is at *at, of a stream that is made of those with the marks from. It
// notes in *until where it was before it was [Future].
func Own(at, until *int64, from ...*Mark) *Mark {
	m := &Mark{at: at, until: until, from: from}
	for _, x := range from {
		x.made = append(x.made, m)
	}
	return m
}

// Partitions are the marks of the partitions that a stream comes from. Its mark is the least of
// them, so a partition of which none has come holds it.
type Partitions []*Mark

// Advance moves the mark of a partition, as [Mark.Advance] does. It passes over one that there is
// not: a program of before may have had more.
func (p Partitions) Advance(partition int, to int64) {
	if partition < len(p) {
		p[partition].Advance(to)
	}
}

// Least returns the mark of the stream.
func (p Partitions) Least() *Mark { return Least(p...) }

// OfPartitions returns the marks of the partitions that a stream comes from, each at its place in
// at. It notes in until where each was before it was [Future]. What comes from a location that is
// not divided has one.
func OfPartitions(at, until []int64, divided bool) Partitions {
	all := make(Partitions, len(at))
	for i := range all {
		all[i] = &Mark{at: &at[i], until: &until[i], partial: divided}
	}
	return all
}

// Least returns the least of some marks, or nil if one of them is nil.
func Least(marks ...*Mark) *Mark {
	var of []*Mark
	for _, m := range marks {
		if m == nil {
			return nil
		}
		for _, x := range m.sources() {
			if !slices.Contains(of, x) {
				of = append(of, x)
			}
		}
	}
	if len(of) == 1 {
		return of[0]
	}
	m := &Mark{of: of, told: Past}
	for _, x := range of {
		x.least = append(x.least, m)
	}
	return m
}

// Now returns the mark.
func (m *Mark) Now() int64 {
	if m.at != nil {
		return *m.at
	}
	now := least(m.of)
	if m.closing && now == Future {
		return m.end()
	}
	return now
}

// least returns the least of some marks, of those that are not silent if there are some.
func least(of []*Mark) int64 {
	least, all := Future, Silent
	for _, m := range of {
		if now := m.Now(); now != Silent {
			least, all = min(least, now), Future
		}
	}
	return min(least, all)
}

// Heard returns what the mark is without the partitions of which none has come yet. It is
// [Future] only if the mark is.
func (m *Mark) Heard() int64 {
	now := Future
	for _, x := range m.sources() {
		if *x.at != Silent && !(x.partial && *x.at == Past) {
			now = min(now, *x.at)
		}
	}
	if now == Future {
		return m.Now()
	}
	return now
}

// FollowHeard has f called with [Mark.Heard] whenever that may have advanced, and reports true if
// the stream comes from partitions. Else it does nothing.
func (m *Mark) FollowHeard(f func(heard int64)) bool {
	if !slices.ContainsFunc(m.sources(), func(x *Mark) bool { return x.partial }) {
		return false
	}
	for _, x := range m.sources() {
		x.Follow(func(int64) { f(m.Heard()) })
	}
	return true
}

// sources returns the marks with an owner of which this is the least.
func (m *Mark) sources() []*Mark {
	if m.at != nil {
		return []*Mark{m}
	}
	return m.of
}

// end returns the greatest of the marks of the sources, of those that have ended before they did.
func (m *Mark) end() int64 {
	end := Past
	for _, x := range m.of {
		if *x.at == Future {
			end = max(end, *x.until)
		} else {
			end = max(end, *x.at)
		}
	}
	return end
}

// Slowest returns the least of some marks, and appends to holders those on which it depends: of the
// marks that were made first, behind which all others go, those that are least. Nothing holds time
// that has ended.
func Slowest(of, holders []*Mark) (now int64, _ []*Mark) {
	if now = least(of); now == Future {
		return now, holders
	}
	for _, m := range of {
		if m.Now() != now {
			continue
		}
		from := m.of
		if m.at != nil {
			from = m.from
		}
		if len(from) > 0 {
			_, holders = Slowest(from, holders)
		} else if !slices.Contains(holders, m) {
			holders = append(holders, m)
		}
	}
	return now, holders
}

// Beside returns the mark, or if that is silent the mark of the stream that it is joined with.
func (m *Mark) Beside(other *Mark) int64 {
	if now := m.Now(); now != Silent {
		return now
	}
	return other.Now()
}

// Behind returns the greatest of the marks that depend on this one. One that was silent goes on
// from there: what comes before that would be late for somebody who did not wait.
func (m *Mark) Behind() int64 {
	most := Past
	for _, x := range m.least {
		most = max(most, x.Now(), x.Behind())
	}
	for _, x := range m.made {
		most = max(most, x.Now(), x.Behind())
	}
	return most
}

// Follow has f called whenever the mark has advanced, in the order of the calls of Follow. It
// may be called again with a mark that it was told before.
func (m *Mark) Follow(f func(now int64)) { m.followers = append(m.followers, f) }

// FollowTimes is [Mark.Follow] without [Silent].
func (m *Mark) FollowTimes(f func(now int64)) {
	m.Follow(func(now int64) {
		if now != Silent {
			f(now)
		}
	})
}

// Advance moves the mark of an owner to a later time and tells those who follow it. The owner
// has pushed every event before that time, and is not pushing one now.
//
// When the last source of a merged stream ends, the mark of that goes to the greatest mark that
// one of them had, and only then to [Future]: so it comes there in whatever order sources end.
func (m *Mark) Advance(to int64) {
	if to <= *m.at {
		return
	}
	for _, l := range m.least {
		l.told = max(l.told, l.Now())
	}
	if to == Future {
		*m.until = *m.at
	}
	*m.at = to
	if to == Future {
		m.close()
	}
	m.tell(to)
}

// close has those who follow merged streams, of which the last source ends, told where it was.
func (m *Mark) close() {
	some := false
	for _, l := range m.least {
		if l.Now() == Future && l.end() > l.told {
			l.closing, some = true, true
		}
	}
	if some {
		m.tell(Future)
	}
	for _, l := range m.least {
		l.closing = false
	}
}

// tell tells those who follow the mark, and merged streams.
func (m *Mark) tell(to int64) {
	for _, f := range m.followers {
		f(to)
	}
	for _, l := range m.least {
		if now := l.Now(); now > l.told {
			l.told = now
			for _, f := range l.followers {
				f(now)
			}
		}
	}
}
