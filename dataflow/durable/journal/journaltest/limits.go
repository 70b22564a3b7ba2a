package journaltest

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Reopen closes a log and opens it again with another limit. Each call
// continues the same history.
type Reopen func(t *testing.T, maxBytes int64) journal.Log

// limit is the limit with which the checks of limits open a log.
const limit = 16 << 20

// Limits checks how a log implements [journal.OpenOptions].MaxBytes. Open returns a function that
// opens a log of two partitions without history.
func Limits(t *testing.T, open func(t *testing.T) Reopen) {
	for _, check := range []struct {
		name string
		do   func(*testing.T, Reopen)
	}{
		{"full of records", fullOfRecords},
		{"full of steps", fullOfSteps},
		{"full of pieces", fullOfPieces},
		{"one partition fills the log", fullByOther},
		{"more than what is free", moreThanFree},
		{"the limit is lowered", lowered},
		{"the limit is lowered to what is kept", loweredToKept},
		{"no limit", unlimited},
	} {
		t.Run(check.name, func(t *testing.T) { check.do(t, open(t)) })
	}
}

// room returns the room that the log reports, and checks that it is within the limit.
func (l place) room(t *testing.T) journal.Room {
	t.Helper()
	r, err := l.Room(l.ctx)
	if err != nil {
		t.Fatalf("Room: %v", err)
	}
	if r.Kept < 0 || r.Limit > 0 && r.Kept > r.Limit {
		t.Errorf("%d bytes are kept, the limit is %d", r.Kept, r.Limit)
	}
	return r
}

// fill calls add until there is no room, and returns the number of calls without an error.
func fill(t *testing.T, what string, add func(i int) error) (n int) {
	t.Helper()
	for ; n < 10_000; n++ {
		err := add(n)
		if errors.Is(err, journal.ErrFull) {
			return n
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	t.Fatalf("%s: nothing is refused", what)
	return n
}

const unit = 100 << 10 // size of each record, step and piece that is added

// records adds records until one is refused, and returns their number and
// the position of the last one.
func (l place) records(t *testing.T) (n int, last uint64) {
	t.Helper()
	n = fill(t, "Append", func(i int) error {
		at, err := l.Append(l.ctx, l.p, noise(unit, uint64(i)))
		if err == nil {
			last = at
		}
		return err
	})
	return n, last
}

// steps commits steps until one is refused, and returns their number and the last fence.
func (l place) steps(t *testing.T, fence uint64) (int, uint64) {
	t.Helper()
	n := fill(t, "Commit", func(i int) error {
		next, err := l.Commit(l.ctx, l.p, fence, noise(unit, uint64(i)))
		if err == nil {
			fence = next
		}
		return err
	})
	return n, fence
}

// purge deletes records and steps that a snapshot covers.
func (l place) purge(t *testing.T, in, at uint64) {
	t.Helper()
	if err := l.Purge(l.ctx, l.p, in, at); err != nil {
		t.Fatalf("Purge: %v", err)
	}
}

// fullOfRecords checks that sends are refused first, and that a log knows how full it is after it
// is opened again. Additions that make room must still be accepted.
func fullOfRecords(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	if r := l.room(t); r.Limit != limit || r.Tight {
		t.Errorf("an empty log has the room %+v", r)
	}
	n, last := l.records(t)
	if size := n * unit; size < limit/4 || size > limit*4/5 {
		t.Errorf("%d bytes of records were taken, the limit is %d", size, limit)
	}
	before := l.room(t)
	if before.Kept < int64(n*unit) || !before.Tight {
		t.Errorf("%d bytes of records are kept, and the room is %+v", n*unit, before)
	}
	l = place{reopen(t, limit), 0, limited(t)}
	if r := l.room(t); r != before {
		t.Errorf("opened again, the room is %+v, and was %+v", r, before)
	}
	if _, err := l.Append(l.ctx, 0, noise(unit, 1)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("opened again, Append: %v, want ErrFull", err)
	}
	if _, err := l.Append(journal.For(l.ctx, journal.ToGoOn), 0, noise(unit, 1)); err != nil {
		t.Errorf("what makes room: %v", err)
	}
	fence := l.commit(t, 0, noise(unit, 2))
	l.piece(t, noise(unit, 3))
	l.save(t, fence, []byte("snapshot"))
	l.purge(t, last, fence)
	if r := l.room(t); r.Tight {
		t.Errorf("after a purge the room is %+v", r)
	}
	if again, _ := l.records(t); again < n*9/10-3 {
		t.Errorf("after a purge %d records are taken, before it %d were", again, n)
	}
}

// fullOfSteps checks that a log with no room for steps accepts the
// snapshot that makes room for them.
func fullOfSteps(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	n, last := l.steps(t, 0)
	if size := n * unit; size < limit/4 || size > limit*9/10 {
		t.Errorf("%d bytes of steps were taken, the limit is %d", size, limit)
	}
	before := l.room(t)
	l = place{reopen(t, limit), 0, limited(t)}
	if r := l.room(t); r != before || !r.Tight {
		t.Errorf("opened again, the room is %+v, and was %+v", r, before)
	}
	if _, err := l.Append(l.ctx, 0, noise(unit, 1)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Append, of which no step would have room: %v, want ErrFull", err)
	}
	if c, ok := l.Log.(journal.Conditioned); ok && !errors.Is(c.Condition(), journal.ErrFull) {
		t.Errorf("the condition is %v, want ErrFull", c.Condition())
	}
	if h := l.restore(t); len(h.Steps) != n || h.Fence != last {
		t.Fatalf("restored %d steps to fence %d, want %d to %d", len(h.Steps), h.Fence, n, last)
	}
	last, err := l.Commit(journal.For(l.ctx, journal.ToEnd), 0, last, noise(100, 1))
	if err != nil {
		t.Errorf("a step that makes room: %v", err)
	}
	l.piece(t, noise(unit, 1))
	l.save(t, last, []byte("snapshot"))
	l.purge(t, 0, last)
	if again, _ := l.steps(t, last); again < n*9/10-3 {
		t.Errorf("after a purge %d steps are taken, before it %d were", again, n)
	}
}

// fullOfPieces checks that pieces count against the limit and leave room for the snapshot that
// names them.
func fullOfPieces(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	first := l.commit(t, 0, []byte("step"))
	fence := l.commit(t, first, []byte("step"))
	l.save(t, first, []byte("first"))
	var last uint64
	add := func(i int) error {
		number, err := l.SavePiece(l.ctx, l.p, noise(unit, uint64(i)))
		if err == nil {
			last = number
		}
		return err
	}
	n := fill(t, "SavePiece", add)
	if size := n * unit; size < limit/4 || size > limit {
		t.Errorf("%d bytes of pieces were taken, the limit is %d", size, limit)
	}
	before := l.room(t)
	if before.Kept < int64(n*unit) || !before.Tight {
		t.Errorf("%d bytes of pieces are kept, and the room is %+v", n*unit, before)
	}
	l = place{reopen(t, limit), 0, limited(t)}
	if r := l.room(t); r != before {
		t.Errorf("opened again, the room is %+v, and was %+v", r, before)
	}
	if err := l.SaveSnapshot(l.ctx, l.p, first, fence, []byte("second")); err != nil {
		t.Errorf("SaveSnapshot: %v", err)
	}
	if err := l.PurgePieces(l.ctx, l.p, last); err != nil {
		t.Fatal(err)
	}
	if r := l.room(t); r.Tight || r.Kept < unit {
		t.Errorf("with one piece, the room is %+v", r)
	}
	if again := fill(t, "SavePiece", add); again < n-3 {
		t.Errorf("after a purge %d pieces are taken, before it %d were", again, n)
	}
}

// fullByOther checks that the data of one partition counts for all partitions, and that a purge of
// it makes room for all.
func fullByOther(t *testing.T, reopen Reopen) {
	log := reopen(t, limit)
	l, other := place{log, 0, limited(t)}, place{log, 1, limited(t)}
	_, last := l.records(t)
	if _, err := other.Append(other.ctx, 1, noise(unit, 1)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Append to another partition: %v, want ErrFull", err)
	}
	other.commit(t, 0, noise(unit, 1))
	l.commit(t, 0, noise(unit, 1))
	l.purge(t, last, 0)
	other.append(t, "record")
}

// moreThanFree checks that one call is refused as a whole, with ErrFull
// if it may be accepted later.
func moreThanFree(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	l.records(t)
	last := l.append(t, "small")
	r := l.room(t)
	if _, err := l.Append(l.ctx, 0, noise(unit, 1), noise(1, 1), noise(2*unit, 2)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Append of more than what is free: %v, want ErrFull", err)
	}
	if now := l.room(t); now != r {
		t.Errorf("after what was refused the room is %+v, and was %+v", now, r)
	}
	read := l.read(t, last-1)
	if records, _ := l.collect(t, read, 1); records[0] != "small" {
		t.Errorf("the last record is %.20q", records[0])
	}
	if end, err := read.Last(l.ctx); err != nil || end != last {
		t.Errorf("records end at %d (%v), want %d", end, err, last)
	}
	l.Log = reopen(t, 1<<20)
	if _, err := l.Append(l.ctx, 0, noise(1<<20, 1)); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("Append of more than there ever is for sends: %v, want ErrTooLarge", err)
	}
}

// lowered opens a log with a limit below what is kept. Sends must be refused, but not additions
// that make room.
func lowered(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	_, in := l.records(t)
	fence := l.commit(t, 0, noise(unit, 1))
	l.Log = reopen(t, limit/8)
	r, err := l.Room(l.ctx)
	if err != nil || r.Limit != limit/8 || r.Kept <= r.Limit || !r.Tight {
		t.Errorf("with a lower limit the room is %+v (%v)", r, err)
	}
	if _, err := l.Append(l.ctx, 0, noise(unit, 1)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Append: %v, want ErrFull", err)
	}
	fence = l.commit(t, fence, noise(unit, 1))
	l.piece(t, noise(unit, 1))
	l.save(t, fence, []byte("snapshot"))
	l.purge(t, in, fence)
	if r := l.room(t); r.Tight {
		t.Errorf("after a purge the room is %+v", r)
	}
	n, in := l.records(t)
	if size := n * unit; size == 0 || size > limit/8 {
		t.Errorf("after a purge %d bytes of records are taken, the limit is %d", size, limit/8)
	}
	l.purge(t, in, fence)
	if n, _ = l.steps(t, fence); n*unit > limit/8 {
		t.Errorf("after a purge %d bytes of steps are taken, the limit is %d", n*unit, limit/8)
	}
}

// loweredToKept opens a log repeatedly with limits around what is kept. Additions that make room
// must have room, even if no more than the limit is kept.
func loweredToKept(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	_, in := l.records(t)
	fence := uint64(0)
	for l.room(t).Kept < limit*9/20 { // the share of steps is half of it, or of a stream
		fence = l.commit(t, fence, noise(unit, 1))
	}
	kept := l.room(t).Kept
	for _, percent := range []int64{65, 68, 70, 72, 75, 80, 95, 98, 100, 101, 102, 105, 110, 120, 150} {
		l.Log = reopen(t, kept*percent/100)
		piece := uint64(0)
		for range 8 { // a state that is written anew
			piece = l.piece(t, noise(unit, 1))
		}
		var err error
		if fence, err = l.Commit(journal.For(l.ctx, journal.ToEnd), l.p, fence, []byte("the step that a snapshot needs")); err != nil {
			t.Fatalf("with %d bytes kept and %d %% of that as the limit: %v", kept, percent, err)
		}
		l.save(t, fence, []byte("snapshot"))
		if err := l.PurgePieces(l.ctx, l.p, piece+1); err != nil {
			t.Fatal(err)
		}
	}
	l.purge(t, in, fence)
	l.Log = reopen(t, limit/8)
	l.append(t, "record")
}

// unlimited fills a log and then opens it without a limit.
func unlimited(t *testing.T, reopen Reopen) {
	l := place{reopen(t, limit), 0, limited(t)}
	n, _ := l.records(t)
	l.Log = reopen(t, 0)
	if r := l.room(t); r.Limit != 0 || r.Tight || r.Kept < int64(n*unit) {
		t.Errorf("without a limit the room is %+v", r)
	}
	for i := range 40 {
		l.append(t, string(noise(unit, uint64(i))))
	}
}
