package postgres_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// A replica is a table built from its changes.
type replica map[string]string

func (r replica) apply(t *testing.T, c postgres.Change) {
	t.Helper()
	key := c.Key()
	switch c.Op {
	case postgres.Delete:
		delete(r, key[0].Text)
	case postgres.Truncate:
		clear(r)
	default:
		v, _ := c.New.Get("v")
		if c.Op == postgres.Insert {
			if _, ok := r[key[0].Text]; ok {
				t.Fatalf("row %s is inserted although it is there", key[0].Text)
			}
		}
		r[key[0].Text] = v.Text
	}
}

func contentOf(t *testing.T, c *pgx.Conn, table string) replica {
	t.Helper()
	rows, _ := c.Query(t.Context(), "select id::text, v from "+table)
	r := replica{}
	var id, v string
	if _, err := pgx.ForEachRow(rows, []any{&id, &v}, func() error { r[id] = v; return nil }); err != nil {
		t.Fatal(err)
	}
	return r
}

// follow applies the changes of a cursor until a row "end" is inserted, and returns the position after it.
func follow(t *testing.T, in connect.Cursor[struct{}, postgres.Change], r replica) dataflow.Position {
	t.Helper()
	var b connect.Batch[struct{}, postgres.Change]
	var last dataflow.Position
	for {
		b.Reset()
		if err := in.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		for i, c := range b.Values {
			if !b.At[i].After(last) {
				t.Fatalf("position %v after %v", b.At[i], last)
			}
			last = b.At[i]
			r.apply(t, c)
			if c.Op == postgres.Insert && c.Key()[0].Text == "-1" {
				return b.End
			}
		}
	}
}

// Case 44: an interrupted snapshot is read again as another split, and the changes yield the table, whatever was written in
// between. A reader that has the whole snapshot continues after it, even if it never confirmed it.
func TestSnapshot(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key, v text)", "insert into item select i, 'old' from generate_series(1, 3000) i")
	slot.Snapshot = true
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	in := cursorAt(t, r, s, dataflow.Position{})
	postgrestest.Exec(t, c, "update item set v = 'new' where id % 3 = 0")
	postgrestest.Exec(t, c, "delete from item where id % 3 = 1")
	var b connect.Batch[struct{}, postgres.Change]
	if err := in.Next(t.Context(), &b); err != nil || len(b.Values) == 0 || len(b.Values) >= 3000 || b.Values[0].Op != postgres.Snapshot {
		t.Fatal(len(b.Values), err)
	}
	got := replica{}
	for _, c := range b.Values {
		got.apply(t, c)
	}
	half := b.End
	in.Close()

	again := cursorAt(t, r, s, half)
	if err := again.Next(t.Context(), &b); err != io.EOF {
		t.Fatalf("a snapshot goes on in the middle: %v", err)
	}
	second := splitOf(t, r)
	if second.ID == s.ID {
		t.Fatalf("the second snapshot has the split of the first, %s", s.ID)
	}

	in = cursorAt(t, r, second, dataflow.Position{})
	postgrestest.Exec(t, c, "update item set v = 'newer' where id % 3 = 2 and id < 1000")
	postgrestest.Exec(t, c, "insert into item values (-1, 'end')")
	end := follow(t, in, got)
	in.Close()
	if want := contentOf(t, c, "item"); !maps.Equal(got, want) {
		t.Fatalf("%d rows, want the %d of the table", len(got), len(want))
	}

	in = cursorAt(t, r, second, end)
	postgrestest.Exec(t, c, "delete from item where id = -1")
	postgrestest.Exec(t, c, "insert into item values (-1, 'second end')")
	end = follow(t, in, got)
	if err := in.Confirm(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if want := contentOf(t, c, "item"); !maps.Equal(got, want) || splitOf(t, r) != second {
		t.Fatalf("%d rows, want the %d of the table", len(got), len(want))
	}
}

// TestSnapshotIsOfTheSlot checks that a row that is committed while the snapshot begins is either in the snapshot or a change,
// and not both.
func TestSnapshotIsOfTheSlot(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key, v text)")
	slot.Snapshot = true
	connections := 0
	slot.Database.Configure = func(context.Context, *pgx.ConnConfig) error {
		connections++
		postgrestest.Exec(t, c, "insert into item values ($1, 'between')", connections)
		return nil
	}
	r := postgres.Changes(slot)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	postgrestest.Exec(t, c, "insert into item values (-1, 'end')")
	got := replica{}
	follow(t, in, got)
	if want := contentOf(t, c, "item"); !maps.Equal(got, want) || connections < 4 {
		t.Fatalf("%v, want %v, with a row for each of %d connections", got, want, connections)
	}
}

// TestSnapshotOfPublication checks that a snapshot has the columns, rows and tables of the publication, in the form that changes
// have.
func TestSnapshotOfPublication(t *testing.T) {
	slot, c := published(t, "create table only_some (id int primary key, v text, secret text, twice int generated always as (id * 2) stored)",
		"create table parent (id int primary key, v text)", "create table child (primary key (id)) inherits (parent)",
		"create table parted (id int primary key, v text) partition by range (id)", "create table part1 partition of parted for values from (0) to (10)",
		`create table "Odd name" ("a.b" int primary key, "select" text)`, "create table none (id int, v text)")
	postgrestest.Exec(t, c, `drop publication p`)
	postgrestest.Exec(t, c, `create publication p for table only_some (id, v) where (id > 1), parent, parted, "Odd name", none with (publish = 'insert')`)
	fill := func(n int) {
		for _, sql := range []string{
			fmt.Sprintf("insert into only_some values (%d, 'hidden', 's'), (%d, 'v', 's')", -n, n+1), fmt.Sprintf("insert into parent values (%d, 'p')", n),
			fmt.Sprintf("insert into child values (%d, 'c')", n), fmt.Sprintf("insert into parted values (%d, 'q')", n),
			fmt.Sprintf(`insert into "Odd name" values (%d, null)`, n), fmt.Sprintf("insert into none values (%d, '')", n),
		} {
			postgrestest.Exec(t, c, sql)
		}
	}
	fill(1)
	slot.Snapshot = true
	r := postgres.Changes(slot)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	fill(2)
	got := lines(next(t, in, 12))
	rows, changes := got[:6], got[6:]
	for i := range rows {
		rows[i] = strings.ReplaceAll(strings.TrimPrefix(rows[i], "snapshot "), "=1", "=N")
		rows[i] = strings.ReplaceAll(rows[i], "id*=2", "id*=3")
		changes[i] = strings.ReplaceAll(strings.TrimPrefix(changes[i], "insert "), "=2", "=N")
	}
	slices.Sort(rows)
	slices.Sort(changes)
	sameLines(t, rows, changes)
	if !slices.Contains(rows, "only_some new id*=3 v=v") || !slices.Contains(rows, "Odd name new a.b*=N select=<null>") {
		t.Errorf("rows are %q", rows)
	}
}

// TestCheck checks that Check reports what would keep a slot from being read, before the slot is created.
func TestCheck(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)", "create table keyless (id int)")
	err := slot.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "public.keyless") || strings.Contains(err.Error(), "public.item") {
		t.Errorf("%v, want the table without a key", err)
	}
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	if _, err := r.Open(t.Context(), s, dataflow.Position{}); err == nil || !strings.Contains(err.Error(), "public.keyless") {
		t.Errorf("%v, want what Check says", err)
	}
	postgrestest.Exec(t, c, "alter table keyless replica identity full")
	if err := slot.Check(t.Context()); err != nil {
		t.Error(err)
	}
	slot.Publication = "q"
	if err := slot.Check(t.Context()); err == nil || !strings.Contains(err.Error(), `no publication "q"`) {
		t.Errorf("%v, want the publication", err)
	}
	postgrestest.Exec(t, c, "drop table millrace_slots")
	if _, err := r.Splits(t.Context()); err == nil || !strings.Contains(err.Error(), "run postgres.Setup") {
		t.Errorf("%v, want the advice to run Setup", err)
	}
	postgrestest.Exec(t, c, "create role reader login")
	slot.Database.DSN = strings.Replace(slot.Database.DSN, "user=postgres", "user=reader", 1)
	slot.Publication = "p"
	if err := slot.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "may not replicate") {
		t.Errorf("%v, want the role", err)
	}
	postgrestest.Exec(t, c, "drop role reader")
}
