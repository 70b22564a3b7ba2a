package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// slotName is the name of the replication slot.
const slotName = "orders"

// run runs the flow until ctx ends.
func run(ctx context.Context, s settings) (err error) {
	if err := setup(ctx, s); err != nil {
		return err
	}
	app, err := durable.Start(context.WithoutCancel(ctx), build(s.splits(), s.times), durable.Options{Log: disklog.Dir(s.history)})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	totals := connect.Drain(running, app, app.Ports.Totals, postgres.Append(s.db(), "totals",
		postgres.Column("start", func(t Total) time.Time { return t.Start }),
		postgres.Column("region", func(t Total) string { return t.Region }),
		postgres.Column("orders", func(t Total) int64 { return t.Orders }),
		postgres.Column("cents", func(t Total) int64 { return t.Cents }),
	), connect.DrainOptions{Flow: "orders", Output: "totals", OnError: func(l connect.Lane, err error) { log.Print(err) }})
	rejects := connect.Drain(running, app, app.Ports.Rejects, postgres.Append(s.db(), "rejects",
		postgres.Column("why", func(r Reject) string { return r.Why }),
		postgres.Column("record", func(r Reject) string { return r.Record }),
	), connect.DrainOptions{Flow: "orders", Output: "rejects", OnError: func(l connect.Lane, err error) { log.Print(err) }})

	customers, err := connect.Attach(running, app, connect.Whole(postgres.Decoded(s.slot(), decodeCustomer)), app.Ports.Customers, connect.Options{
		OnError: func(_ connect.Split, err error) { log.Print(err) },
	})
	if err != nil {
		return err
	}
	reader, err := s.source().Reader()
	if err != nil {
		return err
	}
	orders, err := connect.Attach(running, app, connect.BySplit(reader), app.Ports.Orders, connect.Options{
		DeadLetters: app.Ports.Letters, OnError: func(_ connect.Split, err error) { log.Print(err) },
	})
	if err != nil {
		return err
	}
	go tellTime(running, s.database)
	fmt.Println("running")

	look := time.NewTicker(time.Second)
	defer look.Stop()
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-look.C:
			err = errors.Join(ended(orders), ended(customers))
		case <-app.Done():
			return app.Err()
		case <-orders.Done():
			err = fmt.Errorf("reading orders has ended: %w", orders.Err())
		case <-customers.Done():
			err = fmt.Errorf("reading customers has ended: %w", customers.Err())
		case <-totals.Done():
			err = fmt.Errorf("writing totals has ended: %w", totals.Err())
		case <-rejects.Done():
			err = fmt.Errorf("writing rejects has ended: %w", rejects.Err())
		}
	}
	// What was read is in the history, and what was not written as well: the next start goes on.
	stopping, done := context.WithTimeout(running, 10*time.Second)
	defer done()
	return errors.Join(err, orders.Stop(stopping), customers.Stop(stopping), totals.Stop(stopping), rejects.Stop(stopping), app.Stop(stopping))
}

// ended returns why a split of a source cannot be read on, if there is such a one: totals would wait for it for ever.
func ended(p *connect.Pumps) error {
	for _, split := range p.Status() {
		if split.Ended && split.Err != nil {
			return split.Err
		}
	}
	return nil
}

// source is the topic. If it got more partitions, nothing would be read of them in the same order as before: build knows how many
// there are.
func (s settings) source() kafka.Topic[struct{}, Order] {
	return kafka.Topic[struct{}, Order]{Seeds: s.seeds(), Name: s.topic, Partitions: s.partitions, Decode: decodeOrder}
}

// ahead is how far the clock of whoever orders may be ahead of the brokers'. One order of next year would make all others of its
// partition late.
const ahead = time.Minute

// decodeOrder reads an order. Times have microseconds, as those of PostgreSQL.
func decodeOrder(r *kgo.Record) (none struct{}, o Order, err error) {
	if err := json.Unmarshal(r.Value, &o); err != nil {
		return none, o, err
	}
	if o.ID == 0 || o.Time.IsZero() {
		return none, o, errors.New("an order has an id and a time")
	}
	if o.Time.After(r.Timestamp.Add(ahead)) {
		return none, o, errors.New("the order is of a time after it was written")
	}
	o.Time = o.Time.Truncate(time.Microsecond)
	return none, o, nil
}

// slot is that of the customers. A killed program's session may last for a moment, and is ended by the next one.
func (s settings) slot() postgres.Slot {
	return postgres.Slot{Database: s.db(), Name: slotName, Publication: "shop", Snapshot: true, TakeOver: true}
}

// always is before all times at which somebody ordered: a customer of the snapshot is in its region since ever.
var always = time.Unix(0, 0)

// decodeCustomer reads what was committed. It holds from the time of the commit on.
func decodeCustomer(c postgres.Change) (none struct{}, x Change, err error) {
	switch c.Op {
	case postgres.Message:
		if c.Prefix != slotName {
			return none, x, postgres.ErrSkip
		}
		return none, Change{Time: c.Commit}, nil
	case postgres.Truncate: // a snapshot begins again, with all customers that there are
		return none, x, postgres.ErrSkip
	case postgres.Snapshot:
		x.Time = always
	default:
		x.Time = c.Commit
	}
	var row struct {
		ID     int64
		Region string
	}
	if c.Op == postgres.Delete {
		err = c.Old.Scan(&row)
		row.Region = ""
	} else {
		err = c.New.Scan(&row)
	}
	x.Customer, x.Region = row.ID, row.Region
	return none, x, err
}

// tellTime commits a message a few times a second. Customers change rarely, and orders wait until it is known what their customers
// were at their time: the message says what time it is, in the order of commits. While it is not known that the flow has the snapshot,
// the message has another prefix and moves nothing but the slot: if the snapshot is read again, its rows must not be late.
func tellTime(ctx context.Context, database string) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var c *pgx.Conn
	defer func() {
		if c != nil {
			c.Close(context.WithoutCancel(ctx))
		}
	}()
	for {
		if c == nil || c.IsClosed() {
			c, _ = pgx.Connect(ctx, database) // the database may be down for a while
		}
		if c != nil {
			c.Exec(ctx, `select pg_logical_emit_message(true, case when exists
				(select from millrace_slots where slot = $1 and state = 'reading') then $1 else $1 || ' is read' end, '')`, slotName)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
