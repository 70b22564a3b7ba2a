package journaltest

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// piece saves a piece that must be accepted.
func (l place) piece(t *testing.T, data []byte) uint64 {
	t.Helper()
	n, err := l.SavePiece(l.ctx, l.p, data)
	if err != nil {
		t.Fatalf("SavePiece of %d bytes: %v", len(data), err)
	}
	return n
}

// wantPieces compares the pieces with numbers from first to last with the expected ones.
func (l place) wantPieces(t *testing.T, first, last uint64, want []journal.Piece) {
	t.Helper()
	got, err := l.Pieces(l.ctx, l.p, first, last)
	if err != nil {
		t.Fatalf("Pieces from %d to %d: %v", first, last, err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d pieces from %d to %d, want %d", len(got), first, last, len(want))
	}
	for i, p := range got {
		if p.Number != want[i].Number || !bytes.Equal(p.Data, want[i].Data) {
			t.Fatalf("piece %d of %d bytes, want piece %d of %d", p.Number, len(p.Data), want[i].Number, len(want[i].Data))
		}
	}
}

// overtaken checks that a snapshot replaces only the one that its owner knows. Otherwise the pieces
// that it refers to may already have been purged for another snapshot.
func overtaken(t *testing.T, l place) {
	first := l.commit(t, 0, []byte("step"))
	second := l.commit(t, first, []byte("step"))
	third := l.commit(t, second, []byte("step"))
	l.save(t, first, []byte("first"))
	l.save(t, second, []byte("second"))
	for _, x := range []struct{ after, at uint64 }{{0, first}, {first, second}, {second, second}, {0, third}, {first, third}, {second, first}, {third, third}} {
		if err := l.SaveSnapshot(l.ctx, l.p, x.after, x.at, []byte("other")); !errors.Is(err, journal.ErrOvertaken) {
			t.Errorf("SaveSnapshot at %d, after %d, with one at %d: %v, want ErrOvertaken", x.at, x.after, second, err)
		}
	}
	if h := l.restore(t); h.At != second || string(h.Snapshot) != "second" {
		t.Errorf("the snapshot at %d is %q, want the second one", h.At, h.Snapshot)
	}
}

// pieces saves pieces of all sizes and purges them. Steps, records and
// snapshots must not affect them.
func pieces(t *testing.T, l place) {
	l.wantPieces(t, 0, 1<<40, nil)
	var all []journal.Piece
	fence := uint64(0)
	for i, size := range []int{1, 100, 32 << 10, 64 << 10, 100_000, journal.MaxPiece, 3} {
		data := noise(size, uint64(i))
		kept := bytes.Clone(data)
		n := l.piece(t, data)
		clear(data) // the log has a copy
		if k := len(all); k > 0 && n <= all[k-1].Number {
			t.Fatalf("piece %d after piece %d", n, all[k-1].Number)
		}
		all = append(all, journal.Piece{Number: n, Data: kept})
		l.append(t, "record")
		fence = l.commit(t, fence, []byte("step"))
		l.save(t, fence, []byte("snapshot"))
	}
	if _, err := l.SavePiece(l.ctx, l.p, make([]byte, journal.MaxPiece+1)); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("SavePiece of too many bytes: %v, want ErrTooLarge", err)
	}
	if err := l.Purge(l.ctx, l.p, 1<<40, 1<<40); err != nil {
		t.Fatal(err)
	}
	first, last := all[0].Number, all[len(all)-1].Number
	l.wantPieces(t, 0, 1<<40, all)
	l.wantPieces(t, first, last, all)
	l.wantPieces(t, first+1, last-1, all[1:len(all)-1])
	l.wantPieces(t, all[3].Number, all[3].Number, all[3:4])
	l.wantPieces(t, last+1, 1<<40, nil)
	gone := 0
	for _, n := range []int{0, 3, 3, 1, len(all) - 1} {
		if err := l.PurgePieces(l.ctx, l.p, all[n].Number); err != nil {
			t.Fatal(err)
		}
		gone = max(gone, n)
		l.wantPieces(t, 0, 1<<40, all[gone:])
	}
	next := l.piece(t, []byte("next"))
	l.wantPieces(t, last, next, append(all[len(all)-1:], journal.Piece{Number: next, Data: []byte("next")}))
}

// manyPieces saves pieces from several callers at once, such as two owners of which one does not
// know that it was replaced.
func manyPieces(t *testing.T, l place) {
	const callers, each = 4, 20
	numbers := make([][]uint64, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				n, err := l.SavePiece(l.ctx, l.p, noise(500+i, uint64(c)))
				if err != nil {
					t.Error(err)
					return
				}
				numbers[c] = append(numbers[c], n)
			}
		})
	}
	wg.Wait()
	got, err := l.Pieces(l.ctx, l.p, 0, 1<<40)
	if err != nil || len(got) != callers*each {
		t.Fatalf("%d pieces (%v), want %d", len(got), err, callers*each)
	}
	kept := make(map[uint64][]byte)
	for _, p := range got {
		kept[p.Number] = p.Data
	}
	for c := range callers {
		for i, n := range numbers[c] {
			if i > 0 && n <= numbers[c][i-1] || !bytes.Equal(kept[n], noise(500+i, uint64(c))) {
				t.Fatalf("piece %d of caller %d has the number %d, or is another one", i, c, n)
			}
		}
	}
}
