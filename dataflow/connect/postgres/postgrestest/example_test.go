package postgrestest_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// All tests of a program share one server, each with a database of its own, and its TestMain stops the server.
func Example() {
	_ = func(m *testing.M) { // func TestMain(m *testing.M)
		postgrestest.Main(m)
	}
	_ = func(t *testing.T) { // func TestInsert(t *testing.T)
		server := postgrestest.Shared(t)
		conn := postgrestest.Connect(t, server.Database(t))
		postgrestest.Exec(t, conn, "create table orders (id int primary key)")
		postgrestest.Exec(t, conn, "insert into orders values (1)")
	}
}
