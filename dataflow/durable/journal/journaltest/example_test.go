package journaltest_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/journal/journaltest"
)

// A test of a log calls Run with a function that opens one, here a log in memory.
func Example() {
	_ = func(t *testing.T) { // func TestLog(t *testing.T)
		journaltest.Run(t, func(t *testing.T) journal.Log {
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 64})
			t.Cleanup(func() { log.Close() })
			return log
		})
	}
}
