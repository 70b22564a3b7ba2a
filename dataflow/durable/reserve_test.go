package durable

import (
	"fmt"
	"math"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// An inflated is a state of 100 keys. It is made with small values, and a cut of these is written, so that the cutter
// underestimates the state when the values have become large.
type inflated struct {
	t        *testing.T
	executor *logdriven.Executor
	cutter   *logdriven.Cutter
}

func newInflated(t *testing.T) *inflated {
	t.Helper()
	flow, graph := newLogDriven(dataflow.Options{Buffer: 1 << 20}, CBOR(), nil, false)
	chunkFlow(flow)
	graph.Start(t.Context())
	g := &inflated{t: t, executor: logdriven.NewExecutor(graph, 0)}
	if _, err := g.executor.Begin(0); err != nil {
		t.Fatal(err)
	}
	g.cutter = g.executor.Cutter()
	return g
}

// set gives each key a value of a size.
func (g *inflated) set(size int) {
	g.t.Helper()
	for i := range 100 {
		key, err := CBOR().Append(nil, fmt.Sprint("key-", i))
		value, err2 := CBOR().Append(nil, chunk{Data: noise(size), Keep: true})
		if err != nil || err2 != nil {
			g.t.Fatal(err, err2)
		}
		if _, err := g.executor.Step(1, [][]byte{(&codec.Record{Key: key, Value: value}).Encode(nil)}, nil); err != nil {
			g.t.Fatal(err)
		}
	}
}

// write writes all of the state and returns how many bytes that are.
func (g *inflated) write() (n int) {
	g.t.Helper()
	g.cutter.Again()
	if err := g.cutter.Begin(math.MaxInt); err != nil {
		g.t.Fatal(err)
	}
	if _, err := g.cutter.Write(func() bool { return false }); err != nil {
		g.t.Fatal(err)
	}
	for _, p := range g.cutter.Pieces() {
		n += len(p.Data)
	}
	return n
}

// TestSizeOfState compares the size of a state with what a snapshot of all of it writes.
func TestSizeOfState(t *testing.T) {
	g := newInflated(t)
	for _, size := range []int{10, 10_000} {
		g.set(size)
		estimate := g.cutter.Live()
		whole, err := g.executor.Size()
		if err != nil {
			t.Fatal(err)
		}
		written := g.write()
		t.Logf("%d bytes are written, estimated as %d and measured as %d", written, estimate, whole)
		if written < 100*size || whole < written || whole > written+written/50+1<<10 {
			t.Errorf("%d bytes were written, and the state is said to have %d", written, whole)
		}
	}
}

// TestReserve checks that space is reserved for a whole state only if all of it fits, although the estimate of its size
// is far too small. Otherwise its snapshot would wait for ever.
func TestReserve(t *testing.T) {
	const size = 10_000
	for _, test := range []struct {
		name    string
		limit   int   // of the log
		stored  int64 // by earlier snapshots
		remains int64 // must stay free besides
		want    bool
	}{
		{"plenty", 8 << 20, 100 * size, 0, true},
		{"just enough", 1200 << 10, 4 << 20, 0, true},
		{"too little", 900 << 10, 100 * size, 0, false},
		{"too little besides", 1200 << 10, 4 << 20, 200 << 10, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newInflated(t)
			g.set(10)
			g.write()
			g.set(size)
			log := journal.NewMemory(journal.MemoryOptions{MaxBytes: test.limit})
			o := &owner{core: &core{log: log, limit: int64(test.limit)}, executor: g.executor, cutter: g.cutter}
			o.stored.runs = []run{{bytes: uint64(test.stored)}}
			for range 2 { // what the estimate missed is known the second time
				if got := o.reserve(t.Context(), test.remains); got != test.want {
					t.Fatalf("reserved %v, want %v; the estimate is %d and misses %d", got, test.want, g.cutter.Live(), o.underrated)
				}
				o.release(o.reserves)
				o.reserves = 0
			}
			if !test.want {
				return
			}
			o.reserve(t.Context(), test.remains)
			if written := int64(g.write()); o.reserves < written {
				t.Errorf("%d bytes are reserved, and %d written", o.reserves, written)
			}
		})
	}
}

// TestRewrite checks that the snapshot after one that rewrites the state is worth what it deletes, which is all that was
// stored.
func TestRewrite(t *testing.T) {
	const stored = 1 << 20
	g := newInflated(t)
	o := &owner{core: &core{gateway: &gateway{partitions: []*partitionGateway{{}}}}, cutter: g.cutter, before: &cut{}}
	o.stored.runs = []run{{bytes: stored}}
	o.rewrite()
	o.covers()
	if got := o.behind(); got < stored {
		t.Errorf("the next snapshot deletes %d bytes, want %d", got, stored)
	}
	o.stored.runs = nil
	o.covers()
	if got := o.behind(); got != 0 {
		t.Errorf("the snapshot after that deletes %d bytes, want none", got)
	}
}
