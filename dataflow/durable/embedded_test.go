package durable

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

func TestEmbedded(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		app := start(t, nil, quorumCluster, Options{Log: natslog.Embedded(dir), Partitions: 4})
		for i := range 20 {
			if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("r", i), round); err != nil {
				t.Fatal(err)
			}
		}
		if round == 2 {
			for i := range 20 {
				await(t, app.Ports.released, fmt.Sprint("r", i), tally{3, 3})
			}
		}
		stop(t, app)
	}
}

// TestPartitionsWithoutRecords restarts a flow after a kill and after a stop. Only some
// of its partitions have ever had a record. All of them are ready soon.
func TestPartitionsWithoutRecords(t *testing.T) {
	for name, log := range map[string]func(dir string) journal.Opener{"natslog": natslog.Embedded, "disklog": disklog.Dir} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stopped=%v", name, stopped), func(t *testing.T) {
				dir := t.TempDir()
				o := Options{Log: log(dir), Partitions: 4}
				app := start(t, nil, keptCluster, o)
				if err := app.Ports.in.Put(t.Context(), "k", "v"); err != nil {
					t.Fatal(err)
				}
				app.core.abandoned.Store(!stopped)
				if err := app.Stop(t.Context()); err != nil && stopped {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				o.Log = log(dir)
				again, err := Start(ctx, keptCluster, quiet(o))
				if err != nil {
					t.Fatal(err)
				}
				await(t, again.Ports.out, "k", "got v")
				stop(t, again)
			})
		}
	}
}
