package postgres_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// TestKitSinks runs the kit on the sinks.
func TestKitSinks(t *testing.T) {
	for name, sink := range variants {
		t.Run(name, func(t *testing.T) {
			connecttest.Sink(t, func(t *testing.T) connecttest.Target[element, connect.Atomic] {
				db, c := prepared(t, gotTable)
				return connecttest.Target[element, connect.Atomic]{
					Sink: sink(db), Element: func(n uint64) element { return numbered(int(n), 1)[0] },
					Read: func(t *testing.T) []element {
						return rowsOf[element](t, c, "select n, text from got order by position")
					},
				}
			})
		})
	}
	t.Run("UpsertEntries", func(t *testing.T) {
		type entry = dataflow.Entry[int64, string]
		connecttest.Sink(t, func(t *testing.T) connecttest.Target[entry, connect.Idempotent] {
			db, c := prepared(t, "create table results (n bigint primary key, text text)")
			return connecttest.Target[entry, connect.Idempotent]{
				Sink: postgres.UpsertEntries(db, "results",
					postgres.Key("n", func(e entry) int64 { return e.Key }), postgres.Column("text", func(e entry) string { return e.Value })),
				Element: func(n uint64) entry { return entry{Key: int64(n), Value: fmt.Sprint("number ", n)} },
				Read:    func(t *testing.T) []entry { return rowsOf[entry](t, c, "select n, text from results") },
			}
		})
	})
}

func rowsOf[T any](t *testing.T, c *pgx.Conn, sql string) []T {
	t.Helper()
	rows, _ := c.Query(t.Context(), sql)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReader runs the kit on the reader. A slot has one reader, so each reader that is opened takes
// it over.
func TestReader(t *testing.T) {
	connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, item] {
		slot, c := published(t, "create table item (writer int, n text)", "alter table item replica identity full")
		slot.TakeOver = true
		r := postgres.Decoded(slot, func(c postgres.Change) (none struct{}, x item, err error) {
			var text struct {
				Writer int64
				N      string
			}
			if err := c.New.Scan(&text); err != nil {
				return none, x, err
			}
			x.Writer = text.Writer
			x.N, err = strconv.ParseInt(text.N, 10, 64)
			return none, x, err
		})
		cursorAt(t, r, splitOf(t, r), dataflow.Position{}).Close()
		fill := func(writer int) (all []item) {
			for n := 0; n < 60; {
				tx, err := c.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for range n%7 + 1 {
					text := fmt.Sprint(n)
					if n == 20 || n == 59 {
						text = "not a number"
					} else {
						all = append(all, item{int64(writer), int64(n)})
					}
					if _, err := tx.Exec(t.Context(), "insert into item values ($1, $2)", writer, text); err != nil {
						t.Fatal(err)
					}
					n++
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return all
		}
		all := fill(1)
		return connecttest.Source[struct{}, item]{
			Reader: r, Want: map[string][]item{slot.Name: all}, Bad: 2,
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
