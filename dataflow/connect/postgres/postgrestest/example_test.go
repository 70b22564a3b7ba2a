package postgrestest_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// All tests of a program share one server, which its TestMain stops. Each test has a database of its own.
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
