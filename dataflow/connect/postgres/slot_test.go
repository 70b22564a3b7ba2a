package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// Case 43: a slot that is being read is in use, or with TakeOver is taken over at once.
func TestTakeOver(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	first := cursorAt(t, r, s, dataflow.Position{})
	if _, err := r.Open(t.Context(), s, dataflow.Position{}); err == nil || !strings.Contains(err.Error(), "is active for PID") {
		t.Fatalf("a slot was opened twice: %v", err)
	}
	slot.TakeOver = true
	second := cursorAt(t, postgres.Changes(slot), s, dataflow.Position{})
	var b connect.Batch[struct{}, postgres.Change]
	for err := error(nil); err == nil || !strings.Contains(err.Error(), "terminating connection"); err = first.Next(t.Context(), &b) {
		if err != nil || len(b.Values) > 0 {
			t.Fatalf("the reader before goes on: %v, %v", b.Values, err)
		}
		b.Reset()
	}
	postgrestest.Exec(t, c, "insert into item values (1)")
	sameLines(t, lines(next(t, second, 1)), []string{"insert item new id*=1"})
}

// Case 38 without its kills: changes arrive in the order of the commits, with several concurrent writers.
func TestWritersInterleave(t *testing.T) {
	slot, _ := published(t, "create table item (id bigserial primary key, writer int, n int)")
	r := postgres.Changes(slot)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	const writers, transactions, rows = 4, 50, 10
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			c, err := pgx.Connect(context.Background(), slot.Database.DSN)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close(context.Background())
			for i := range transactions {
				err := pgx.BeginFunc(context.Background(), c, func(tx pgx.Tx) error {
					for j := range rows {
						if _, err := tx.Exec(context.Background(), "insert into item (writer, n) values ($1, $2)", w, i*rows+j); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	got := next(t, in, writers*transactions*rows)
	wait.Wait()
	last := map[string]int{}
	back := 0
	var before int
	for i, p := range got {
		var x struct {
			ID     int
			Writer string
			N      int
		}
		if err := p.change.New[1:2].Scan(&struct{}{}); err != nil {
			t.Fatal(err)
		}
		w, _ := p.change.New.Get("writer")
		n, _ := p.change.New.Get("n")
		id, _ := p.change.New.Get("id")
		x.Writer = w.Text
		if err := errors.Join(n.Scan(&x.N), id.Scan(&x.ID)); err != nil {
			t.Fatal(err)
		}
		if x.N != last[x.Writer] {
			t.Fatalf("writer %s: %d, want %d", x.Writer, x.N, last[x.Writer])
		}
		last[x.Writer]++
		if want := uint64(i%rows + 1); p.at.Minor != want {
			t.Fatalf("change %d of a transaction, want %d", p.at.Minor, want)
		}
		if i > 0 && !p.at.After(got[i-1].at) {
			t.Fatalf("position %v after %v", p.at, got[i-1].at)
		}
		if x.ID < before {
			back++
		}
		before = x.ID
	}
	t.Logf("numbers of a sequence went back %d times", back)
}

// TestConfirm checks that the confirmed position is never past the beginning of a commit that the flow has only in part, and
// finally is the end of one that it has completely.
func TestConfirm(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	var at []dataflow.Position
	for range 2 {
		postgrestest.Exec(t, c, "insert into item select max + i from generate_series(1, 9000) i, (select coalesce(max(id), 0) as max from item) x")
		var b connect.Batch[struct{}, postgres.Change]
		for n := 0; n < 9000 || b.End.Minor != 0; n += len(b.At) {
			b.Reset()
			if err := in.Next(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			at = append(at, b.End)
		}
	}
	for i, p := range at {
		if err := in.Confirm(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		place := fmt.Sprintf("%X/%X", p.Major>>32, uint32(p.Major))
		if i == len(at)-1 {
			until(t, c, "(select confirmed_flush_lsn >= $2::text::pg_lsn from pg_replication_slots where slot_name = $1)", slot.Name, place)
		}
		var beyond bool
		if err := c.QueryRow(t.Context(), "select confirmed_flush_lsn > $2::text::pg_lsn from pg_replication_slots where slot_name = $1", slot.Name, place).Scan(&beyond); err != nil || beyond {
			t.Fatalf("confirmed is more than what is behind %v: %v", p, err)
		}
	}
}

// Case 45: after an abrupt stop of the server, a reader continues after what it has, and what was confirmed is not a gap.
func TestServerCrash(t *testing.T) {
	s := postgrestest.Start(t)
	db := postgres.Database{DSN: s.Database(t)}
	if err := postgres.Setup(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := postgrestest.Connect(t, db.DSN)
	postgrestest.Exec(t, c, "create table item (id int primary key)")
	postgrestest.Exec(t, c, "create publication p for table item")
	r := postgres.Changes(postgres.Slot{Database: db, Name: "crash", Publication: "p"})
	split := splitOf(t, r)
	in := cursorAt(t, r, split, dataflow.Position{})
	var last dataflow.Position
	for round := range 3 {
		postgrestest.Exec(t, c, fmt.Sprintf("insert into item select * from generate_series(%d, %d)", 10*round, 10*round+9))
		got := next(t, in, 10)
		for i, p := range got {
			if want := fmt.Sprint("insert item new id*=", 10*round+i); told(p.change) != want {
				t.Fatalf("%s, want %s", told(p.change), want)
			}
		}
		last = got[9].at
		if round == 1 {
			last = got[4].at // the flow has half of the transaction
		}
		if err := in.Confirm(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		var b connect.Batch[struct{}, postgres.Change]
		var err error
		for err == nil {
			b.Reset()
			err = in.Next(t.Context(), &b)
		}
		if errors.Is(err, connect.ErrGap) {
			t.Fatal(err)
		}
		if _, err := r.Open(t.Context(), split, last); err == nil || errors.Is(err, connect.ErrGap) {
			t.Fatalf("opened a server that is down: %v", err)
		}
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		c = postgrestest.Connect(t, db.DSN)
		in = cursorAt(t, r, split, last)
		if round == 1 {
			sameLines(t, lines(next(t, in, 5)), []string{"insert item new id*=15", "insert item new id*=16", "insert item new id*=17", "insert item new id*=18", "insert item new id*=19"})
		}
	}
}

// Case 39: while a table is quiet and the database is busy, the server removes its log, because the reader confirms the position
// that the server reports.
func TestQuietTable(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "min_wal_size=32MB", "max_wal_size=64MB", "fsync=off")
	db := postgres.Database{DSN: s.Database(t)}
	if err := postgres.Setup(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := postgrestest.Connect(t, db.DSN)
	postgrestest.Exec(t, c, "create table quiet (id int primary key)")
	postgrestest.Exec(t, c, "create table busy (v text)")
	postgrestest.Exec(t, c, "create publication p for table quiet")
	r := postgres.Changes(postgres.Slot{Database: db, Name: "quiet", Publication: "p"})
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		var b connect.Batch[struct{}, postgres.Change]
		for {
			b.Reset()
			if err := in.Next(ctx, &b); err != nil {
				ended <- err
				return
			}
			if len(b.Values) > 0 {
				ended <- fmt.Errorf("%d changes of a quiet table", len(b.Values))
				return
			}
			if err := in.Confirm(ctx, b.End); err != nil {
				ended <- err
				return
			}
		}
	}()
	before := ""
	if err := c.QueryRow(t.Context(), "select pg_current_wal_lsn()").Scan(&before); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		postgrestest.Exec(t, c, "insert into busy select repeat(md5(i::text), 30) from generate_series(1, 25000) i")
	}
	var written int64
	if err := c.QueryRow(t.Context(), "select pg_wal_lsn_diff(pg_current_wal_lsn(), $1::text::pg_lsn)::bigint", before).Scan(&written); err != nil || written < 200<<20 {
		t.Fatalf("only %d bytes were written: %v", written, err)
	}
	until(t, c, `(select confirmed_flush_lsn >= $1::text::pg_lsn + 200*1024*1024::numeric from pg_replication_slots)`, before)
	for {
		postgrestest.Exec(t, c, "checkpoint")
		var kept int64
		if err := c.QueryRow(t.Context(), "select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint from pg_replication_slots").Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if kept < 64<<20 {
			break
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestSlowReader checks that a reader that takes nothing for twice wal_sender_timeout keeps its session, and then receives all
// changes.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "wal_sender_timeout=5s", "fsync=off")
	db := postgres.Database{DSN: s.Database(t)}
	if err := postgres.Setup(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := postgrestest.Connect(t, db.DSN)
	postgrestest.Exec(t, c, "create table item (id int primary key, v text)")
	postgrestest.Exec(t, c, "create publication p for table item")
	r := postgres.Changes(postgres.Slot{Database: db, Name: "slow", Publication: "p"})
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	const rows = 20_000
	postgrestest.Exec(t, c, "insert into item select i, repeat('x', 1000) from generate_series(1, $1::int) i", rows)
	until(t, c, "exists (select from pg_stat_activity where backend_type = 'walsender' and wait_event = 'WalSenderWriteData')")
	until(t, c, "exists (select from pg_stat_replication where reply_time > backend_start + interval '11 seconds')")
	if got := next(t, in, rows); told(got[rows-1].change) != fmt.Sprint("insert item new id*=", rows, " v=xxxxxxxxxx") {
		t.Error("the last change is ", told(got[rows-1].change))
	}
}

// TestLogRemoved checks that a slot whose log was removed, because nobody read it, is a gap.
func TestLogRemoved(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "max_slot_wal_keep_size=16MB", "min_wal_size=32MB", "max_wal_size=32MB", "fsync=off")
	db := postgres.Database{DSN: s.Database(t)}
	if err := postgres.Setup(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := postgrestest.Connect(t, db.DSN)
	postgrestest.Exec(t, c, "create table item (id int primary key)")
	postgrestest.Exec(t, c, "create table busy (v text)")
	postgrestest.Exec(t, c, "create publication p for table item")
	r := postgres.Changes(postgres.Slot{Database: db, Name: "removed", Publication: "p"})
	split := splitOf(t, r)
	in := cursorAt(t, r, split, dataflow.Position{})
	postgrestest.Exec(t, c, "insert into item values (1)")
	at := next(t, in, 1)[0].at
	in.Close()
	until(t, c, "not exists (select from pg_replication_slots where active)")
	for lost := false; !lost; {
		postgrestest.Exec(t, c, "insert into busy select repeat(md5(i::text), 30) from generate_series(1, 25000) i")
		postgrestest.Exec(t, c, "checkpoint")
		if err := c.QueryRow(t.Context(), "select wal_status = 'lost' from pg_replication_slots").Scan(&lost); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Open(t.Context(), split, at); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "max_slot_wal_keep_size") {
		t.Errorf("%v, want ErrGap", err)
	}
}
