package durable

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// largeExecutor returns an executor with the given number of keys.
func largeExecutor(t *testing.T, keys int) *logdriven.Executor {
	t.Helper()
	l := executorOf(t)
	if _, err := l.Begin(0); err != nil {
		t.Fatal(err)
	}
	data, err := CBOR().Append(nil, posting{N: keys})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Step(1, [][]byte{(&codec.Record{Value: data}).Encode(nil)}, nil); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestFinishOfFailedSnapshot checks that finish returns the error of a failed snapshot and does not wait for it.
func TestFinishOfFailedSnapshot(t *testing.T) {
	l := largeExecutor(t, 1_000_000)
	failed := errors.New("the disk is gone")
	c := &cut{wake: make(chan struct{}, 1), written: make(chan struct{}, 1), done: make(chan struct{}), ctx: t.Context(), err: failed}
	close(c.done)
	o := &owner{core: &core{}, cutter: l.Cutter(), cut: c, before: c}
	if err := o.cutter.Begin(0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := o.finish(ctx); !errors.Is(err, failed) || o.cut != nil {
		t.Errorf("it ended with %v, and is under way still: %v", err, o.cut != nil)
	}
}

// TestPiecesOfCutAreBounded checks that only a few pieces of a snapshot are in memory at a time, even if no time passes
// while it is written, as on a machine that is faster than its disk. Otherwise a snapshot could take as much memory as
// the state.
func TestPiecesOfCutAreBounded(t *testing.T) {
	l := largeExecutor(t, 1_000_000)
	c := &cut{wake: make(chan struct{}, 1), written: make(chan struct{}, 1), ctx: context.Background()}
	o := &owner{core: &core{}, cutter: l.Cutter(), cut: c}
	if err := o.cutter.Begin(0); err != nil {
		t.Fatal(err)
	}
	turns, all := 0, 0
	for ; o.cut != nil; turns++ {
		if err := o.writeCut(func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		n := c.waiting()
		if n > mostWaiting+4 {
			t.Fatalf("%d pieces wait, want %d or a little more", n, mostWaiting)
		}
		pieces, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		all += len(pieces)
	}
	if turns < 3 || all < 3*mostWaiting {
		t.Errorf("the state has %d pieces, written in %d turns: it is too small for this test", all, turns)
	}
}

// TestImageOfLargeState checks that no image is made of a state that is too large for one, which would take as much
// memory again.
func TestImageOfLargeState(t *testing.T) {
	for keys, want := range map[int]bool{1000: true, imageBytes/64 + 1: false} {
		l := largeExecutor(t, keys)
		o := &owner{core: &core{}, executor: l, cutter: l.Cutter()}
		if im, err := o.image(1); err != nil || (im != nil) != want {
			t.Errorf("of %d keys there is an image: %v, %v", keys, im != nil, err)
		}
	}
}
