// Package mark implements the marks of streams of events. The mark of a stream is a time before which no event of the stream is
// still to come; it only grows.
//
// A [Mark] belongs to a node of the graph and is set up while a flow is built. Its owner is an operator, which advances it after
// pushing everything that the mark covers, so a follower learns of a mark after the events before it. The mark of a merged stream
// is the least of the marks of its sources. Start reading at [Mark.Advance].
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

// Silent is the mark of a stream whose progress is unknown and for which no operator waits: the least of it and other marks is
// the least of the others.
const Silent = Past + 1

// A Mark is the mark of a stream. Its current value is in a variable that its owner saves with its state. The mark of several
// sources has no variable of its own.
type Mark struct {
	// Closes says that everything in the stream came when the mark passed its time, as the closed entries of a window do. So it
	// came in the order of times.
	Closes bool

	at        *int64
	until     *int64  // its value before it was Future
	of        []*Mark // the marks whose least it is, if it has no owner
	from      []*Mark // the marks of what the owner reads
	least     []*Mark // the marks that are the least of this one and others
	made      []*Mark // the marks of what operators make of the stream
	notified  int64   // the value that followers were last called with, of a mark without owner
	partial   bool    // it is of one partition of a location
	closing   bool    // the last of its sources has ended, and followers are called with the mark before that
	followers []func(now int64)
}

// Own returns the mark whose value is *at, of a stream that is made from streams with the marks from. When the mark becomes
// [Future], *until is set to its value before that.
func Own(at, until *int64, from ...*Mark) *Mark {
	m := &Mark{at: at, until: until, from: from}
	for _, x := range from {
		x.made = append(x.made, m)
	}
	return m
}

// Partitions are the marks of the partitions that a stream comes from. The stream's mark is the least of them, so a partition
// from which no mark has come holds it back.
type Partitions []*Mark

// Advance moves the mark of a partition, as [Mark.Advance] does. It ignores a partition that does not exist: an earlier program
// may have had more.
func (p Partitions) Advance(partition int, to int64) {
	if partition < len(p) {
		p[partition].Advance(to)
	}
}

// Least returns the mark of the stream.
func (p Partitions) Least() *Mark { return Least(p...) }

// OfPartitions returns the marks of the partitions that a stream comes from. Mark i has its value in at[i], and its value before
// it was [Future] in until[i]. A stream from a location that is not divided has one mark.
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
	m := &Mark{of: of, notified: Past}
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

// least returns the least of some marks. It ignores silent ones unless all are silent.
func least(of []*Mark) int64 {
	least, all := Future, Silent
	for _, m := range of {
		if now := m.Now(); now != Silent {
			least, all = min(least, now), Future
		}
	}
	return min(least, all)
}

// Heard returns what the mark would be without the partitions from which none has come yet. It is [Future] only if the mark is.
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

// FollowHeard arranges for f to be called with [Mark.Heard] whenever that may have advanced, and reports true, if the stream
// comes from partitions. Otherwise it does nothing.
func (m *Mark) FollowHeard(f func(heard int64)) bool {
	if !slices.ContainsFunc(m.sources(), func(x *Mark) bool { return x.partial }) {
		return false
	}
	for _, x := range m.sources() {
		x.Follow(func(int64) { f(m.Heard()) })
	}
	return true
}

// sources returns the owned marks whose least this is.
func (m *Mark) sources() []*Mark {
	if m.at != nil {
		return []*Mark{m}
	}
	return m.of
}

// end returns the greatest mark that a source had before it ended, or has now.
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

// Slowest returns the least of some marks, and appends to holders the marks on which it depends: of the marks that are made from
// no others, those that are least. A mark that has ended holds nothing back.
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

// Beside returns the mark or, if it is silent, the mark of the stream that it is joined with.
func (m *Mark) Beside(other *Mark) int64 {
	if now := m.Now(); now != Silent {
		return now
	}
	return other.Now()
}

// Behind returns the greatest of the marks that depend on this one. A silent stream continues from there: an earlier event would
// be late for a follower that did not wait.
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

// Follow arranges for f to be called whenever the mark has advanced, in the order of the calls of Follow. f may be called again
// with the same mark.
func (m *Mark) Follow(f func(now int64)) { m.followers = append(m.followers, f) }

// FollowTimes is [Mark.Follow] without [Silent].
func (m *Mark) FollowTimes(f func(now int64)) {
	m.Follow(func(now int64) {
		if now != Silent {
			f(now)
		}
	})
}

// Advance moves an owned mark to a later time and calls its followers. The owner has pushed every event before that time, and is
// not pushing one now.
//
// When the last source of a merged stream ends, the mark of the merged stream first goes to the greatest mark that one of the
// sources had, and only then to [Future]. So it gets there in whatever order the sources end.
func (m *Mark) Advance(to int64) {
	if to <= *m.at {
		return
	}
	for _, l := range m.least {
		l.notified = max(l.notified, l.Now())
	}
	if to == Future {
		*m.until = *m.at
	}
	*m.at = to
	if to == Future {
		m.close()
	}
	m.notify(to)
}

// close calls the followers of merged streams whose last source ends with the mark before the end.
func (m *Mark) close() {
	some := false
	for _, l := range m.least {
		if l.Now() == Future && l.end() > l.notified {
			l.closing, some = true, true
		}
	}
	if some {
		m.notify(Future)
	}
	for _, l := range m.least {
		l.closing = false
	}
}

// notify calls the followers of the mark and those of merged streams.
func (m *Mark) notify(to int64) {
	for _, f := range m.followers {
		f(to)
	}
	for _, l := range m.least {
		if now := l.Now(); now > l.notified {
			l.notified = now
			for _, f := range l.followers {
				f(now)
			}
		}
	}
}
