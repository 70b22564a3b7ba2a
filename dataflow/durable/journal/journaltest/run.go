// Package journaltest checks that a journal.Log does what its documentation says. Call [Run] in a
// test of the log, and [Limits] if the log has a limit.
package journaltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// patience is how long a check may take. A check that takes longer fails. It is for what hangs, and not for a machine that is slow.
const patience = 5 * time.Minute

// Run runs all checks. Open returns a log without any history and closes it when its test ends. The
// log must have at least two partitions. Each check uses its own partition, so Run calls open again
// when the partitions are used up.
func Run(t *testing.T, open func(t *testing.T) journal.Log) {
	b := &bench{t: t, open: open}
	for _, check := range []struct {
		name string
		do   func(*testing.T, place)
	}{
		{"an identity", identity},
		{"records come out as they went in", inOrder},
		{"no records are no message", nothing},
		{"records are the log's own", ownCopies},
		{"records of many callers", manyCallers},
		{"too large for a message", tooLarge},
		{"a context that has ended", endedContext},
		{"a reader in the middle", fromTheMiddle},
		{"a reader takes what it can hold", pages},
		{"a reader waits", readerWaits},
		{"a reader goes on after its context has ended", readerGoesOn},
		{"a reader ahead", aheadOfAppend},
		{"a reader ahead without steps", aheadWithoutStep},
		{"steps form a chain", chain},
		{"a zombie is refused", zombie},
		{"two owners race", race},
		{"large steps", largeSteps},
		{"large steps race", largeRace},
		{"large steps that are cut short", cutShortSteps},
		{"followers of steps", followers},
		{"snapshots", snapshots},
		{"snapshots by two owners", snapshotsByTwo},
		{"snapshots half written", halfWritten},
		{"a snapshot that is overtaken", overtaken},
		{"pieces of a state", pieces},
		{"pieces of many callers", manyPieces},
		{"purge keeps the fence", purgeKeepsFence},
		{"purge and readers", purgeAndReaders},
		{"purge without a snapshot", purgeWithoutSnapshot},
		{"usage", usage},
		{"restore gives what was committed", restoreEquality},
		{"there is no such partition", noSuchPartition},
	} {
		t.Run(check.name, func(t *testing.T) { check.do(t, b.fresh(t)) })
	}
	t.Run("identities differ", func(t *testing.T) {
		if a, b := open(t).Identity(), open(t).Identity(); a == b {
			t.Errorf("two logs have the identity %v", a)
		}
	})
	t.Run("partitions are apart", func(t *testing.T) { apart(t, open(t)) })
	t.Run("size", func(t *testing.T) { size(t, open(t)) })
	t.Run("closing", func(t *testing.T) { closing(t, open(t)) })
}

// A place is a partition without history, and a context for operations on it.
type place struct {
	journal.Log
	p   int
	ctx context.Context
}

// A bench hands out places.
type bench struct {
	t    *testing.T
	open func(*testing.T) journal.Log
	log  journal.Log
	next int
}

func (b *bench) fresh(t *testing.T) place {
	if b.log == nil || b.next == b.log.Partitions() {
		b.log, b.next = b.open(b.t), 0
	}
	b.next++
	return place{b.log, b.next - 1, limited(t)}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// append adds records that must be accepted.
func (l place) append(t *testing.T, records ...string) uint64 {
	t.Helper()
	var raw [][]byte
	for _, r := range records {
		raw = append(raw, []byte(r))
	}
	position, err := l.Append(l.ctx, l.p, raw...)
	if err != nil {
		t.Fatalf("Append(%q): %v", records, err)
	}
	return position
}

// commit commits a step that must be accepted.
func (l place) commit(t *testing.T, fence uint64, step []byte) uint64 {
	t.Helper()
	next, err := l.Commit(l.ctx, l.p, fence, step)
	if err != nil {
		t.Fatalf("Commit after fence %d: %v", fence, err)
	}
	if next <= fence {
		t.Fatalf("Commit after fence %d made fence %d", fence, next)
	}
	return next
}

func (l place) restore(t *testing.T) *journal.History {
	t.Helper()
	h, err := l.Restore(l.ctx, l.p)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	return h
}

func (l place) read(t *testing.T, after uint64) journal.Reader {
	t.Helper()
	r, err := l.Read(l.ctx, l.p, after)
	if err != nil {
		t.Fatalf("Read after %d: %v", after, err)
	}
	t.Cleanup(r.Close)
	return r
}

// collect reads until it has n records. It returns them with their positions.
func (l place) collect(t *testing.T, r journal.Reader, n int) (records []string, positions []uint64) {
	t.Helper()
	last := uint64(0)
	for len(records) < n {
		messages, err := r.Next(l.ctx, 1<<20)
		if err != nil {
			t.Fatalf("Next after %d of %d records: %v", len(records), n, err)
		}
		if len(messages) == 0 {
			t.Fatal("Next returned no messages and no error")
		}
		for _, m := range messages {
			if m.Position <= last {
				t.Fatalf("position %d after %d", m.Position, last)
			}
			last = m.Position
			for _, record := range m.Records {
				records = append(records, string(record))
				positions = append(positions, m.Position)
			}
		}
	}
	if len(records) > n {
		t.Fatalf("read %d records, want %d: %.200q", len(records), n, records)
	}
	return records, positions
}

// noise returns random bytes, the same for each seed, so that pieces in the wrong order are detected.
func noise(size int, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, size)
	rand.NewChaCha8(key).Read(b)
	return b
}

// same fails the test if two histories differ.
func same(t *testing.T, got, want *journal.History) {
	t.Helper()
	if got.At != want.At || got.Fence != want.Fence {
		t.Fatalf("snapshot at %d and fence %d, want %d and %d", got.At, got.Fence, want.At, want.Fence)
	}
	if (got.Snapshot == nil) != (want.Snapshot == nil) || !bytes.Equal(got.Snapshot, want.Snapshot) {
		t.Fatalf("snapshot of %d bytes (%.40q), want %d (%.40q)", len(got.Snapshot), got.Snapshot, len(want.Snapshot), want.Snapshot)
	}
	if len(got.Steps) != len(want.Steps) {
		t.Fatalf("%d steps, want %d", len(got.Steps), len(want.Steps))
	}
	for i, s := range got.Steps {
		if s.Fence != want.Steps[i].Fence || !bytes.Equal(s.Data, want.Steps[i].Data) {
			t.Fatalf("step %d is %s, want %s", i, brief(s), brief(want.Steps[i]))
		}
	}
}

func brief(s journal.Step) string {
	return fmt.Sprintf("%d bytes %.20q with fence %d", len(s.Data), s.Data, s.Fence)
}

// identity checks that the identity is not zero and does not change.
func identity(t *testing.T, p place) {
	if id := p.Log.Identity(); id == (journal.Identity{}) || p.Log.Identity() != id {
		t.Errorf("the identity is %v, and then %v", id, p.Log.Identity())
	}
}
