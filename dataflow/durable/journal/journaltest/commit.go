package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

func chain(t *testing.T, l place) {
	same(t, l.restore(t), &journal.History{})
	want := &journal.History{}
	for i := range 30 {
		data := []byte(fmt.Sprint(i))[:i%3]
		want.Fence = l.commit(t, want.Fence, data)
		want.Steps = append(want.Steps, journal.Step{Fence: want.Fence, Data: data})
	}
	same(t, l.restore(t), want)
}

// zombie checks that every fence except the last is refused, even one from the future.
func zombie(t *testing.T, l place) {
	first := l.commit(t, 0, []byte("first"))
	second := l.commit(t, first, []byte("second"))
	for _, fence := range []uint64{0, first, second + 1, second + 1000} {
		if _, err := l.Commit(l.ctx, l.p, fence, []byte("zombie")); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("Commit after fence %d: %v, want ErrFenced", fence, err)
		}
	}
	if h := l.restore(t); h.Fence != second || len(h.Steps) != 2 {
		t.Errorf("fence %d and %d steps, want %d and 2", h.Fence, len(h.Steps), second)
	}
	l.commit(t, second, []byte("third"))
}

func race(t *testing.T, l place)      { raceWith(t, l, 40, 10) }
func largeRace(t *testing.T, l place) { raceWith(t, l, 2, 9<<20) }

// raceWith lets three owners commit after the same fence, again and again. Exactly one may win each
// time, and Restore must return what the winners committed.
func raceWith(t *testing.T, l place, rounds, size int) {
	const owners = 3
	want := &journal.History{}
	for round := range rounds {
		var mu sync.Mutex
		var wg sync.WaitGroup
		var won []journal.Step
		for owner := range owners {
			wg.Go(func() {
				data := noise(size, uint64(round*owners+owner))
				fence, err := l.Commit(l.ctx, l.p, want.Fence, data)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, journal.Step{Fence: fence, Data: data})
				} else if !errors.Is(err, journal.ErrFenced) {
					t.Errorf("round %d: the loser gets %v, want ErrFenced", round, err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("round %d has %d winners, want 1", round, len(won))
		}
		want.Steps = append(want.Steps, won[0])
		want.Fence = won[0].Fence
	}
	same(t, l.restore(t), want)
}

func largeSteps(t *testing.T, l place) {
	want := &journal.History{}
	for i, size := range []int{1, 700 << 10, 1 << 20, 1<<20 + 1, 5 << 20, 9<<20 + 17, 1} {
		data := noise(size, uint64(i))
		want.Fence = l.commit(t, want.Fence, data)
		want.Steps = append(want.Steps, journal.Step{Fence: want.Fence, Data: data})
	}
	same(t, l.restore(t), want)
	// The pieces of purged steps must be purged with them, and those of the
	// remaining step must remain.
	at := want.Steps[5].Fence
	if err := l.SaveSnapshot(l.ctx, l.p, 0, want.Steps[4].Fence, []byte("state")); err != nil {
		t.Fatal(err)
	}
	before, err := l.Usage(l.ctx, l.p)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Purge(l.ctx, l.p, 0, at); err != nil {
		t.Fatal(err)
	}
	same(t, l.restore(t), &journal.History{Snapshot: []byte("state"), At: want.Steps[4].Fence, Steps: want.Steps[5:], Fence: want.Fence})
	after, err := l.Usage(l.ctx, l.p)
	if err != nil || after.Steps != 2 || after.Bytes >= before.Bytes {
		t.Errorf("usage %+v, before the purge %+v (%v)", after, before, err)
	}
}

// cutShortSteps cancels the context of large commits at many different moments. What Commit returns
// must agree with what Restore returns: a step that exists was acknowledged or unknown, and a step
// that does not exist was not acknowledged.
func cutShortSteps(t *testing.T, l place) {
	fence := uint64(0)
	failed := 0
	for i := range 9 {
		data := noise(7<<20, uint64(i))
		ctx, cancel := context.WithTimeout(l.ctx, 200*time.Microsecond<<i)
		next, err := l.Commit(ctx, l.p, fence, data)
		cancel()
		h := l.restore(t)
		switch {
		case err == nil && h.Fence != next:
			t.Fatalf("acknowledged with fence %d, restored to %d", next, h.Fence)
		case errors.Is(err, journal.ErrFenced):
			t.Fatalf("nobody else commits, but: %v", err)
		case err != nil && h.Fence != fence && !errors.Is(err, journal.ErrUnknown):
			t.Fatalf("the step is there although Commit says: %v", err)
		case h.Fence != fence && (len(h.Steps) != 1 || !bytes.Equal(h.Steps[0].Data, data)):
			t.Fatalf("restored %d steps, want the one committed last", len(h.Steps))
		case h.Fence == fence && len(h.Steps) != 0:
			t.Fatalf("restored %d steps, want none", len(h.Steps))
		}
		if err != nil {
			failed++
		}
		if h.Fence != fence {
			fence = h.Fence
			l.save(t, fence, nil)
			if err := l.Purge(l.ctx, l.p, 0, fence); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d of 9 commits were cut short", failed)
}
