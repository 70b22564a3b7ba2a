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

// A source of many splits is looked at as a whole: who reads them is asked for with a message for each partition.
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
			s.put(fmt.Sprint(i)) // which is empty
		}
		pumps := attach(t, app, connect.ByKey(s, "keys are splits"), app.Ports.byKey, connect.Options{})
		time.Sleep(time.Minute)
		reading := 0
		for _, x := range pumps.Status() {
			if x.Reading && x.Err == nil {
				reading++
			}
		}
		if n := appends.Load(); reading != splits || int(n) > splits+partitions { // one of each pump, and one to each partition
			t.Errorf("%d splits are read, for which %d messages were sent", reading, n)
		}
		none(t, app.Ports.keys)
		stop(t, pumps)
		stop(t, app)
	})
}
