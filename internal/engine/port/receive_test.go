package port

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A reading remote records up to where elements were reported as read.
type reading struct {
	nowhere
	told []string
}

func (r *reading) Read(_ int, _ int32, source int, number uint64) {
	r.told = append(r.told, fmt.Sprint(source, ":", number))
}

// stepOf feeds p a step in which the stream emits n elements, numbered from first.
func stepOf(p *threePorts, source, first, n int) error {
	made := newThreePorts(nil)
	made.stream.first = uint64(first)
	for i := range n {
		made.stream.step = append(made.stream.step, first+i)
	}
	part, err := made.stream.Emit(nil, jsonCodec{})
	if err != nil {
		return err
	}
	data := append([]byte{byte(p.stream.op.Index), byte(len(part))}, part...)
	return logdriven.Feed(p.graph, 0, source, nil, data)
}

// TestReceive acknowledges elements in any order. An element is reported to the history when it
// and all before it from the same source were handled.
func TestReceive(t *testing.T) {
	remote := &reading{}
	p := newThreePorts(remote)
	for _, s := range [][3]int{{0, 0, 2}, {1, 0, 1}, {0, 2, 1}, {0, 3, 2}} {
		if err := stepOf(p, s[0], s[1], s[2]); err != nil {
			t.Fatal(err)
		}
	}
	var acks []func()
	for range 5 {
		_, ack, err := p.stream.Receive(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, ack)
	}
	check := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(remote.told, want) {
			t.Errorf("%s: told %q, want %q", what, remote.told, want)
		}
		remote.told = nil
	}
	acks[3]()
	acks[1]()
	acks[1]()
	check("others before the first one")
	acks[2]()
	check("another source", "1:1")
	acks[0]()
	check("the first one", "0:1", "0:2", "0:3")
	acks[0]()
	acks[4]()
	check("the last but one", "0:4")
	if _, err := p.stream.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	check("the last one, with Next")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.stream.Next(ctx)
	check("when the reader comes back", "0:5")
}
