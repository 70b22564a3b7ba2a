package postgres_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// A place is a change and its position.
type place struct {
	at     dataflow.Position
	change postgres.Change
}

// published creates a database with tables, a publication "p" of all of them, and the slot of this test.
func published(t testing.TB, statements ...string) (postgres.Slot, *pgx.Conn) {
	t.Helper()
	db, c := prepared(t, statements...)
	var tables []string
	rows, _ := c.Query(t.Context(), "select quote_ident(tablename) from pg_tables where schemaname = 'public' and tablename not like 'millrace%'")
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, c, "create publication p for table "+strings.Join(tables, ", "))
	var name string
	if err := c.QueryRow(t.Context(), "select current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return postgres.Slot{Database: db, Name: name, Publication: "p"}, c
}

// splitOf returns the only split of a slot.
func splitOf[K comparable, V any](t testing.TB, r connect.Reader[K, V]) connect.Split {
	t.Helper()
	ss, err := r.Splits(t.Context())
	if err != nil || len(ss) != 1 {
		t.Fatal(ss, err)
	}
	return ss[0]
}

// cursorAt opens a cursor that is closed when the test ends. It retries, because a slot that was just left may still be in use.
func cursorAt[K comparable, V any](t testing.TB, r connect.Reader[K, V], s connect.Split, after dataflow.Position) connect.Cursor[K, V] {
	t.Helper()
	for {
		c, err := r.Open(t.Context(), s, after)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if !strings.Contains(err.Error(), "is active for PID") {
			t.Fatal(err)
		}
	}
}

// next reads n changes.
func next(t testing.TB, c connect.Cursor[struct{}, postgres.Change], n int) (got []place) {
	t.Helper()
	var b connect.Batch[struct{}, postgres.Change]
	for len(got) < n {
		b.Reset()
		if err := c.Next(t.Context(), &b); err != nil {
			t.Fatalf("after %d of %d changes: %v", len(got), n, err)
		}
		for i := range b.Values {
			got = append(got, place{b.At[i], b.Values[i]})
		}
	}
	if len(got) > n {
		t.Fatalf("%d changes, want %d: %v", len(got), n, got[n:])
	}
	return got
}

// told formats a change in one line.
func told(c postgres.Change) string {
	row := func(r postgres.Row) (s string) {
		for _, x := range r {
			s += " " + x.Name
			if x.Key {
				s += "*"
			}
			switch x.State {
			case postgres.Set:
				s += "=" + x.Text[:min(len(x.Text), 10)]
			default:
				s += "=<" + string(x.State) + ">"
			}
		}
		return s
	}
	s := string(c.Op) + " " + strings.TrimPrefix(c.Table, "public.")
	if c.Old != nil {
		s += " old" + row(c.Old)
	}
	if c.New != nil {
		s += " new" + row(c.New)
	}
	if c.Op == postgres.Message {
		s += c.Prefix + ": " + string(c.Content)
	}
	return strings.TrimSpace(s)
}

func lines(ps []place) (s []string) {
	for _, p := range ps {
		s = append(s, told(p.change))
	}
	return s
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// Cases 40 and 41, and every other kind of change.
func TestChanges(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key, name text, long text)", "alter table item alter long set storage external",
		"create table pair (a int, b int, v text, primary key (b, a))", "create table whole (id int primary key, v text)", "alter table whole replica identity full")
	r := postgres.Changes(slot)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	long := strings.Repeat("0123456789", 10_000)
	for _, sql := range []string{
		"insert into item values (1, 'one', null), (2, 'two', '" + long + "')",
		"update item set name = 'TWO' where id = 2",
		"update item set id = 3 where id = 2",
		"delete from item where id = 1",
		"insert into pair values (1, 2, 'x')",
		"update pair set a = 7",
		"insert into whole values (1, 'a')",
		"update whole set v = 'b'",
		"update whole set id = 2",
		"delete from whole",
		"select pg_logical_emit_message(true, 'orders', 'hello')",
		"select pg_logical_emit_message(false, 'orders', 'not of a transaction')",
		"truncate item, whole",
	} {
		postgrestest.Exec(t, c, sql)
	}
	want := []string{
		"insert item new id*=1 name=one long=<null>",
		"insert item new id*=2 name=two long=0123456789",
		"update item new id*=2 name=TWO long=<unchanged>",
		"delete item old id*=2",
		"insert item new id*=3 name=TWO long=<unchanged>",
		"delete item old id*=1",
		"insert pair new a*=1 b*=2 v=x",
		"delete pair old a*=1 b*=2",
		"insert pair new a*=7 b*=2 v=x",
		"insert whole new id*=1 v*=a",
		"update whole old id*=1 v*=a new id*=1 v*=b",
		"update whole old id*=1 v*=b new id*=2 v*=b",
		"delete whole old id*=2 v*=b",
		"message orders: hello",
		"truncate item",
		"truncate whole",
	}
	got := next(t, in, len(want))
	sameLines(t, lines(got), want)
	for i := range got[1:] {
		if !got[i+1].at.After(got[i].at) {
			t.Errorf("position %v after %v", got[i+1].at, got[i].at)
		}
	}
	if x := got[0].change; time.Since(x.Commit) > time.Hour || x.Commit.After(time.Now().Add(time.Hour)) || x.XID == 0 {
		t.Errorf("commit at %v, transaction %d", x.Commit, x.XID)
	}
	if k := got[7].change.Key(); len(k) != 2 || k[0].Text != "1" || k[1].Text != "2" {
		t.Errorf("key %v of a delete", k)
	}
	if text, _ := got[1].change.New.Get("long"); text.Text != long {
		t.Error("a long value is not whole")
	}
}

// A row is what the rows of the tests are scanned into.
type row struct {
	ID   int64
	Text *string `db:"name"`
	Long postgres.Partial[string]
	At   time.Time
}

// Case 42: an added column is left out. A column whose type no longer fits makes the changes of its table poison.
func TestScan(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key, name text, long text, at timestamptz)", "alter table item alter long set storage external")
	r := postgres.Decoded(slot, func(c postgres.Change) (int64, row, error) {
		var x row
		if c.Op == postgres.Truncate {
			return 0, x, postgres.ErrSkip
		}
		err := c.New.Scan(&x)
		if x.ID == 11 {
			panic("no eleven")
		}
		return x.ID, x, err
	})
	s := splitOf(t, r)
	in := cursorAt(t, r, s, dataflow.Position{})
	at := "2026-11-27 13:14:15.123456+00"
	for _, sql := range []string{
		"insert into item values (1, null, '" + strings.Repeat("x", 100_000) + "', '" + at + "')",
		"update item set name = 'one'",
		"truncate item",
		"alter table item add more int default 7",
		"insert into item values (2, 'two', null, '" + at + "', 8)",
		"alter table item alter id type text",
		"insert into item values ('three', 'three', '', '" + at + "')",
		"alter table item alter id type int using case id when 'three' then 3 else id::int end",
		"insert into item values (11, 'eleven', '', '" + at + "')",
		"insert into item values (10, 'ten', '', '" + at + "')",
	} {
		postgrestest.Exec(t, c, sql)
	}
	var got []row
	var bad []connect.Poison
	var b connect.Batch[int64, row]
	for len(got) < 4 {
		b.Reset()
		if err := in.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		for i, v := range b.Values {
			if b.Keys[i] != v.ID {
				t.Errorf("key %d of %v", b.Keys[i], v)
			}
		}
		got, bad = append(got, b.Values...), append(bad, b.Bad...)
	}
	one, two, ten := "one", "two", "ten"
	when, _ := time.Parse(time.RFC3339Nano, "2026-11-27T13:14:15.123456Z")
	set := func(s string) postgres.Partial[string] {
		return postgres.Partial[string]{State: postgres.Set, Value: s}
	}
	want := []row{
		{ID: 1, Long: set(strings.Repeat("x", 100_000))},
		{ID: 1, Text: &one, Long: postgres.Partial[string]{State: postgres.Unchanged}},
		{ID: 2, Text: &two, Long: postgres.Partial[string]{State: postgres.Null}},
		{ID: 10, Text: &ten, Long: set("")},
	}
	for i := range got {
		if !got[i].At.Equal(when) {
			t.Errorf("time %v, want %v", got[i].At, when)
		}
		got[i].At = time.Time{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if len(bad) != 2 || !strings.HasPrefix(bad[1].Cause, "decoding it panicked: no eleven") || bad[0].Split != s.ID || !strings.Contains(bad[0].Cause, `column "id"`) || !strings.Contains(string(bad[0].Raw), "three") {
		t.Errorf("poison: %+v", bad)
	}
	if err := (postgres.Row{{Name: "id", State: postgres.Unchanged}}).Scan(&struct{ ID int }{}); err == nil || !strings.Contains(err.Error(), "Partial") {
		t.Errorf("an unchanged column was scanned into an int: %v", err)
	}
	if err := (postgres.Row{}).Scan(row{}); err == nil {
		t.Error("a row was scanned into a struct that is no pointer")
	}
}
