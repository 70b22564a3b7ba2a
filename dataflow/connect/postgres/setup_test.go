package postgres_test

import (
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// Programs that start at once make the tables once, and none of them fails.
func TestSetupAtOnce(t *testing.T) {
	s := postgrestest.Shared(t)
	for range 5 {
		db := postgres.Database{DSN: s.Database(t)}
		var programs sync.WaitGroup
		for range 8 {
			programs.Go(func() {
				if err := postgres.Setup(t.Context(), db); err != nil {
					t.Error(err)
				}
			})
		}
		programs.Wait()
	}
}
