package postgres

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// Upsert returns a sink that inserts a row for each element, or updates the row with the element's key. Each element has its
// effect once, in the order of its lane. The number of the last element is in the table of [LanesTable]. One statement writes
// both, or neither if another writer has opened the lane.
//
// The name of the table may include its schema, "schema.table". The names of columns are used as they are, case-sensitively.
// Upsert panics if there is no [Key] among them.
func Upsert[T any](db Database, table string, columns ...Field[T]) connect.Sink[T, connect.Atomic] {
	return &upsert[T]{db: db, table: newKeyed("Upsert", table, columns)}
}

type upsert[T any] struct {
	private
	db    Database
	table table[T]
}

func (s *upsert[T]) Open(ctx context.Context, l connect.Lane) (connect.Writer[T, connect.Atomic], uint64, error) {
	w, last, err := openLane(ctx, s.db, l)
	if err != nil {
		return nil, 0, err
	}
	kinds, err := s.table.kinds(ctx, w.conn)
	if err != nil {
		err = w.error(err)
		w.Close()
		return nil, 0, err
	}
	rows := s.table.rows(kinds, 7)
	statement := func(last bool) string {
		return fmt.Sprintf("with lane as (%s returning 1), put as (%s) select count(*) from lane",
			moved, s.table.insert(kinds, rows+", lane", last, false))
	}
	return &upserter[T]{lane: w, table: s.table, statement: statement(false), last: statement(true)}, last, nil
}

// An upserter writes one lane.
type upserter[T any] struct {
	*lane
	table           table[T]
	statement, last string // last is for batches that contain a key twice
	repeated        bool   // there was such a batch
}

func (w *upserter[T]) Write(ctx context.Context, first uint64, xs []T) (done connect.Atomic, err error) {
	if len(xs) == 0 {
		return done, nil
	}
	args := append(w.numbers(first, len(xs)), w.table.arrays(xs)...)
	return done, w.transaction(func() error {
		n, err := w.put(ctx, args)
		if code(err) == cardinality && !w.repeated {
			w.repeated = true
			n, err = w.put(ctx, args)
		}
		if err == nil && n == 0 {
			err = w.refused(ctx, first)
		}
		return err
	})
}

func (w *upserter[T]) put(ctx context.Context, args []any) (n int, err error) {
	statement := w.statement
	if w.repeated {
		statement = w.last
	}
	err = w.conn.QueryRow(ctx, statement, args...).Scan(&n)
	return n, err
}

// UpsertEntries returns a sink for entries whose values do not change. It inserts a row for each entry, or updates the row with
// its key if that differs. Writing an entry again has no effect, so the sink keeps no number and needs no table of its own.
//
// If somebody else changes a row, it is corrected only when its entry is written again.
func UpsertEntries[K comparable, V any](db Database, table string, columns ...Field[dataflow.Entry[K, V]]) connect.Sink[dataflow.Entry[K, V], connect.Idempotent] {
	return &entries[dataflow.Entry[K, V]]{db: db, table: newKeyed("UpsertEntries", table, columns)}
}

type entries[T any] struct {
	private
	db    Database
	table table[T]
}

func (s *entries[T]) Open(ctx context.Context, l connect.Lane) (connect.Writer[T, connect.Idempotent], uint64, error) {
	c, hidden, err := s.db.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	w := &lane{Lane: l, conn: c, hidden: hidden}
	_, err = c.Exec(ctx, session)
	if err == nil && s.db.Connected != nil {
		err = s.db.Connected(ctx, c)
	}
	var kinds []kind
	if err == nil {
		kinds, err = s.table.kinds(ctx, c)
	}
	if err != nil {
		err = w.error(err)
		w.Close()
		return nil, 0, err
	}
	return &entriesWriter[T]{w, s.table, s.table.insert(kinds, s.table.rows(kinds, 1), true, true)}, 0, nil
}

type entriesWriter[T any] struct {
	*lane
	table     table[T]
	statement string
}

func (w *entriesWriter[T]) Write(ctx context.Context, _ uint64, xs []T) (done connect.Idempotent, err error) {
	if len(xs) == 0 {
		return done, nil
	}
	args := w.table.arrays(xs)
	return done, w.transaction(func() error {
		_, err := w.conn.Exec(ctx, w.statement, args...)
		return err
	})
}
