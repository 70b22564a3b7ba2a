package postgres_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// TestTransactions has four writers that commit transactions, some of them longer than a batch of changes. Each transaction
// arrives whole and once, also after a resume at any position, and has as many changes as it says.
func TestTransactions(t *testing.T) {
	slot, c := published(t, "create table part (writer int, transaction int, size int)", "alter table part replica identity full")
	postgrestest.Exec(t, c, "insert into part select -1, i, 1 from generate_series(1, 1500) i") // rows of the snapshot
	slot.Snapshot = true
	r := postgres.Transactions(slot)
	s, err := r.Splits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := func(after dataflow.Position) connect.Cursor[struct{}, []postgres.Change] {
		in, err := r.Open(t.Context(), s[0], after)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	type transaction struct {
		at      dataflow.Position
		changes []postgres.Change
	}
	var ends []dataflow.Position
	read := func(in connect.Cursor[struct{}, []postgres.Change], n int) (all []transaction) {
		for len(all) < n {
			var b connect.Batch[struct{}, []postgres.Change]
			b.Reset()
			if err := in.Next(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			for i := range b.Values {
				all = append(all, transaction{b.At[i], b.Values[i]})
			}
			if b.End != (dataflow.Position{}) {
				ends = append(ends, b.End)
			}
		}
		return all
	}
	in := open(dataflow.Position{})
	for i, x := range read(in, 1500) {
		if len(x.changes) != 1 || x.changes[0].Op != postgres.Snapshot {
			t.Fatalf("row %d of the snapshot: %d changes, %s", i, len(x.changes), x.changes[0].Op)
		}
	}
	for end := ends[len(ends)-1]; end.Major == 0; end = ends[len(ends)-1] { // until the snapshot has ended
		var b connect.Batch[struct{}, []postgres.Change]
		b.Reset()
		if err := in.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, b.End)
	}
	if err := in.Confirm(t.Context(), ends[len(ends)-1]); err != nil { // the flow has the snapshot
		t.Fatal(err)
	}
	const writers, each = 4, 12
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			c := postgrestest.Connect(t, slot.Database.DSN)
			for i := range each {
				size := 1 + i*i
				if i == 7 {
					size = 9000
				}
				postgrestest.Exec(t, c, "insert into part select $1, $2, $3::int from generate_series(1, $3::int)", w, i, size)
			}
		})
	}
	wait.Wait()
	ends = nil
	all := read(in, writers*each)
	in.Close()
	seen := map[string]bool{}
	for _, x := range all {
		var p struct{ Writer, Transaction, Size int }
		if err := x.changes[0].New.Scan(&p); err != nil {
			t.Fatal(err)
		}
		for _, y := range x.changes {
			if y.XID != x.changes[0].XID {
				t.Fatalf("changes of the transactions %d and %d together", x.changes[0].XID, y.XID)
			}
		}
		if name := fmt.Sprint(p.Writer, "/", p.Transaction); len(x.changes) != p.Size || seen[name] {
			t.Errorf("transaction %s has %d changes, want %d; seen before: %v", name, len(x.changes), p.Size, seen[name])
		} else {
			seen[name] = true
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d transactions, want %d", len(seen), writers*each)
	}
	behind := slices.Clone(ends)
	for _, x := range all {
		behind = append(behind, x.at)
	}
	for _, p := range behind {
		i := 0
		for i < len(all) && !all[i].at.After(p) {
			i++
		}
		if i == len(all) {
			continue
		}
		in := open(p)
		if got := read(in, len(all)-i); !reflect.DeepEqual(got, all[i:]) {
			t.Fatalf("behind %v the transactions are others", p)
		}
		in.Close()
	}
}

// TestTransactionsReader runs the kit on the reader, also through flows that crash.
func TestTransactionsReader(t *testing.T) {
	connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, []postgres.Change] {
		slot, c := published(t, "create table item (writer int, n int)", "alter table item replica identity full")
		slot.TakeOver = true
		r := postgres.Transactions(slot)
		ss, err := r.Splits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in, err := r.Open(t.Context(), ss[0], dataflow.Position{}) // which makes the slot
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		var all [][]postgres.Change
		for n := range 30 {
			var changes []postgres.Change
			postgrestest.Exec(t, c, "insert into item select $1, i from generate_series(1, $2::int) i", n, n%5+1)
			for i := range n%5 + 1 {
				changes = append(changes, postgres.Change{Op: postgres.Insert, New: postgres.Row{{Text: fmt.Sprint(n)}, {Text: fmt.Sprint(i + 1)}}})
			}
			all = append(all, changes)
		}
		return connecttest.Source[struct{}, []postgres.Change]{
			Reader: r, Want: map[string][][]postgres.Change{slot.Name: all},
			Equal: func(a, b []postgres.Change) bool {
				return slices.EqualFunc(a, b, func(x, y postgres.Change) bool {
					return x.Op == y.Op && slices.EqualFunc(x.New, y.New, func(v, w postgres.Cell) bool { return v.Text == w.Text })
				})
			},
			Forget: func(_ string, upTo dataflow.Position) {
				postgrestest.Exec(t, c, "select pg_replication_slot_advance($1, $2::text::pg_lsn)", slot.Name, fmt.Sprintf("%X/%X", (upTo.Major+1)>>32, uint32(upTo.Major+1)))
			},
			Remake: func() {
				if err := postgres.Renew(t.Context(), slot); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
