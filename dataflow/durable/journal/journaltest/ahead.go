package journaltest

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// aheadOfAppend checks that records that are read ahead become durable with the step that is
// committed after them, in every way in which that is visible.
func aheadOfAppend(t *testing.T, l place) {
	ahead, err := journal.ReadAhead(l.ctx, l.Log, l.p, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ahead.Close()
	after := l.read(t, 0)
	var want []string
	fence := uint64(0)
	for i := range 10 {
		record := string(rune('a' + i))
		want = append(want, record)
		appended := make(chan uint64, 1)
		go func() {
			at, err := l.Append(l.ctx, l.p, []byte(record))
			if err != nil {
				t.Errorf("Append: %v", err)
			}
			appended <- at
		}()
		got, at := l.collect(t, ahead, 1)
		if got[0] != record {
			t.Fatalf("read %q ahead, want %q", got, record)
		}
		fence = l.commit(t, fence, []byte(record))
		if last, err := after.Last(l.ctx); err != nil || last != at[0] {
			t.Errorf("the last position is %d, %v, when a step is committed that took %d", last, err, at[0])
		}
		if h := l.restore(t); h.End < at[0] || h.Fence != fence {
			t.Errorf("a history that ends at %d, with fence %d, when step %d has taken position %d", h.End, h.Fence, fence, at[0])
		}
		if position := <-appended; position != at[0] {
			t.Errorf("appended at %d, and read at %d", position, at[0])
		}
	}
	if got, _ := l.collect(t, after, len(want)); !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// aheadWithoutStep checks that appends return even if the process that reads ahead commits no step
// or is gone.
func aheadWithoutStep(t *testing.T, l place) {
	ahead, err := journal.ReadAhead(l.ctx, l.Log, l.p, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.append(t, "one")
	l.append(t, "two")
	if got, _ := l.collect(t, ahead, 2); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("read %q ahead", got)
	}
	ahead.Close()
	l.append(t, "three")
	if got, _ := l.collect(t, l.read(t, 0), 3); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("read %q", got)
	}
}
