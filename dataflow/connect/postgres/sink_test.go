package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

var lane = connect.Lane{Flow: "flow", Output: "out"}

// An element holds its own number.
type element struct {
	N    int64
	Text string
}

var (
	number = postgres.Key("n", func(e element) int64 { return e.N })
	text   = postgres.Column("text", func(e element) string { return e.Text })
)

// variants are the atomic sinks. All of them write elements to a table "got".
var variants = map[string]func(postgres.Database) connect.Sink[element, connect.Atomic]{
	"Upsert": func(db postgres.Database) connect.Sink[element, connect.Atomic] {
		// No two elements have the same key, so that an element that is written twice is in the table twice.
		return postgres.Upsert(db, "got", number, text, postgres.Key("written", func(element) time.Time { return time.Now() }))
	},
	"Append": func(db postgres.Database) connect.Sink[element, connect.Atomic] {
		return postgres.Append(db, "got", number, text)
	},
	"Exec": func(db postgres.Database) connect.Sink[element, connect.Atomic] {
		return postgres.Exec(db, func(ctx context.Context, tx pgx.Tx, first uint64, xs []element) error {
			for i, x := range xs {
				if x.N != int64(first)+int64(i) {
					return fmt.Errorf("element %d has number %d", x.N, first+uint64(i))
				}
				if _, err := tx.Exec(ctx, "insert into got (n, text) values ($1, $2)", x.N, x.Text); err != nil {
					return err
				}
			}
			return nil
		})
	},
}

// gotTable has no key that rejects an element that is written again.
const gotTable = `create table got (n bigint, text text, written timestamptz default clock_timestamp(), position bigserial, unique (n, written))`

// prepared creates a database with the tables of this package and runs the statements.
func prepared(t testing.TB, statements ...string) (postgres.Database, *pgx.Conn) {
	t.Helper()
	db := postgres.Database{DSN: postgrestest.Shared(t).Database(t)}
	if err := postgres.Setup(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	c := postgrestest.Connect(t, db.DSN)
	for _, s := range statements {
		postgrestest.Exec(t, c, s)
	}
	return db, c
}

func numbered(first, n int) (xs []element) {
	for i := range n {
		xs = append(xs, element{int64(first + i), fmt.Sprint("number ", first+i)})
	}
	return xs
}

func open[T any, E connect.Effect](t testing.TB, s connect.Sink[T, E], wantLast uint64) connect.Writer[T, E] {
	t.Helper()
	w, last, err := s.Open(t.Context(), lane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if last != wantLast {
		t.Fatalf("Open found %d, want %d", last, wantLast)
	}
	return w
}

func write[T any, E connect.Effect](t testing.TB, w connect.Writer[T, E], first uint64, xs ...T) {
	t.Helper()
	if _, err := w.Write(t.Context(), first, xs); err != nil {
		t.Fatal(err)
	}
}

// exactly checks that the table contains the elements 1 to n, each once and in order.
func exactly(t testing.TB, c *pgx.Conn, n int64) {
	t.Helper()
	var count, distinct, sum, back int64
	if err := c.QueryRow(context.Background(), `select count(*), count(distinct n), coalesce(sum(n), 0),
		count(*) filter (where n < before) from (select n, lag(n) over (order by position) as before from got) x`).Scan(&count, &distinct, &sum, &back); err != nil {
		t.Fatal(err)
	}
	if count != n || distinct != n || sum != n*(n+1)/2 || back != 0 {
		t.Fatalf("the table has %d rows, %d different, sum %d, %d out of order; want those of 1 to %d", count, distinct, sum, back, n)
	}
}

func TestSinks(t *testing.T) {
	for name, sink := range variants {
		t.Run(name, func(t *testing.T) {
			db, c := prepared(t, gotTable)
			s := sink(db)
			a := open(t, s, 0)
			write(t, a, 1, numbered(1, 3)...)
			write(t, a, 4)
			write(t, a, 4, numbered(4, 2000)...)
			exactly(t, c, 2003)
			for _, first := range []uint64{1, 2003, 2005} { // twice, the last again, and after a gap
				if _, err := a.Write(t.Context(), first, numbered(int(first), 2)); err == nil || errors.Is(err, connect.ErrFenced) {
					t.Errorf("element %d was written after 2003: %v", first, err)
				}
			}
			exactly(t, c, 2003)

			b := open(t, s, 2003)
			if _, err := a.Write(t.Context(), 2004, numbered(2004, 1)); !errors.Is(err, connect.ErrFenced) {
				t.Errorf("the writer before wrote: %v, want ErrFenced", err)
			}
			exactly(t, c, 2003)
			write(t, b, 2004, numbered(2004, 1)...)
			exactly(t, c, 2004)
		})
	}
}

// Case 33: raising the epoch by hand stops an open writer.
func TestEpochByHand(t *testing.T) {
	for name, sink := range variants {
		t.Run(name, func(t *testing.T) {
			db, c := prepared(t, gotTable)
			w := open(t, sink(db), 0)
			write(t, w, 1, numbered(1, 5)...)
			postgrestest.Exec(t, c, "update millrace_lanes set epoch = epoch + 1")
			if _, err := w.Write(t.Context(), 6, numbered(6, 5)); !errors.Is(err, connect.ErrFenced) {
				t.Errorf("%v, want ErrFenced", err)
			}
			exactly(t, c, 5)
			open(t, sink(db), 5)
		})
	}
}

// TestLanes checks that lanes of other outputs, partitions and flows have numbers of their own.
func TestLanes(t *testing.T) {
	db, c := prepared(t, gotTable)
	s := variants["Append"](db)
	for i, l := range []connect.Lane{{Flow: "flow", Output: "out"}, {Flow: "flow", Output: "out", Partition: 1}, {Flow: "flow", Output: "o"}, {Flow: "f", Output: "out"}} {
		w, last, err := s.Open(t.Context(), l)
		if err != nil || last != 0 {
			t.Fatal(l, last, err)
		}
		write(t, w, 1, element{N: int64(i + 1)})
		w.Close()
	}
	exactly(t, c, 4)
}

// Case 34: a deadlock rolls back, and the batch is written again.
func TestDeadlock(t *testing.T) {
	db, c := prepared(t, gotTable, "create table totals (n int primary key, v int)", "insert into totals values (1, 0), (2, 0)")
	other, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The transaction that waits last detects the deadlock and is aborted.
	if _, err := other.Exec(t.Context(), "set local deadlock_timeout = '1h'"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), "update totals set v = v + 1 where n = 2"); err != nil {
		t.Fatal(err)
	}
	watch := postgrestest.Connect(t, db.DSN)
	ended := make(chan error, 1)
	runs := 0
	w := open(t, postgres.Exec(db, func(ctx context.Context, tx pgx.Tx, _ uint64, xs []element) error {
		runs++
		if _, err := tx.Exec(ctx, "update totals set v = v + 10 where n = 1"); err != nil {
			return err
		}
		if runs == 1 {
			go func() {
				_, err := other.Exec(ctx, "update totals set v = v + 1 where n = 1")
				ended <- errors.Join(err, other.Commit(ctx))
			}()
			until(t, watch, "exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
		}
		if _, err := tx.Exec(ctx, "update totals set v = v + 10 where n = 2"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into got (n) values ($1)", xs[0].N)
		return err
	}), 0)
	write(t, w, 1, numbered(1, 1)...)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if runs < 2 { // more if the second run comes before the other transaction again
		t.Errorf("the function ran %d times, want 2 at least", runs)
	}
	exactly(t, watch, 1)
	until(t, watch, "(select array_agg(v) = '{11,11}' from totals)")
}

// until waits until a condition of a database is true.
func until(t testing.TB, c *pgx.Conn, condition string, args ...any) {
	t.Helper()
	for {
		var ok bool
		if err := c.QueryRow(context.Background(), "select "+condition+" from pg_sleep(0.01)", args...).Scan(&ok); err != nil {
			t.Fatal(condition, err)
		}
		if ok {
			return
		}
	}
}

// TestUpsertKeyTwice checks that a key that a batch contains twice gets the later value, whatever else the
// batch contains.
func TestUpsertKeyTwice(t *testing.T) {
	db, c := prepared(t, "create table latest (n bigint primary key, text text)")
	w := open(t, postgres.Upsert(db, "latest", number, text), 0)
	write(t, w, 1, element{1, "a"}, element{2, "b"})
	write(t, w, 3, element{1, "c"}, element{3, "d"}, element{1, "e"}, element{3, "f"}, element{1, "g"})
	write(t, w, 8, element{2, "h"})
	var got string
	if err := c.QueryRow(t.Context(), "select string_agg(n || text, ' ' order by n) from latest").Scan(&got); err != nil || got != "1g 2h 3f" {
		t.Fatal(got, err)
	}
}

// A mood is a database type that pgx does not know.
type mood string

// TestUpsertTypes writes columns with types of the database and of this program, and names that need quotes.
func TestUpsertTypes(t *testing.T) {
	db, c := prepared(t, "create type mood as enum ('glad', 'sad')", "create domain positive as int check (value > 0)", `create schema "S"`,
		`create table "S"."Kinds" (a bigint, "B c" mood, price numeric(10,2), p positive, j jsonb, raw bytea, at timestamptz, u uuid, ok bool, f float8, missing text, primary key (a, "B c"))`)
	at := time.Date(2026, 11, 27, 13, 0, 0, 123456000, time.UTC)
	w := open(t, postgres.Upsert(db, "S.Kinds", postgres.Key("a", func(n int) int { return n }), postgres.Key("B c", func(n int) mood { return "glad" }),
		postgres.Column("price", func(n int) string { return "12.345" }), postgres.Column("p", func(n int) int32 { return int32(n) }),
		postgres.Column("j", func(n int) map[string]int { return map[string]int{"n": n} }), postgres.Column("raw", func(n int) []byte { return []byte{0, byte(n)} }),
		postgres.Column("at", func(int) time.Time { return at }), postgres.Column("u", func(int) [16]byte { return [16]byte{15: 7} }),
		postgres.Column("ok", func(n int) bool { return n == 1 }), postgres.Column("f", func(n int) float64 { return 0.1 }),
		postgres.Column("missing", func(n int) *string { return nil })), 0)
	write(t, w, 1, 1, 2)
	write(t, w, 3, 2, 2)
	var got string
	const want = `1|glad|12.35|1|{"n": 1}|\x0001|00000000-0000-0000-0000-000000000007|true|0.1|true|true;2|glad|12.35|2|{"n": 2}|\x0002|00000000-0000-0000-0000-000000000007|false|0.1|true|true`
	if err := c.QueryRow(t.Context(), `select string_agg(concat_ws('|', a, "B c", price, p, j, raw, u, ok::text, f, (at = $1)::text, (missing is null)::text), ';' order by a) from "S"."Kinds"`, at).Scan(&got); err != nil || got != want {
		t.Fatalf("got  %s\nwant %s\n%v", got, want, err)
	}
}

// TestOpenSays checks that a sink that cannot write its table says so when it is opened.
func TestOpenSays(t *testing.T) {
	db, c := prepared(t, "create table odd (n bigint primary key, tags text[])")
	for want, s := range map[string]connect.Sink[element, connect.Atomic]{
		`"tags" is an array`:       postgres.Upsert(db, "odd", number, postgres.Column("tags", func(element) []string { return nil })),
		`no column "text"`:         postgres.Upsert(db, "odd", number, text),
		`"nothing" does not exist`: postgres.Upsert(db, "nothing", number),
	} {
		if _, _, err := s.Open(t.Context(), lane); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want: %s", err, want)
		}
	}
	postgrestest.Exec(t, c, "drop table millrace_lanes")
	if _, _, err := variants["Append"](db).Open(t.Context(), lane); err == nil || !strings.Contains(err.Error(), "run postgres.Setup") {
		t.Errorf("%v, want the advice to run Setup", err)
	}
}

// TestWrongSinks checks that a sink that fits no table is refused when it is created.
func TestWrongSinks(t *testing.T) {
	for name, make := range map[string]func(){
		"no key":       func() { postgres.Upsert(postgres.Database{}, "t", text) },
		"no column":    func() { postgres.Append[element](postgres.Database{}, "t") },
		"no table":     func() { postgres.Append(postgres.Database{}, "", text) },
		"twice":        func() { postgres.Append(postgres.Database{}, "t", text, text) },
		"no function":  func() { postgres.Exec[element](postgres.Database{}, nil) },
		"empty column": func() { postgres.Append(postgres.Database{}, "t", postgres.Field[element]{}) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "postgres: ") {
					t.Errorf("%s: %v, want a panic of this package", name, r)
				}
			}()
			make()
		}()
	}
}

// Case 35: writing an entry again leaves its row unchanged.
func TestEntriesAgain(t *testing.T) {
	db, c := prepared(t, "create table results (id text primary key, answer jsonb, note json, at timestamptz)")
	type entry = dataflow.Entry[string, element]
	at := time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC)
	s := postgres.UpsertEntries(db, "public.results",
		postgres.Key("id", func(e entry) string { return e.Key }),
		postgres.Column("answer", func(e entry) element { return e.Value }),
		postgres.Column("note", func(e entry) *string { return nil }),
		postgres.Column("at", func(e entry) time.Time { return at }))
	xs := []entry{{Key: "a", Value: element{1, "one"}}, {Key: "b", Value: element{2, "two"}}, {Key: "a", Value: element{1, "one"}}}
	write(t, open(t, s, 0), 1, xs...)
	versions := func() (v string) {
		if err := c.QueryRow(t.Context(), "select string_agg(format('%s:%s:%s', id, answer, xmin), ' ' order by id) from results").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := versions()
	w := open(t, s, 0)
	write(t, w, 1, xs...)
	write(t, w, 2, xs[1:]...)
	if after := versions(); after != before {
		t.Errorf("rows were %s, and are %s after the same entries", before, after)
	}
	postgrestest.Exec(t, c, "update results set note = '{}' where id = 'b'")
	write(t, w, 2, xs[1:]...)
	var note *string
	if err := c.QueryRow(t.Context(), "select note::text from results where id = 'b'").Scan(&note); err != nil || note != nil {
		t.Error("a row that differs was not set right")
	}
}

// TestColumnPanics checks that a panic of a column's function ends the drain, and not the process, with nothing written.
func TestColumnPanics(t *testing.T) {
	db, c := prepared(t, gotTable)
	type shop struct{ dataflow.Process }
	text := postgres.Column("text", func(element) string { panic("no text") })
	for name, sink := range map[string]connect.Sink[element, connect.Atomic]{
		"Append": postgres.Append(db, "got", number, text), "Upsert": postgres.Upsert(db, "got", number, text),
	} {
		flow := dataflow.New()
		in, xs := dataflow.Input[element](dataflow.At[shop](flow), "in")
		out := dataflow.Output(xs, "out")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		drains := connect.Drain(t.Context(), app, out, sink, connect.DrainOptions{Flow: name, Output: "out"})
		if err := in.Send(t.Context(), numbered(1, 1)[0]); err != nil {
			t.Fatal(err)
		}
		select {
		case <-drains.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s: the drain does not end", name)
		}
		if err := drains.Err(); err == nil || !strings.Contains(err.Error(), "panicked: no text\n") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	exactly(t, c, 0)
}
