package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// changes is a flow that outputs the changes it receives.
func changes(f *dataflow.Flow) (p struct {
	in  *connect.Port[struct{}, postgres.Change, dataflow.TotalOrder, dataflow.ExactlyOnce]
	out *dataflow.OutputPort[postgres.Change]
}) {
	type replicator struct{ dataflow.Process }
	in, items := connect.WholeInput[postgres.Change](dataflow.At[replicator](f), "changes")
	p.in, p.out = in, dataflow.Output(items, "replica")
	return p
}

// replicaChild keeps the table "replica" equal to "item", through a durable flow, until it is killed.
func replicaChild(dsn string) error {
	ctx := context.Background()
	app, err := durable.Start(ctx, changes, durable.Options{Log: disklog.Dir(os.Getenv("MILLRACE_CHILD_DIR")), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	db := postgres.Database{DSN: dsn}
	drains := connect.Drain(ctx, app, app.Ports.out, postgres.Exec(db, replicate), connect.DrainOptions{Flow: "replica", Output: "replica"})
	slot := postgres.Slot{Database: db, Name: "replica", Publication: "p", Snapshot: true}
	pumps, err := connect.Attach(ctx, app, connect.Whole(postgres.Changes(slot)), app.Ports.in, connect.Options{Discover: 50 * time.Millisecond, Floor: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	select {
	case <-pumps.Done():
		return fmt.Errorf("pumps ended: %w", pumps.Err())
	case <-drains.Done():
		return fmt.Errorf("drains ended: %w", drains.Err())
	case <-app.Done():
		return app.Err()
	}
}

// replicate applies changes. Each is applied once, so inserting a row that exists is an error.
func replicate(ctx context.Context, tx pgx.Tx, _ uint64, changes []postgres.Change) error {
	var b pgx.Batch
	for _, c := range changes {
		var x, old struct {
			ID int
			V  string
		}
		if err := c.New.Scan(&x); err != nil {
			return err
		}
		if err := c.Old.Scan(&old); err != nil {
			return err
		}
		switch c.Op {
		case postgres.Snapshot, postgres.Insert:
			b.Queue("insert into replica values ($1, $2)", x.ID, x.V)
		case postgres.Update:
			b.Queue("update replica set v = $2 where id = $1", x.ID, x.V)
		case postgres.Delete:
			b.Queue("delete from replica where id = $1", old.ID)
		case postgres.Truncate:
			b.Queue("truncate replica")
		}
	}
	return tx.SendBatch(ctx, &b).Close()
}

// Case 44, killed: a program that replicates a table is killed while it reads the snapshot, and later while the table changes. In
// the end the replica equals the table, and no row was inserted twice.
func TestFlowSnapshotKilled(t *testing.T) {
	db, c := prepared(t, "create table item (id int primary key, v text)", "create table replica (id int primary key, v text)", "create publication p for table item",
		"insert into item select i, 'old' from generate_series(1, 20000) i")
	snapshots := func() (n int64) {
		if err := c.QueryRow(t.Context(), "select coalesce(max(incarnation), 0) from millrace_slots").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	dir := t.TempDir()
	kills := 0
	for changed, done := 0, false; !done; kills++ {
		p := start(t, "replica", db.DSN, "MILLRACE_CHILD_DIR="+dir)
		// The first kills come during the snapshot, the later ones between changes.
		if kills < 4 {
			p.until(c, "(select count(*) >= $1 from replica)", 1+rand.IntN(3000))
		}
		for range rand.IntN(20) {
			changed++
			for _, sql := range []string{"update item set v = $1 where id % 50 = $2", "delete from item where id % 1000 = $2 and v <> $1", "update item set id = id + 100000 where id % 1777 = $2 and v <> $1"} {
				postgrestest.Exec(t, c, sql, fmt.Sprint("change ", changed), changed%50)
			}
		}
		if kills >= 8 {
			postgrestest.Exec(t, c, "insert into item values (-1, 'end')")
			p.until(c, "exists (select from replica where id = -1)")
			done = true
		}
		p.kill()
	}
	if want, got := contentOf(t, c, "item"), contentOf(t, c, "replica"); !maps.Equal(got, want) {
		t.Fatalf("the replica has %d rows, want the %d of the table", len(got), len(want))
	}
	t.Logf("%d kills, the slot was made %d times", kills, snapshots())
}
