package durable

import (
	"fmt"
	"testing"

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
