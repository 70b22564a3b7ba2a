package durable

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestBatchesAtOnce sends large batches at the same time. Their encodings share memory, one batch after another,
// and no batch gets what belongs to another one.
func TestBatchesAtOnce(t *testing.T) {
	const senders, batches, each = 4, 20, 300
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), batchProcess, Options{})
	var group sync.WaitGroup
	for sender := range senders {
		group.Go(func() {
			k := string(rune('a' + sender))
			for batch := range batches {
				ks, vs := slices.Repeat([]string{k}, each), make([]string, each)
				for i := range vs {
					vs[i] = fmt.Sprintf("%05d %s", batch*each+i, strings.Repeat(k, 1000))
				}
				if n, err := app.Ports.keyed.SendBatch(t.Context(), ks, vs); n != each || err != nil {
					t.Errorf("SendBatch: %d, %v", n, err)
				}
			}
		})
	}
	next := make(map[string]int)
	for i := range senders * batches * each {
		e, err := app.Ports.values.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		if want := fmt.Sprintf("%05d %s", next[e.Key], strings.Repeat(e.Key, 1000)); e.Value != want {
			t.Fatalf("of %q came %.20q, want %.20q, and all of it the same letter", e.Key, e.Value, want)
		}
		next[e.Key]++
	}
	group.Wait()
	stop(t, app)
}
