package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

//go:embed check.sql
var query string

// check compares the totals, and what was rejected, with a query over all records of the topic and all versions of customers, up to
// the last window that has a total.
func check(ctx context.Context, s settings) error {
	different, err := compare(ctx, s)
	if err != nil {
		return err
	}
	if len(different) > 0 {
		return fmt.Errorf("%d differences:\n%s", len(different), strings.Join(different[:min(20, len(different))], "\n"))
	}
	fmt.Println("all totals are those of the query, and so is what was rejected")
	return nil
}

// compare returns the differences, a line each.
func compare(ctx context.Context, s settings) (different []string, err error) {
	c, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return nil, errors.New("the database cannot be reached: see -database")
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, `create temp table records (partition int, "offset" bigint, value text, id bigint, customer bigint, cents bigint, time timestamptz)`); err != nil {
		return nil, err
	}
	n, err := load(ctx, s, c)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, fmt.Sprintf("set millrace.size = '%d us'", s.times.Window.Microseconds())); err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, fmt.Sprintf("set millrace.slack = '%d us'", s.times.Slack.Microseconds())); err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, query); err != nil {
		return nil, err
	}
	var totals, orders, late, bad, versions int64
	if err := c.QueryRow(ctx, `select (select count(*) from wanted), (select coalesce(sum(orders), 0) from wanted),
		(select count(*) from refused where why = 'late'), (select count(*) from refused where why <> 'late'), (select count(*) from customer_versions)`).
		Scan(&totals, &orders, &late, &bad, &versions); err != nil {
		return nil, err
	}
	rows, err := c.Query(ctx, "select line from differences")
	if err != nil {
		return nil, err
	}
	different, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d records, %d versions of customers; %d totals of %d orders, %d late, %d cannot be read\n", n, versions, totals, orders, late, bad)
	if totals == 0 {
		return nil, errors.New("there are no totals yet")
	}
	return different, nil
}

// load reads the topic to its end into a table, with a plain client.
func load(ctx context.Context, s settings, c *pgx.Conn) (n int, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.seeds()...))
	if err != nil {
		return 0, err
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, s.topic)
	cl.Close()
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, err
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	if cl, err = kgo.NewClient(kgo.SeedBrokers(s.seeds()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: from})); err != nil {
		return 0, err
	}
	defer cl.Close()
	for len(left) > 0 {
		fetched := cl.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return n, err
		}
		var rows [][]any
		fetched.EachRecord(func(r *kgo.Record) {
			row := []any{r.Partition, r.Offset, string(r.Value), nil, nil, nil, nil}
			if _, o, err := decodeOrder(r); err == nil {
				row = append(row[:3], o.ID, o.Customer, o.Cents, o.Time.UTC().Truncate(time.Microsecond))
			}
			rows = append(rows, row)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
		n += len(rows)
		if _, err := c.CopyFrom(ctx, pgx.Identifier{"records"}, []string{"partition", "offset", "value", "id", "customer", "cents", "time"}, pgx.CopyFromRows(rows)); err != nil {
			return n, err
		}
	}
	return n, nil
}
