package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// customerIDs is how many customers there may be. About a tenth of them are not there at a time.
const customerIDs = 200

var regions = []string{"north", "east", "south", "west"}

// makeTopic makes the topic if it is missing. The time of a record is that of the broker, whatever its producer says.
func makeTopic(ctx context.Context, s settings) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.seeds()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	made, err := kadm.NewClient(cl).CreateTopic(ctx, int32(s.partitions), -1, map[string]*string{"message.timestamp.type": kadm.StringPtr("LogAppendTime")}, s.topic)
	if err == nil {
		err = made.Err
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// produce writes random orders and changes customers, until ctx ends or it was done for long enough.
//
// It begins when the flow has read the customers that there are. Until then the flow may read them again, and would know what a
// customer is and not what it was.
func produce(ctx context.Context, s settings) error {
	if err := setup(ctx, s); err != nil {
		return err
	}
	c, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, `insert into customers select i, $1 from generate_series(1, $2::int) i where i % 10 > 0
		and not exists (select from customers) on conflict do nothing`, regions[0], customerIDs); err != nil {
		return err
	}
	fmt.Println("waiting for orders run to read the customers")
	if err := until(ctx, func() (read bool, err error) {
		err = c.QueryRow(ctx, "select exists (select from millrace_slots where slot = $1 and state = 'reading')", slotName).Scan(&read)
		return read, err
	}); err != nil {
		return err
	}
	fmt.Println("producing")

	ctx, cancel := context.WithTimeout(ctx, s.lasts)
	defer cancel()
	changed := make(chan error, 1)
	go func() { changed <- change(ctx, c) }()
	n, err := order(ctx, s)
	cancel()
	fmt.Printf("produced %d records\n", n)
	return errors.Join(err, <-changed)
}

// until waits for what is to become true.
func until(ctx context.Context, ok func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// order writes records until ctx ends: orders that are a little out of order, some that are late, and some that are none.
func order(ctx context.Context, s settings) (n int64, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.seeds()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(s.topic),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var failed kgo.FirstErrPromise
	sending := context.WithoutCancel(ctx)
	const often = 10 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for first := time.Now().UnixNano(); ctx.Err() == nil; { // ids of another call are others
		for range max(1, s.rate*int(often)/int(time.Second)) {
			n++
			at := time.Now().Add(-time.Duration(rand.Int64N(int64(s.times.Slack) / 2)))
			switch rand.IntN(1000) {
			case 0, 1, 2:
				at = at.Add(-2 * s.times.Slack)
			case 3:
				at = at.Add(365 * 24 * time.Hour)
			}
			value, err := json.Marshal(Order{ID: first + n, Customer: 1 + rand.Int64N(customerIDs), Cents: 1 + rand.Int64N(10_000), Time: at.Truncate(time.Microsecond)})
			if err != nil {
				return n, err
			}
			if rand.IntN(1000) == 0 {
				value = value[:len(value)/2]
			}
			cl.Produce(sending, &kgo.Record{Partition: rand.Int32N(int32(s.partitions)), Value: value}, failed.Promise())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return n, errors.Join(cl.Flush(sending), failed.Err())
}

// change changes customers in transactions until ctx ends.
func change(ctx context.Context, c *pgx.Conn) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	working := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		tx, err := c.Begin(working)
		if err != nil {
			return err
		}
		for range 1 + rand.IntN(3) {
			statement, args := "insert into customers values ($1, $2) on conflict (id) do update set region = excluded.region", []any{1 + rand.IntN(customerIDs), regions[rand.IntN(len(regions))]}
			if rand.IntN(10) == 0 {
				statement, args = "delete from customers where id = $1", args[:1]
			}
			if _, err := tx.Exec(working, statement, args...); err != nil {
				return err
			}
		}
		end := tx.Commit
		if rand.IntN(10) == 0 {
			end = tx.Rollback
		}
		if err := end(working); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}
