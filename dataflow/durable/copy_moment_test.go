package durable

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// movingBack is moving with the receiving partitions before the sending ones.
func movingBack(f *dataflow.Flow) movedPorts {
	dataflow.At[ledgers](f)
	return moving(f)
}

// A between log calls do before each Restore of a partition while it is armed.
type between struct {
	*journal.Memory
	armed     *atomic.Bool
	partition int
	do        func()
}

func (b *between) Restore(ctx context.Context, p int) (*journal.History, error) {
	if p == b.partition && b.armed.Load() {
		b.do()
	}
	return b.Memory.Restore(ctx, p)
}

// TestCopyOfOneMoment puts entries, moves them to the other location and outputs them while a
// backup is made, between its reads of the partitions of either location. In the copy, each entry
// is at exactly one location: after all entries are put again, with others, each is output once.
func TestCopyOfOneMoment(t *testing.T) {
	for name, build := range map[string]func(*dataflow.Flow) movedPorts{"senders first": moving, "receivers first": movingBack} {
		for _, save := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, snapshots=%v", name, save), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := Options{Partitions: 3, SnapshotAge: time.Hour, Flow: dataflow.Options{Buffer: 1 << 20}}
					if save {
						o.SnapshotBytes = 1
					}
					n, all := 0, make(map[string]bool)
					var app *App[movedPorts]
					put := func() {
						for range 20 {
							key := fmt.Sprint("k", n)
							n++
							all[key] = true
							if err := app.Ports.in.Put(t.Context(), key, n); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(time.Second) // in the bubble: all entries are at the other location, which nobody reads yet
					}
					log := &between{Memory: journal.NewMemory(journal.MemoryOptions{Partitions: 7}), armed: new(atomic.Bool), partition: 3, do: put}
					app = start(t, log, build, o)
					put()
					log.armed.Store(true)
					to := journal.NewMemory(journal.MemoryOptions{Partitions: 7})
					if _, err := app.Backup(t.Context(), &reopened{to}); err != nil {
						t.Fatal(err)
					}
					log.armed.Store(false)
					if n != 60 {
						t.Errorf("%d entries were put", n)
					}
					stop(t, app)
					app = start(t, to.Reopen(), build, o)
					for k := range n + 20 {
						key := fmt.Sprint("k", k)
						all[key] = true
						_ = app.Ports.in.Put(t.Context(), key, k) // the key may exist
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if err := came(ctx, app, make(map[string]bool), all); err != nil {
						t.Error(err)
					}
					stop(t, app)
				})
			})
		}
	}
}
