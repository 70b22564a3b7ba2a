package postgres_test

import (
	"os"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// children are the programs that this binary runs as when a test starts it to kill it.
var children = map[string]func(dsn string) error{"sink": sinkChild, "flow": flowChild, "replica": replicaChild}

func TestMain(m *testing.M) {
	if run := children[os.Getenv("MILLRACE_CHILD")]; run != nil {
		if err := run(os.Getenv("MILLRACE_CHILD_DSN")); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	postgrestest.Main(m)
}
