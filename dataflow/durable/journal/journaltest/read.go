package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

func fromTheMiddle(t *testing.T, l place) {
	var want []string
	var positions []uint64
	for i := range 20 {
		want = append(want, fmt.Sprint(i))
		positions = append(positions, l.append(t, want[i]))
	}
	for _, i := range []int{0, 7, 18} {
		if got, _ := l.collect(t, l.read(t, positions[i]), 19-i); !slices.Equal(got, want[i+1:]) {
			t.Errorf("after position %d read %q, want %q", positions[i], got, want[i+1:])
		}
	}
	r := l.read(t, positions[19])
	if last, err := r.Last(l.ctx); last != positions[19] || err != nil {
		t.Errorf("Last = %d, %v, want %d", last, err, positions[19])
	}
	l.append(t, "one more")
	if got, _ := l.collect(t, r, 1); got[0] != "one more" {
		t.Errorf("after the end read %q", got)
	}
}

func pages(t *testing.T, l place) {
	const size = 1000
	for range 10 {
		l.append(t, strings.Repeat("x", size))
	}
	r := l.read(t, 0)
	l.collect(t, l.read(t, 0), 10) // all of them are there
	for _, max := range []int{0, 1, size / 2} {
		got, err := r.Next(l.ctx, max)
		if err != nil || len(got) != 1 {
			t.Fatalf("Next with room for %d bytes returned %d messages and %v, want 1", max, len(got), err)
		}
	}
	for n := 3; n < 10; {
		got, err := r.Next(l.ctx, 2*size+100)
		if err != nil || len(got) < 1 || len(got) > 3 {
			t.Fatalf("Next with room for two more returned %d messages and %v", len(got), err)
		}
		n += len(got)
	}
}

func readerWaits(t *testing.T, l place) {
	r := l.read(t, 0)
	got := make(chan []journal.Message)
	go func() {
		defer close(got)
		for range 3 {
			messages, err := r.Next(l.ctx, 0)
			if err != nil {
				t.Error(err)
				return
			}
			got <- messages
		}
	}()
	for i := range 3 {
		record := fmt.Sprint("late ", i)
		position := l.append(t, record)
		if m := <-got; len(m) != 1 || m[0].Position != position || string(m[0].Records[0]) != record {
			t.Fatalf("the reader got %v, want %q at %d", m, record, position)
		}
	}
}

func readerGoesOn(t *testing.T, l place) {
	r := l.read(t, 0)
	for i := range 5 {
		ctx, cancel := context.WithCancel(l.ctx)
		failed := make(chan error)
		go func() {
			_, err := r.Next(ctx, 0)
			failed <- err
		}()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatalf("Next returned %v, want %v", err, context.Canceled)
		}
		record := fmt.Sprint(i)
		l.append(t, record)
		if got, _ := l.collect(t, r, 1); got[0] != record {
			t.Fatalf("read %q, want %q", got, record)
		}
	}
	r.Close()
	if _, err := r.Next(l.ctx, 0); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Next of a closed reader: %v, want ErrClosed", err)
	}
	r.Close()
}

// followers checks that steps arrive in order and without a gap, both existing and new ones, and
// that a reader returns an error where some were purged.
func followers(t *testing.T, l place) {
	var want []journal.Step
	fence := uint64(0)
	step := func(size int) {
		data := noise(size, uint64(len(want)))
		fence = l.commit(t, fence, data)
		want = append(want, journal.Step{Fence: fence, Data: data})
	}
	for range 10 {
		step(100)
	}
	follow := func(after uint64) journal.StepReader {
		r, err := l.Steps(l.ctx, l.p, after)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	expect := func(r journal.StepReader, steps []journal.Step) {
		t.Helper()
		for _, w := range steps {
			s, err := r.Next(l.ctx)
			if err != nil || s.Fence != w.Fence || string(s.Data) != string(w.Data) {
				t.Fatalf("got %s and %v, want %s", brief(s), err, brief(w))
			}
		}
	}
	all, some := follow(0), follow(want[4].Fence)
	expect(all, want)
	expect(some, want[5:])
	step(0)
	step(9 << 20)
	step(10)
	expect(all, want[10:])
	expect(some, want[10:])

	if err := l.SaveSnapshot(l.ctx, l.p, 0, want[8].Fence, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Purge(l.ctx, l.p, 0, want[8].Fence); err != nil {
		t.Fatal(err)
	}
	expect(follow(0), want[8:])
	expect(follow(want[7].Fence), want[8:])
	if s, err := follow(want[5].Fence).Next(l.ctx); !errors.Is(err, journal.ErrPurged) {
		t.Errorf("following from a step before those that are kept: %s and %v, want ErrPurged", brief(s), err)
	}
	step(20)
	expect(all, want[13:])
}

func closing(t *testing.T, log journal.Log) {
	ctx := limited(t)
	l := place{log, 0, ctx}
	l.append(t, "x")
	r := l.read(t, 0)
	l.collect(t, r, 1)
	s, err := log.Steps(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := r.Next(ctx, 0)
		waiting <- err
	}()
	go func() {
		_, err := s.Next(ctx)
		waiting <- err
	}()
	if err := log.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range 2 {
		if err := <-waiting; !errors.Is(err, journal.ErrClosed) {
			t.Errorf("Next of a closed log: %v, want ErrClosed", err)
		}
	}
	errs := make(map[string]error)
	_, errs["Append"] = log.Append(ctx, 0, []byte("x"))
	_, errs["Commit"] = log.Commit(ctx, 0, 0, nil)
	_, errs["Read"] = log.Read(ctx, 0, 0)
	_, errs["Steps"] = log.Steps(ctx, 0, 0)
	_, errs["Restore"] = log.Restore(ctx, 0)
	errs["SaveSnapshot"] = log.SaveSnapshot(ctx, 0, 0, 0, nil)
	errs["Purge"] = log.Purge(ctx, 0, 0, 0)
	_, errs["Usage"] = log.Usage(ctx, 0)
	for name, err := range errs {
		if !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s of a closed log: %v, want ErrClosed", name, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
