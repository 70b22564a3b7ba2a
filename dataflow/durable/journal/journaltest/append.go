package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

func inOrder(t *testing.T, l place) {
	var want []string
	var positions []uint64
	for i := range 40 {
		records := []string{fmt.Sprint(i), "", strings.Repeat("x", i*100)}[:1+i%3]
		position := l.append(t, records...)
		for _, r := range records {
			want = append(want, r)
			positions = append(positions, position)
		}
	}
	got, at := l.collect(t, l.read(t, 0), len(want))
	if !slices.Equal(got, want) {
		t.Errorf("read %.200q, want %.200q", got, want)
	}
	if !slices.Equal(at, positions) {
		t.Errorf("read at the positions %v, appended at %v", at, positions)
	}
}

func nothing(t *testing.T, l place) {
	if position, err := l.Append(l.ctx, l.p); position != 0 || err != nil {
		t.Errorf("Append of nothing = %d, %v", position, err)
	}
	r := l.read(t, 0)
	if last, err := r.Last(l.ctx); last != 0 || err != nil {
		t.Errorf("Last of nothing = %d, %v", last, err)
	}
	l.append(t, "")
	if got, _ := l.collect(t, r, 1); got[0] != "" {
		t.Errorf("read %q, want an empty record", got)
	}
}

func ownCopies(t *testing.T, l place) {
	record, step, state := []byte("record"), []byte("step"), []byte("state")
	if _, err := l.Append(l.ctx, l.p, record); err != nil {
		t.Fatal(err)
	}
	fence := l.commit(t, 0, step)
	if err := l.SaveSnapshot(l.ctx, l.p, 0, fence, state); err != nil {
		t.Fatal(err)
	}
	fence = l.commit(t, fence, step)
	for _, b := range [][]byte{record, step, state} {
		clear(b)
	}
	if got, _ := l.collect(t, l.read(t, 0), 1); got[0] != "record" {
		t.Errorf("read %q", got)
	}
	if h := l.restore(t); string(h.Snapshot) != "state" || len(h.Steps) != 1 || string(h.Steps[0].Data) != "step" || h.Fence != fence {
		t.Errorf("restored %q, %v", h.Snapshot, h.Steps)
	}
}

// manyCallers checks that records appended by concurrent callers appear once each, with the calls
// of one caller in their order and the records of one call next to each other.
func manyCallers(t *testing.T, l place) {
	const callers, calls, each = 16, 30, 3
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	for caller := range callers {
		wg.Go(func() {
			for call := range calls {
				var records [][]byte
				for i := range each {
					records = append(records, fmt.Appendf(nil, "%d %d %d", caller, call, i))
				}
				if _, err := l.Append(l.ctx, l.p, records...); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	got, _ := l.collect(t, l.read(t, 0), callers*calls*each)
	next := make([]int, callers)
	for i := 0; i < len(got); i += each {
		var caller, call int
		if _, err := fmt.Sscanf(got[i], "%d %d 0", &caller, &call); err != nil || call != next[caller] {
			t.Fatalf("record %d is %q, its caller's next call is %d (%v)", i, got[i], next[caller], err)
		}
		for k := range each {
			if want := fmt.Sprintf("%d %d %d", caller, call, k); got[i+k] != want {
				t.Fatalf("record %d is %q, want %q", i+k, got[i+k], want)
			}
		}
		next[caller]++
	}
}

func tooLarge(t *testing.T, l place) {
	if _, err := l.Append(l.ctx, l.p, make([]byte, 65<<20)); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("Append of 65 MiB: %v, want ErrTooLarge", err)
	}
	const part, parts = 1 << 20, 65
	records := make([][]byte, parts)
	for i := range records {
		records[i] = make([]byte, part)
	}
	if _, err := l.Append(l.ctx, l.p, records...); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("Append of 65 records of 1 MiB: %v, want ErrTooLarge", err)
	}
	n := 1
	if most := journal.MaxRecord(l.Log); most > 0 {
		if _, err := l.Append(l.ctx, l.p, make([]byte, 2*most)); !errors.Is(err, journal.ErrTooLarge) {
			t.Errorf("Append of twice MaxRecord: %v, want ErrTooLarge", err)
		}
		if _, err := l.Append(l.ctx, l.p, noise(most, 1)); err != nil {
			t.Errorf("Append of MaxRecord, %d bytes: %v", most, err)
		}
		n++
	}
	l.append(t, "still here")
	l.collect(t, l.read(t, 0), n)
}

func endedContext(t *testing.T, l place) {
	ctx, cancel := context.WithCancel(l.ctx)
	cancel()
	errs := make(map[string]error)
	_, errs["Append"] = l.Append(ctx, l.p, []byte("x"))
	_, errs["Commit"] = l.Commit(ctx, l.p, 0, []byte("x"))
	_, errs["Restore"] = l.Restore(ctx, l.p)
	errs["SaveSnapshot"] = l.SaveSnapshot(ctx, l.p, 0, 0, nil)
	errs["Purge"] = l.Purge(ctx, l.p, 0, 0)
	_, errs["Usage"] = l.Usage(ctx, l.p)
	for name, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
	if h := l.restore(t); h.Fence != 0 {
		t.Errorf("fence %d, but no step was committed", h.Fence)
	}
}

func noSuchPartition(t *testing.T, l place) {
	for _, p := range []int{-1, l.Partitions()} {
		if _, err := l.Append(l.ctx, p, []byte("x")); err == nil {
			t.Errorf("Append to partition %d succeeded", p)
		}
		if _, err := l.Commit(l.ctx, p, 0, nil); err == nil {
			t.Errorf("Commit to partition %d succeeded", p)
		}
		if _, err := l.Read(l.ctx, p, 0); err == nil {
			t.Errorf("Read of partition %d succeeded", p)
		}
	}
}

// apart checks that two partitions are independent of each other.
func apart(t *testing.T, log journal.Log) {
	ctx := limited(t)
	a, b := place{log, 0, ctx}, place{log, 1, ctx}
	var fences [2]uint64
	var want [2][]string
	var last [2]uint64
	for i := range 20 {
		for p, l := range []place{a, b} {
			record := fmt.Sprint(p, " ", i)
			want[p] = append(want[p], record)
			last[p] = l.append(t, record)
			if other := last[1-p]; last[p] <= other { // positions are the only thing that partitions share
				t.Errorf("partition %d has position %d, after the other one had %d", p, last[p], other)
			}
			fences[p] = l.commit(t, fences[p], []byte(record))
		}
	}
	for p, l := range []place{a, b} {
		r := l.read(t, 0)
		if got, _ := l.collect(t, r, 20); !slices.Equal(got, want[p]) {
			t.Errorf("partition %d has %q, want %q", p, got, want[p])
		}
		if n, err := r.Last(ctx); n != last[p] || err != nil {
			t.Errorf("Last of partition %d = %d, %v, want %d", p, n, err, last[p])
		}
		if h := l.restore(t); h.Fence != fences[p] || len(h.Steps) != 20 || string(h.Steps[19].Data) != want[p][19] {
			t.Errorf("partition %d was restored to fence %d with %d steps", p, h.Fence, len(h.Steps))
		}
	}
	if err := log.Purge(ctx, 0, last[0], fences[0]); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.collect(t, b.read(t, 0), 20); !slices.Equal(got, want[1]) {
		t.Errorf("after a purge of the other, partition 1 has %q", got)
	}
	if h := b.restore(t); len(h.Steps) != 20 {
		t.Errorf("after a purge of the other, partition 1 has %d steps", len(h.Steps))
	}
}
