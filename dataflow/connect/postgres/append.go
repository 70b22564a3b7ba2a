package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow/connect"
)

// Exec returns a sink that calls run in a transaction for each batch of elements, with the number of the first element. The
// effects of the transaction happen once for each element, in the order of the lane. Effects outside the transaction may be
// repeated. run is called again after a deadlock or a serialization failure. It must not end the transaction. The server ends a
// transaction in which no statement has arrived for a minute.
func Exec[T any](db Database, run func(ctx context.Context, tx pgx.Tx, first uint64, xs []T) error) connect.Sink[T, connect.Atomic] {
	if run == nil {
		panic("postgres: Exec: the function is nil")
	}
	return &exec[T]{db: db, run: run}
}

// Append returns a sink that adds a row for each element, once and in the order of its lane, by COPY. The table needs no key.
//
// The name of the table may include its schema, "schema.table". The names of columns are used as they are, case-sensitively.
// [Key] has the same effect as [Column].
func Append[T any](db Database, table string, columns ...Field[T]) connect.Sink[T, connect.Atomic] {
	t := newTable("Append", table, columns)
	return &exec[T]{db: db, run: func(ctx context.Context, tx pgx.Tx, _ uint64, xs []T) error {
		// All at once, because CopyFrom asks for rows on another goroutine, where a panic would end the process.
		rows, values := make([][]any, len(xs)), make([]any, 0, len(xs)*len(t.fields))
		for i, x := range xs {
			for _, f := range t.fields {
				values = append(values, f.one(x))
			}
			rows[i] = values[i*len(t.fields):]
		}
		_, err := tx.CopyFrom(ctx, t.name, t.names(), pgx.CopyFromRows(rows))
		return err
	}}
}

type exec[T any] struct {
	private
	db  Database
	run func(context.Context, pgx.Tx, uint64, []T) error
}

func (s *exec[T]) Open(ctx context.Context, l connect.Lane) (connect.Writer[T, connect.Atomic], uint64, error) {
	w, last, err := openLane(ctx, s.db, l)
	if err != nil {
		return nil, 0, err
	}
	return &execWriter[T]{w, s.run}, last, nil
}

type execWriter[T any] struct {
	*lane
	run func(context.Context, pgx.Tx, uint64, []T) error
}

func (w *execWriter[T]) Write(ctx context.Context, first uint64, xs []T) (done connect.Atomic, err error) {
	if len(xs) == 0 {
		return done, nil
	}
	return done, w.transaction(func() error {
		return pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
			// Update the lane first: its lock keeps out a writer that opens the lane now, until this transaction has ended.
			tag, err := tx.Exec(ctx, moved, w.numbers(first, len(xs))...)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return w.refused(ctx, first)
			}
			return w.run(ctx, tx, first, xs)
		})
	})
}
