package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// save saves a snapshot that must be accepted.
func (l place) save(t *testing.T, at uint64, state []byte) {
	t.Helper()
	if err := l.SaveSnapshot(l.ctx, l.p, l.latest(t), at, state); err != nil {
		t.Fatalf("SaveSnapshot at %d: %v", at, err)
	}
}

// latest returns the fence of the latest snapshot.
func (l place) latest(t *testing.T) uint64 {
	t.Helper()
	h, err := l.Restore(l.ctx, l.p)
	if err != nil {
		t.Fatal(err)
	}
	return h.At
}

func snapshots(t *testing.T, l place) {
	if err := l.SaveSnapshot(l.ctx, l.p, 0, 1<<40, []byte("future")); err == nil {
		t.Error("a snapshot of a step that nobody made was accepted")
	}
	want := &journal.History{}
	for i, size := range []int{10, 0, 1 << 20, 10 << 20, 3} {
		before := want.Fence
		want.Fence = l.commit(t, before, []byte("a"))
		want.Steps = append(want.Steps, journal.Step{Fence: want.Fence, Data: []byte("a")})
		at := want.Fence
		want.Fence = l.commit(t, at, []byte("b"))
		want.Steps = []journal.Step{{Fence: want.Fence, Data: []byte("b")}}
		want.At, want.Snapshot = at, noise(size, uint64(i))
		l.save(t, at, want.Snapshot)
		same(t, l.restore(t), want)
		if err := l.SaveSnapshot(l.ctx, l.p, at, before, []byte("older")); !errors.Is(err, journal.ErrOvertaken) {
			t.Errorf("SaveSnapshot at an earlier step: %v, want ErrOvertaken", err)
		}
		same(t, l.restore(t), want)
	}
	// At the last step there is nothing after the snapshot.
	l.save(t, want.Fence, []byte("last"))
	same(t, l.restore(t), &journal.History{Snapshot: []byte("last"), At: want.Fence, Fence: want.Fence})
}

// snapshotsByTwo lets the owners of two different times save large snapshots at once, each replacing the same
// snapshot. Exactly one must succeed, whole, and the other must return ErrOvertaken.
func snapshotsByTwo(t *testing.T, l place) {
	fence := l.commit(t, 0, []byte("first"))
	for round := range 3 {
		older, latest := l.commit(t, fence, []byte("next")), l.latest(t)
		fence = l.commit(t, older, []byte("next"))
		states := map[uint64][]byte{older: noise(3<<20, uint64(2*round)), fence: noise(3<<20, uint64(2*round+1))}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var saved []uint64
		for at, state := range states {
			wg.Go(func() {
				err := l.SaveSnapshot(l.ctx, l.p, latest, at, state)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					saved = append(saved, at)
				} else if !errors.Is(err, journal.ErrOvertaken) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(saved) != 1 {
			t.Fatalf("snapshots at %v were saved, want one of them", saved)
		}
		if h := l.restore(t); h.At != saved[0] || !bytes.Equal(h.Snapshot, states[saved[0]]) || h.Fence != fence {
			t.Fatalf("the snapshot is at %d, with %d bytes, want that at %d", h.At, len(h.Snapshot), saved[0])
		}
	}
}

// halfWritten cancels the context of large snapshots at many different moments. Restore must return the old snapshot
// or the new one.
func halfWritten(t *testing.T, l place) {
	fence := l.commit(t, 0, []byte("first"))
	last := noise(7<<20, 1000)
	l.save(t, fence, last)
	failed := 0
	for i := range 9 {
		fence = l.commit(t, fence, []byte("next"))
		state := noise(7<<20, uint64(i))
		before := l.latest(t)
		ctx, cancel := context.WithTimeout(l.ctx, 200*time.Microsecond<<i)
		err := l.SaveSnapshot(ctx, l.p, before, fence, state)
		cancel()
		h := l.restore(t)
		switch string(h.Snapshot) {
		case string(state):
			last = state
		case string(last):
			if err == nil {
				t.Fatal("a snapshot was acknowledged and is not there")
			}
		default:
			t.Fatalf("restored a snapshot of %d bytes that nobody saved", len(h.Snapshot))
		}
		if err != nil {
			failed++
		}
		if h.Fence != fence {
			t.Fatalf("restored to fence %d, want %d", h.Fence, fence)
		}
	}
	t.Logf("%d of 9 snapshots were cut short", failed)
}

func purgeKeepsFence(t *testing.T, l place) {
	var fences []uint64
	fence := uint64(0)
	for range 10 {
		fence = l.commit(t, fence, []byte("step"))
		fences = append(fences, fence)
	}
	l.save(t, fences[6], []byte("state"))
	if err := l.Purge(l.ctx, l.p, 0, fences[6]); err != nil {
		t.Fatal(err)
	}
	if h := l.restore(t); h.Fence != fence || h.At != fences[6] || len(h.Steps) != 3 {
		t.Fatalf("restored to fence %d, a snapshot at %d and %d steps", h.Fence, h.At, len(h.Steps))
	}
	l.save(t, fence, []byte("state"))
	for range 2 { // once more does no harm
		if err := l.Purge(l.ctx, l.p, 1<<40, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	if u, err := l.Usage(l.ctx, l.p); err != nil || u.Steps != 1 {
		t.Errorf("usage %+v (%v), want the one step that is the fence", u, err)
	}
	for _, zombie := range []uint64{0, fences[8]} {
		if _, err := l.Commit(l.ctx, l.p, zombie, []byte("zombie")); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("after a purge, Commit after fence %d: %v, want ErrFenced", zombie, err)
		}
	}
	h := l.restore(t)
	same(t, h, &journal.History{Snapshot: []byte("state"), At: fence, Fence: fence})
	next := l.commit(t, h.Fence, []byte("after"))
	if h := l.restore(t); h.Fence != next || len(h.Steps) != 1 {
		t.Errorf("restored to fence %d and %d steps, want %d and 1", h.Fence, len(h.Steps), next)
	}
}

// purgeAndReaders checks that a reader that has not seen a purged message returns an error and never skips it.
func purgeAndReaders(t *testing.T, l place) {
	var positions []uint64
	for i := range 6 {
		positions = append(positions, l.append(t, fmt.Sprint(i)))
	}
	ahead := l.read(t, 0)
	l.collect(t, ahead, 6)
	if err := l.Purge(l.ctx, l.p, positions[3], 0); err != nil {
		t.Fatal(err)
	}
	for _, after := range []uint64{0, positions[1], positions[2]} {
		if _, err := l.Read(l.ctx, l.p, after); !errors.Is(err, journal.ErrPurged) {
			t.Errorf("Read after %d: %v, want ErrPurged", after, err)
		}
	}
	rest := l.read(t, positions[3])
	if got, _ := l.collect(t, rest, 2); got[0] != "4" || got[1] != "5" {
		t.Errorf("after the purge read %q", got)
	}
	last := l.append(t, "6")
	l.collect(t, ahead, 1)

	// The reader rest has not returned 6 when everything is purged. It may return 6 or report that it was purged, but
	// must not continue with 7.
	if err := l.Purge(l.ctx, l.p, last, 0); err != nil {
		t.Fatal(err)
	}
	l.append(t, "7")
	if got, _ := l.collect(t, ahead, 1); got[0] != "7" {
		t.Errorf("a reader ahead of the purge got %q, want 7", got)
	}
	messages, err := rest.Next(l.ctx, 0)
	if err == nil && string(messages[0].Records[0]) != "6" || err != nil && !errors.Is(err, journal.ErrPurged) {
		t.Errorf("a reader behind the purge got %v and %v, want 6 or ErrPurged", messages, err)
	}
	// A position from before an older purge stays purged.
	if err := l.Purge(l.ctx, l.p, positions[0], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(l.ctx, l.p, positions[1]); !errors.Is(err, journal.ErrPurged) {
		t.Errorf("after a late purge, Read: %v, want ErrPurged", err)
	}
}

func purgeWithoutSnapshot(t *testing.T, l place) {
	first := l.commit(t, 0, []byte("first"))
	second := l.commit(t, first, []byte("second"))
	if err := l.Purge(l.ctx, l.p, 0, second); err != nil {
		t.Fatal(err)
	}
	// A replica may not have received the purge yet. Then the whole history is visible for a while, which is correct.
	for begun := time.Now(); ; {
		h, err := l.Restore(l.ctx, l.p)
		if errors.Is(err, journal.ErrPurged) {
			return
		}
		if err != nil || h.Fence != second || len(h.Steps) != 2 || time.Since(begun) > time.Minute {
			t.Fatalf("restored %+v and %v, want ErrPurged", h, err)
		}
	}
}

func usage(t *testing.T, l place) {
	if u, err := l.Usage(l.ctx, l.p); err != nil || u.Records != 0 || u.Steps != 0 {
		t.Errorf("usage of nothing: %+v (%v)", u, err)
	}
	fence := uint64(0)
	for range 5 {
		l.append(t, "a", "b")
		fence = l.commit(t, fence, make([]byte, 1000))
	}
	l.commit(t, fence, nil)
	if u, err := l.Usage(l.ctx, l.p); err != nil || u.Records != 5 || u.Steps != 6 || u.Bytes == 0 {
		t.Errorf("usage of 5 messages and 6 steps: %+v (%v)", u, err)
	}
}

// restoreEquality compares what Restore returns with a model, after many random operations.
func restoreEquality(t *testing.T, l place) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	model := &journal.History{}
	for i := range 60 {
		switch action := rng.IntN(10); {
		case action < 6 || model.Fence == 0:
			data := noise(rng.IntN(2000), rng.Uint64())
			if rng.IntN(20) == 0 {
				data = noise(2<<20, rng.Uint64())
			}
			model.Fence = l.commit(t, model.Fence, data)
			model.Steps = append(model.Steps, journal.Step{Fence: model.Fence, Data: data})
		case action < 8 && len(model.Steps) > 0:
			n := rng.IntN(len(model.Steps))
			model.At = model.Steps[n].Fence
			model.Snapshot = noise(rng.IntN(3<<20), rng.Uint64())
			model.Steps = model.Steps[n+1:]
			l.save(t, model.At, model.Snapshot)
		default:
			if err := l.Purge(l.ctx, l.p, 0, model.At); err != nil {
				t.Fatal(err)
			}
		}
		if i%4 == 0 {
			same(t, l.restore(t), model)
		}
	}
	same(t, l.restore(t), model)
}
