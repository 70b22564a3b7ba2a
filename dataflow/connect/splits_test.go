package connect_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/long"
)

// TestManySplits checks that a source of many splits asks each partition only once which splits have a reader, and not once for
// each split.
func TestManySplits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions = 16
		splits := long.Of(300, 1000)
		log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
		var appends atomic.Int64
		log.SetHook(func(a journal.Action) journal.Fault {
			if a.Op == journal.OpAppend && a.Done {
				appends.Add(1)
			}
			return journal.Fault{}
		})
		app := kept(t, log, partitions)
		s := newShelf()
		for i := range splits {
			s.put(fmt.Sprint(i)) // an empty split
		}
		pumps := attach(t, app, connect.ByKey(s, "keys are splits"), app.Ports.byKey, connect.Options{})
		time.Sleep(time.Minute)
		reading := 0
		for _, x := range pumps.Status() {
			if x.Reading && x.Err == nil {
				reading++
			}
		}
		if n := appends.Load(); reading != splits || int(n) > splits+partitions { // one append per pump, and one to each partition
			t.Errorf("%d splits are read, for which %d messages were sent", reading, n)
		}
		none(t, app.Ports.keys)
		stop(t, pumps)
		stop(t, app)
	})
}
