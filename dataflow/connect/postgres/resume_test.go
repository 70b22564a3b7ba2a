package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// Case 36: a slot can be resumed after every position, also in the middle of a transaction, and where a commit is at the end of
// the previous transaction.
func TestResume(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	in := cursorAt(t, r, s, dataflow.Position{})
	for i := range 5 {
		postgrestest.Exec(t, c, fmt.Sprintf("insert into item select * from generate_series(%d, %d)", 10*i, 10*i+2))
	}
	var all []place
	var ends []dataflow.Position
	var b connect.Batch[struct{}, postgres.Change]
	for len(all) < 15 {
		b.Reset()
		if err := in.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Values {
			all = append(all, place{b.At[i], b.Values[i]})
		}
		ends = append(ends, b.End)
	}
	for len(ends) > 0 && ends[len(ends)-1].Minor != 0 { // the last commit may come in a message of its own
		b.Reset()
		if err := in.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, b.End)
	}
	in.Close()
	commits := map[uint64]bool{}
	for i, p := range all {
		commits[p.at.Major] = true
		if p.at.Minor != uint64(i%3)+1 {
			t.Fatalf("change %d has position %v", i, p.at)
		}
		in := cursorAt(t, r, s, p.at)
		postgrestest.Exec(t, c, "insert into item values ($1)", 1000+i)
		got := next(t, in, len(all)-i-1+i+1)[:len(all)-i-1]
		if !reflect.DeepEqual(got, all[i+1:]) {
			t.Fatalf("behind %v came %v, want %v", p.at, lines(got), lines(all[i+1:]))
		}
		in.Close()
	}
	if len(commits) != 5 {
		t.Errorf("%d commits, want 5", len(commits))
	}
	for _, end := range ends {
		in := cursorAt(t, r, s, end)
		i := slices.IndexFunc(all, func(p place) bool { return p.at.After(end) })
		if i < 0 {
			i = len(all)
		}
		got := next(t, in, len(all)-i+15)[:len(all)-i]
		if !reflect.DeepEqual(got, append([]place(nil), all[i:]...)) && i < len(all) {
			t.Fatalf("behind %v came %v, want %v", end, lines(got), lines(all[i:]))
		}
		in.Close()
	}
}

// Case 37: changes that somebody else confirmed are reported as missing, and not skipped silently.
func TestConfirmedElsewhere(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	in := cursorAt(t, r, s, dataflow.Position{})
	postgrestest.Exec(t, c, "insert into item values (1), (2)")
	postgrestest.Exec(t, c, "insert into item values (3)")
	got := next(t, in, 3)
	in.Close()
	until(t, c, "not exists (select from pg_replication_slots where slot_name = $1 and active)", slot.Name)
	postgrestest.Exec(t, c, "select pg_replication_slot_advance($1, pg_current_wal_lsn())", slot.Name)
	for _, after := range []dataflow.Position{{}, got[0].at, got[1].at, got[2].at} {
		_, err := r.Open(t.Context(), s, after)
		if !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "confirmed up to") {
			t.Errorf("opened behind %v: %v, want ErrGap", after, err)
		}
	}

	// An operator starts over with another split.
	if err := postgres.Renew(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	renewed := splitOf(t, r)
	if renewed.ID == s.ID {
		t.Errorf("the slot that was made again has the split %s", s.ID)
	}
	old := cursorAt(t, r, s, got[0].at)
	var b connect.Batch[struct{}, postgres.Change]
	if err := old.Next(t.Context(), &b); err != io.EOF {
		t.Errorf("the split before: %v, want its end", err)
	}
	in = cursorAt(t, r, renewed, dataflow.Position{})
	postgrestest.Exec(t, c, "insert into item values (4)")
	sameLines(t, lines(next(t, in, 1)), []string{"insert item new id*=4"})
}

// TestSlotGone checks that a slot that was dropped, or is behind the flow, is a gap.
func TestSlotGone(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	cursorAt(t, r, s, dataflow.Position{}).Close()
	if _, err := r.Open(t.Context(), s, dataflow.Position{Major: 1 << 60}); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "as after a restore") {
		t.Errorf("opened behind the server's end: %v, want ErrGap", err)
	}
	until(t, c, "not exists (select from pg_replication_slots where slot_name = $1 and active)", slot.Name)
	postgrestest.Exec(t, c, "select pg_drop_replication_slot($1)", slot.Name)
	for _, after := range []dataflow.Position{{}, {Major: 1, Minor: 1}} {
		if _, err := r.Open(t.Context(), s, after); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "dropped") {
			t.Errorf("a slot that was dropped is opened: %v, want ErrGap", err)
		}
	}
}

// TestSlotTableGone checks that a position is a gap if both the slot and its row in millrace_slots were lost.
func TestSlotTableGone(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	s := splitOf(t, r)
	cursorAt(t, r, s, dataflow.Position{}).Close()
	until(t, c, "not exists (select from pg_replication_slots where slot_name = $1 and active)", slot.Name)
	postgrestest.Exec(t, c, "select pg_drop_replication_slot($1)", slot.Name)
	postgrestest.Exec(t, c, "truncate millrace_slots")
	if again := splitOf(t, r); again != s {
		t.Fatalf("the split is %v, want %v again", again, s)
	}
	if _, err := r.Open(t.Context(), s, dataflow.Position{Major: 1}); !errors.Is(err, connect.ErrGap) {
		t.Errorf("a slot is made behind a position: %v, want ErrGap", err)
	}
}

// TestNextIsInterrupted checks that Next of a cursor ends with its context, and that the cursor continues where it was.
func TestNextIsInterrupted(t *testing.T) {
	slot, c := published(t, "create table item (id int primary key)")
	r := postgres.Changes(slot)
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	var b connect.Batch[struct{}, postgres.Change]
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		b.Reset()
		if err := in.Next(ctx, &b); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	postgrestest.Exec(t, c, "insert into item values (1)")
	sameLines(t, lines(next(t, in, 1)), []string{"insert item new id*=1"})
}
