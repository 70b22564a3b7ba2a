package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// A record is what the benchmarks write and read. It takes about 220 bytes.
type record struct {
	K string
	V []byte
	N int64
}

func records(first, n int) []record {
	xs := make([]record, n)
	for i := range xs {
		xs[i] = record{fmt.Sprint("k", first+i), make([]byte, 200), int64(first + i)}
	}
	return xs
}

// compared runs raw and ours alternately, and reports the rates and their ratio. Each call of raw or ours is a batch of n
// records.
func compared(b *testing.B, n int, raw, ours func(first int) error) {
	var spent [2]time.Duration
	both := [2]func(int) error{raw, ours}
	for i := range 20 { // prepares statements, reads pages
		for _, f := range both {
			if err := f(i * n); err != nil {
				b.Fatal(err)
			}
		}
	}
	i := 20
	for b.Loop() {
		for j := range both {
			j = (j + i) % 2 // so that neither is always the first
			at := time.Now()
			if err := both[j](i * n); err != nil {
				b.Fatal(err)
			}
			spent[j] += time.Since(at)
		}
		i++
	}
	rows := float64((i - 20) * n)
	b.ReportMetric(rows/spent[0].Seconds(), "raw-rows/s")
	b.ReportMetric(rows/spent[1].Seconds(), "millrace-rows/s")
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "ratio")
	b.ReportMetric(0, "ns/op")
}

const benchTable = "create table %s (k text primary key, v bytea, n bigint)"

var recordFields = []postgres.Field[record]{
	postgres.Key("k", func(r record) string { return r.K }),
	postgres.Column("v", func(r record) []byte { return r.V }),
	postgres.Column("n", func(r record) int64 { return r.N }),
}

// BenchmarkUpsert compares the sink with the same upserts by the client alone, which keeps no number.
func BenchmarkUpsert(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint("batch=", n), func(b *testing.B) {
			db, c := prepared(b, fmt.Sprintf(benchTable, "ours"), fmt.Sprintf(benchTable, "raw"))
			w, _, err := postgres.Upsert(db, "ours", recordFields...).Open(b.Context(), lane)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			written := uint64(0)
			compared(b, n, func(first int) error {
				xs := records(first, n)
				ks, vs, ns := make([]string, n), make([][]byte, n), make([]int64, n)
				for i, x := range xs {
					ks[i], vs[i], ns[i] = x.K, x.V, x.N
				}
				_, err := c.Exec(b.Context(), `insert into raw select * from unnest($1::text[], $2::bytea[], $3::bigint[])
					on conflict (k) do update set v = excluded.v, n = excluded.n`, ks, vs, ns)
				return err
			}, func(first int) error {
				_, err := w.Write(b.Context(), written+1, records(first, n))
				written += uint64(n)
				return err
			})
		})
	}
}

// BenchmarkAppend compares the sink with the same COPY by the client alone.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint("batch=", n), func(b *testing.B) {
			db, c := prepared(b, fmt.Sprintf(benchTable, "ours"), fmt.Sprintf(benchTable, "raw"))
			w, _, err := postgres.Append(db, "ours", recordFields...).Open(b.Context(), lane)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			written := uint64(0)
			compared(b, n, func(first int) error {
				xs := records(first, n)
				_, err := c.CopyFrom(b.Context(), pgx.Identifier{"raw"}, []string{"k", "v", "n"}, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
					return []any{xs[i].K, xs[i].V, xs[i].N}, nil
				}))
				return err
			}, func(first int) error {
				_, err := w.Write(b.Context(), written+1, records(first, n))
				written += uint64(n)
				return err
			})
		})
	}
}

// BenchmarkChanges compares the reader with a loop that reads the same slot and looks only at the kind of each message.
func BenchmarkChanges(b *testing.B) {
	const rows = 50_000
	slot, c := published(b, fmt.Sprintf(benchTable, "item"))
	r := postgres.Changes(slot)
	s := splitOf(b, r)
	in := cursorAt(b, r, s, dataflow.Position{})
	in.Close()
	var start string
	if err := c.QueryRow(b.Context(), "select confirmed_flush_lsn from pg_replication_slots where slot_name = $1", slot.Name).Scan(&start); err != nil {
		b.Fatal(err)
	}
	for i := range rows / 1000 {
		postgrestest.Exec(b, c, fmt.Sprintf("insert into item select 'k' || i, decode(repeat('ab', 200), 'hex'), i from generate_series(%d, %d) i", i*1000, i*1000+999))
	}
	var spent [2]time.Duration
	n := 0
	for b.Loop() {
		n++
		at := time.Now()
		rawChanges(b, slot, start, rows)
		spent[0] += time.Since(at)
		at = time.Now()
		in := cursorAt(b, r, s, dataflow.Position{})
		var batch connect.Batch[struct{}, postgres.Change]
		for got := 0; got < rows; got += len(batch.Values) {
			batch.Reset()
			if err := in.Next(b.Context(), &batch); err != nil {
				b.Fatal(err)
			}
		}
		in.Close()
		spent[1] += time.Since(at)
	}
	b.ReportMetric(float64(n*rows)/spent[0].Seconds(), "raw-rows/s")
	b.ReportMetric(float64(n*rows)/spent[1].Seconds(), "millrace-rows/s")
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "ratio")
	b.ReportMetric(0, "ns/op")
}

func rawChanges(b *testing.B, slot postgres.Slot, start string, rows int) {
	ctx := context.Background()
	for {
		c, err := pgconn.Connect(ctx, slot.Database.DSN+" replication=database")
		if err != nil {
			b.Fatal(err)
		}
		c.Frontend().SendQuery(&pgproto3.Query{String: fmt.Sprintf(`START_REPLICATION SLOT %q LOGICAL %s (proto_version '1', publication_names 'p')`, slot.Name, start)})
		if err := c.Frontend().Flush(); err != nil {
			b.Fatal(err)
		}
		inserts, commits := 0, 0
		for inserts < rows {
			m, err := c.ReceiveMessage(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if e, ok := m.(*pgproto3.ErrorResponse); ok {
				if e.Code != "55006" {
					b.Fatal(e.Message)
				}
				break // the previous reader has just left
			}
			if d, ok := m.(*pgproto3.CopyData); ok && d.Data[0] == 'w' {
				switch body := d.Data[25:]; body[0] {
				case 'I':
					binary.BigEndian.Uint32(body[1:])
					inserts++
				case 'C':
					commits++
				}
			}
		}
		c.Close(ctx)
		if inserts == rows {
			return
		}
	}
}
