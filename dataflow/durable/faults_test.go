package durable

import (
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// points returns a hook that injects a fault at the given moments. Each action has two
// moments, before and after it.
func points(fault func(journal.Action) journal.Fault, at ...int64) (journal.Hook, *atomic.Int64) {
	n := new(atomic.Int64)
	return func(a journal.Action) journal.Fault {
		i := n.Add(1)
		for _, p := range at {
			if i == p {
				return fault(a)
			}
		}
		return journal.Fault{}
	}, n
}

func crash(journal.Action) journal.Fault { return journal.Fault{Crash: true} }
func fail(journal.Action) journal.Fault  { return journal.Fault{Fail: true} }

func report(t *testing.T, name string, wrong []string) {
	t.Helper()
	for _, s := range wrong {
		t.Errorf("%s: %s", name, s)
	}
}
