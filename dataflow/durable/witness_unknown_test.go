package durable

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestWitnessKnowsNothing checks that a start logs once if the witness knows nothing of an existing history, as
// a witness in the wrong place does. It must not log for each partition, or for a new history.
func TestWitnessKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
		w := newMemoryWitness()
		for _, c := range []struct {
			name    string
			log     *journal.Memory
			witness Witness
			want    int
		}{
			{"a new history without a witness", log, nil, 0},
			{"a history without a witness", log, nil, 0},
			{"a history that it knows nothing of", log, w, 1},
			{"a history that it knows", log, w, 0},
			{"a new history", journal.NewMemory(journal.MemoryOptions{Partitions: 3}), newMemoryWitness(), 0},
		} {
			var said safeBuffer
			app := start(t, c.log.Reopen(), keptCluster, Options{Partitions: 3, Witness: c.witness, Logger: slog.New(slog.NewTextHandler(&said, nil))})
			for p := range 3 {
				if !app.core.gateway.partitions[p].isOwned() {
					t.Errorf("%s: partition %d was not restored", c.name, p)
				}
			}
			stop(t, app)
			if got := strings.Count(said.String(), "the witness knows nothing of a partition"); got != c.want {
				t.Errorf("%s: the logger heard %d times that the witness knows nothing, want %d:\n%s", c.name, got, c.want, said.String())
			}
		}
	})
}
