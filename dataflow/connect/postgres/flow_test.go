package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
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

// An item is a row of the tables of these tests.
type item struct{ Writer, N int64 }

func decodeItem(c postgres.Change) (none struct{}, x item, err error) {
	if c.Table != "public.item" {
		return none, x, postgres.ErrSkip
	}
	err = c.New.Scan(&x)
	return none, x, err
}

// copies is a flow that outputs what it receives.
func copies(f *dataflow.Flow) (p struct {
	in  *connect.Port[struct{}, item, dataflow.TotalOrder, dataflow.ExactlyOnce]
	out *dataflow.OutputPort[item]
}) {
	type copier struct{ dataflow.Process }
	in, items := connect.WholeInput[item](dataflow.At[copier](f), "items")
	p.in, p.out = in, dataflow.Output(items, "copies")
	return p
}

// flowChild copies a table to another one, through a slot, a durable flow on disk and a sink, until it is killed.
func flowChild(dsn string) error {
	ctx := context.Background()
	app, err := durable.Start(ctx, copies, durable.Options{Log: disklog.Dir(os.Getenv("MILLRACE_CHILD_DIR")), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	db := postgres.Database{DSN: dsn}
	drains := connect.Drain(ctx, app, app.Ports.out, postgres.Append(db, "got",
		postgres.Column("n", func(x item) int64 { return x.N }), postgres.Column("text", func(x item) string { return fmt.Sprint(x.Writer) })),
		connect.DrainOptions{Flow: "copies", Output: "got", Most: 500})
	slot := postgres.Slot{Database: db, Name: "copies", Publication: "p", TakeOver: os.Getenv("MILLRACE_CHILD_TAKEOVER") != ""}
	pumps, err := connect.Attach(ctx, app, connect.Whole(postgres.Decoded(slot, decodeItem)), app.Ports.in, connect.Options{
		Discover: 50 * time.Millisecond, OnError: func(_ connect.Split, err error) { fmt.Println(err) },
	})
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

// A program is a running child.
type program struct {
	*testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	said  []string // once it has ended
}

func start(t *testing.T, name, dsn string, environment ...string) *program {
	t.Helper()
	cmd, out := child(t, name, dsn, environment...)
	p := &program{T: t, cmd: cmd, ended: make(chan struct{})}
	t.Cleanup(func() { cmd.Process.Kill() })
	go func() {
		defer close(p.ended)
		for out.Scan() {
			p.said = append(p.said, out.Text())
		}
	}()
	return p
}

// until waits until the program makes a condition of the database true.
func (p *program) until(c *pgx.Conn, condition string, args ...any) {
	p.Helper()
	for ok := false; !ok; {
		select {
		case <-p.ended:
			p.Fatalf("the program ended before %s: %v: %q", condition, p.cmd.Wait(), p.said)
		default:
		}
		if err := c.QueryRow(context.Background(), "select "+condition+" from pg_sleep(0.01)", args...).Scan(&ok); err != nil {
			p.Fatal(condition, err)
		}
	}
}

func (p *program) kill() {
	p.Helper()
	p.cmd.Process.Kill()
	<-p.ended
	if err := p.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		p.Fatalf("the program ended by itself: %v: %q", err, p.said)
	}
}

// TestFlowKilled kills a program that copies a table, and the server, at random. Each change is copied once, in the order of
// commits.
func TestFlowKilled(t *testing.T) {
	s := postgrestest.Start(t)
	db := postgres.Database{DSN: s.Database(t)}
	if err := postgres.Setup(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := postgrestest.Connect(t, db.DSN)
	for _, sql := range []string{gotTable, "create table item (writer int, n int)", "create table other (id int)",
		"create publication p for table item, other with (publish = 'insert, truncate')"} {
		postgrestest.Exec(t, c, sql)
	}
	for _, name := range []string{"copies", "reference"} {
		made := postgres.Decoded(postgres.Slot{Database: db, Name: name, Publication: "p"}, decodeItem)
		cursorAt(t, made, splitOf(t, made), dataflow.Position{}).Close()
	}
	const writers, each, rounds = 4, 500, 8
	dir := t.TempDir()
	for round := range rounds {
		var wait sync.WaitGroup
		for w := range writers {
			wait.Go(func() { insertItems(t, db, w, round*each, each) })
		}
		takeOver := ""
		if rand.IntN(2) == 0 {
			takeOver = "yes"
		}
		p := start(t, "flow", db.DSN, "MILLRACE_CHILD_DIR="+dir, "MILLRACE_CHILD_TAKEOVER="+takeOver)
		copied := round*writers*each + rand.IntN(writers*each)
		if round%3 == 1 {
			wait.Wait()
			p.until(c, "(select count(*) >= $1 from got)", copied/2)
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(); err != nil {
				t.Fatal(err)
			}
			c = postgrestest.Connect(t, db.DSN)
		}
		if round == rounds-1 {
			copied = rounds * writers * each
		}
		p.until(c, "(select count(*) >= $1 from got)", copied)
		p.kill()
		wait.Wait()
	}
	want := itemsOf(t, postgres.Slot{Database: db, Name: "reference", Publication: "p"}, rounds*writers*each)
	rows, _ := c.Query(t.Context(), "select text::bigint, n from got order by position")
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[item])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d changes were copied, %d of them different; want %d in the order of commits", len(got), len(distinct(got)), len(want))
	}
}

func distinct(xs []item) map[item]bool {
	all := map[item]bool{}
	for _, x := range xs {
		all[x] = true
	}
	return all
}

// insertItems inserts items in transactions of several sizes, and rolls some of them back.
func insertItems(t *testing.T, db postgres.Database, writer, first, n int) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, db.DSN)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close(ctx)
	for end := first + n; first < end; {
		size := min(1+rand.IntN(40), end-first)
		if rand.IntN(10) == 0 {
			size = end - first
		}
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		half := first + size/2
		for _, part := range [][2]int{{first, half - 1}, {half, first + size - 1}} {
			if _, err := tx.Exec(ctx, "insert into item select $1, i from generate_series($2::int, $3::int) i", writer, part[0], part[1]); err != nil {
				t.Error(err)
			}
			if _, err := tx.Exec(ctx, "insert into other values (1)"); err != nil {
				t.Error(err)
			}
		}
		if rand.IntN(5) == 0 {
			tx.Rollback(ctx)
			continue
		}
		if err := tx.Commit(ctx); err != nil {
			t.Error(err)
		}
		first += size
	}
}

// itemsOf reads the first n items of a slot without a restart.
func itemsOf(t *testing.T, slot postgres.Slot, n int) (all []item) {
	t.Helper()
	r := postgres.Decoded(slot, decodeItem)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	defer in.Close()
	var b connect.Batch[struct{}, item]
	last := map[int64]int64{}
	for len(all) < n {
		b.Reset()
		if err := in.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		for _, x := range b.Values {
			if x.N != last[x.Writer] {
				t.Fatalf("writer %d: %d, want %d", x.Writer, x.N, last[x.Writer])
			}
			last[x.Writer]++
		}
		all = append(all, b.Values...)
	}
	return all
}
