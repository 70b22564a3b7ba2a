package postgres_test

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/keyedstream"
)

type total struct {
	Customer string
	Sum      int64
}

// The orders of a table are read as they are written, and the sum of each customer is kept in another table. With durable.Start
// in place of dataflow.Start, both stay correct across crashes.
func Example() {
	type order struct {
		ID       int64
		Customer string
		Sum      int64
	}
	type shop struct{ dataflow.Process }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db := postgres.Database{DSN: os.Getenv("DATABASE_URL")}

	flow := dataflow.New()
	in, orders := connect.WholeInput[order](dataflow.At[shop](flow), "orders")
	byCustomer := dataflow.KeyBy(orders, func(o order) string { return o.Customer })
	sums := keyedstream.Scan(byCustomer, func() int64 { return 0 }, func(sum *int64, o order, emit func(int64)) {
		*sum += o.Sum
		emit(*sum)
	})
	totals := dataflow.Map(keyedstream.Entries(sums), func(e dataflow.Entry[string, int64]) total { return total{e.Key, e.Value} })
	out := dataflow.Output(totals, "totals")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		log.Fatal(err)
	}

	written := postgres.Decoded(postgres.Slot{Database: db, Name: "shop", Publication: "orders"},
		func(c postgres.Change) (none struct{}, o order, err error) {
			if c.Op != postgres.Insert {
				return none, o, postgres.ErrSkip
			}
			return none, o, c.New.Scan(&o)
		})
	pumps, err := connect.Attach(ctx, app, connect.Whole(written), in, connect.Options{})
	if err != nil {
		log.Fatal(err)
	}
	drains := connect.Drain(ctx, app, out, postgres.Upsert(db, "totals",
		postgres.Key("customer", func(t total) string { return t.Customer }),
		postgres.Column("sum", func(t total) int64 { return t.Sum })), connect.DrainOptions{Flow: "shop", Output: "totals"})

	<-ctx.Done()
	pumps.Stop(context.Background())
	drains.Stop(context.Background())
}

// The table contains the last total of each customer. Its columns are customer, which is the primary key, and sum.
func ExampleUpsert() {
	db := postgres.Database{DSN: os.Getenv("DATABASE_URL")}
	var totals connect.Sink[total, connect.Atomic] = postgres.Upsert(db, "totals",
		postgres.Key("customer", func(t total) string { return t.Customer }),
		postgres.Column("sum", func(t total) int64 { return t.Sum }))
	_ = totals
}

// Every change of a total is a row.
func ExampleAppend() {
	db := postgres.Database{DSN: os.Getenv("DATABASE_URL")}
	var history connect.Sink[total, connect.Atomic] = postgres.Append(db, "accounting.history",
		postgres.Column("customer", func(t total) string { return t.Customer }),
		postgres.Column("sum", func(t total) int64 { return t.Sum }))
	_ = history
}

// A function does what no other sink can: here it adds each total to the one in the table.
func ExampleExec() {
	db := postgres.Database{DSN: os.Getenv("DATABASE_URL")}
	var sums connect.Sink[total, connect.Atomic] = postgres.Exec(db, func(ctx context.Context, tx pgx.Tx, first uint64, xs []total) error {
		for _, x := range xs {
			if _, err := tx.Exec(ctx, "update totals set sum = sum + $2 where customer = $1", x.Customer, x.Sum); err != nil {
				return err
			}
		}
		return nil
	})
	_ = sums
}

// Answers that do not change are written under the name of their request.
func ExampleUpsertEntries() {
	type entry = dataflow.Entry[string, string]
	db := postgres.Database{DSN: os.Getenv("DATABASE_URL")}
	var answers connect.Sink[entry, connect.Idempotent] = postgres.UpsertEntries(db, "answers",
		postgres.Key("request", func(e entry) string { return e.Key }),
		postgres.Column("answer", func(e entry) string { return e.Value }))
	_ = answers
}

// All changes of the tables of a publication arrive in one order.
func ExampleChanges() {
	slot := postgres.Slot{Database: postgres.Database{DSN: os.Getenv("DATABASE_URL")}, Name: "shop", Publication: "shop"}
	changes := connect.Whole(postgres.Changes(slot))
	_ = changes
}

// A flow receives all changes of a transaction, or none.
func ExampleTransactions() {
	slot := postgres.Slot{Database: postgres.Database{DSN: os.Getenv("DATABASE_URL")}, Name: "shop", Publication: "shop"}
	transactions := connect.Whole(postgres.Transactions(slot))
	_ = transactions
}

// The rows of a table arrive as structs under their key, beginning with the existing rows.
func ExampleDecoded() {
	type customer struct {
		ID   int64
		Name string
		Note postgres.Partial[string] // may be long, and is not sent again while it does not change
	}
	slot := postgres.Slot{Database: postgres.Database{DSN: os.Getenv("DATABASE_URL")}, Name: "shop", Publication: "shop", Snapshot: true}
	customers := connect.ByKey(postgres.Decoded(slot, func(c postgres.Change) (id int64, x customer, err error) {
		if c.Table != "public.customers" || c.New == nil {
			return 0, x, postgres.ErrSkip
		}
		err = c.New.Scan(&x)
		return x.ID, x, err
	}), "a slot is one split")
	_ = customers
}
