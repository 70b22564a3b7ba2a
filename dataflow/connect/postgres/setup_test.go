package postgres_test

import (
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// TestSetupAtOnce checks that programs that start at the same time create the tables
// once, and that none of them fails.
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
