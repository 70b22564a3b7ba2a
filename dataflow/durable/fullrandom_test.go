package durable

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var fullSeed = flag.Uint64("durable.full", 0, "run TestFullAnyhow with this seed alone")

// TestFullAnyhow sends to flows whose logs are nearly full, mixed with reading and kills in any
// order. A refused send is accepted after the outputs were read, because the rest of the state is
// small. Rarely, if the state had more than an eighth of the log and a kill interrupted its
// snapshot, it is accepted only when the log may be larger.
func TestFullAnyhow(t *testing.T) {
	first, last := uint64(1), uint64(60)
	if *fullSeed != 0 {
		first, last = *fullSeed, *fullSeed
	}
	var larger []uint64
	for seed := first; seed <= last; seed++ {
		synctest.Test(t, func(t *testing.T) {
			if fullAnyhow(t, seed) {
				larger = append(larger, seed)
			}
		})
		if t.Failed() {
			t.Fatalf("again with: go test ./dataflow/durable -run TestFullAnyhow -durable.full %d", seed)
		}
	}
	if len(larger) > 3 {
		t.Errorf("the logs of seeds %v had to be larger", larger)
	}
}

// fullAnyhow reports whether the log had to be larger for a send.
func fullAnyhow(t *testing.T, seed uint64) (larger bool) {
	r := rand.New(rand.NewPCG(seed, 0))
	limit, partitions := 1<<(18+r.IntN(3)), 1+r.IntN(3)
	o := onlyFull
	o.Flow.Buffer = 10 << r.IntN(8)
	if r.IntN(2) == 0 {
		o.SnapshotAge = time.Second
	}
	log := journal.NewMemory(journal.MemoryOptions{MaxBytes: limit, Partitions: partitions})
	within(t, log)
	app := start(t, log, chunkFlow, o)
	size := limit >> (7 + r.IntN(3))
	keys := keysOf(8)
	read := func() {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := app.Ports.out.Next(ctx)
			cancel()
			if err != nil {
				return
			}
		}
	}
	for i := range 400 {
		switch r.IntN(40) {
		case 0:
			app.core.abandoned.Store(true)
			fallthrough
		case 1:
			stop(t, app)
			log = log.Reopen()
			within(t, log)
			app = start(t, log, chunkFlow, o)
		case 2:
			read()
		}
		c := chunk{Data: noise(1 + r.IntN(size)), Keep: r.IntN(4) == 0, Echo: r.IntN(2) == 0}
		key := keys[r.IntN(len(keys))]
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := app.Ports.in.Send(ctx, key, c)
		cancel()
		if err == nil {
			continue
		}
		read()
		again := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err = app.Ports.in.Send(ctx, key, c)
		}
		again()
		if err != nil && !larger && 8*app.core.stateBytes() > int64(limit) {
			larger = true
			app.core.abandoned.Store(true)
			stop(t, app)
			log = log.Reopen()
			log.SetMaxBytes(8 * int64(limit))
			within(t, log)
			app = start(t, log, chunkFlow, o)
			again()
		}
		if err != nil {
			room, _ := log.Room(context.Background())
			t.Errorf("send %d, limit %d, %d partitions, chunks of %d: %v; room %+v", i, limit, partitions, size, err, room)
			app.core.abandoned.Store(true)
			break
		}
	}
	read()
	stop(t, app)
	return larger
}
