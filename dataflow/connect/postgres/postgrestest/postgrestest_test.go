package postgrestest

import (
	"context"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// TestStop checks that committed rows survive an abrupt stop of the server.
func TestStop(t *testing.T) {
	s := Start(t)
	dsn := s.Database(t)
	c := Connect(t, dsn)
	Exec(t, c, "create table kept (n int)")
	Exec(t, c, "insert into kept values (7)")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(context.Background()); err == nil {
		t.Fatal("a server that was stopped answers")
	}
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := Connect(t, dsn).QueryRow(context.Background(), "select n from kept").Scan(&n); err != nil || n != 7 {
		t.Fatal(n, err)
	}
}

// TestShared checks that the databases of one server are separate.
func TestShared(t *testing.T) {
	a, b := Shared(t).Database(t), Shared(t).Database(t)
	Exec(t, Connect(t, a), "create table here (n int)")
	Exec(t, Connect(t, b), "create table here (n int)")
}
