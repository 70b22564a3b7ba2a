package durable

import (
	"context"
	"testing"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A snapshot is in memory a few pieces at a time, also where no time passes while it is written, as on a machine that is faster than
// its disk: it would catch one that takes as much memory as the state.
func TestPiecesOfCutAreBounded(t *testing.T) {
	const keys = 1_000_000
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

// A state that is too large for an image of a history is not written for one, which would need as much memory again.
func TestImageOfLargeState(t *testing.T) {
	for keys, want := range map[int]bool{1000: true, imageBytes/64 + 1: false} {
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
		o := &owner{core: &core{}, leader: l, cutter: l.Cutter()}
		if im, err := o.image(1); err != nil || (im != nil) != want {
			t.Errorf("of %d keys there is an image: %v, %v", keys, im != nil, err)
		}
	}
}
