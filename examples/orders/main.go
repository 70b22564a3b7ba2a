// Command orders joins orders from Kafka with customers from PostgreSQL, and writes totals by region and window of time back to
// PostgreSQL. It may be killed at any moment: each order counts once, for the region that its customer had at the time of the order.
//
//	orders run      reads, joins and writes until it is interrupted, or killed
//	orders produce  writes random orders, and changes customers meanwhile
//	orders check    compares the totals with a query over everything that was written
//
// README.md has the commands that try it.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow/connect/postgres"
)

// settings are what the flags say.
type settings struct {
	brokers    string
	topic      string
	partitions int
	database   string
	history    string
	times      Times
	rate       int
	lasts      time.Duration
}

func (s settings) seeds() []string       { return strings.Split(s.brokers, ",") }
func (s settings) db() postgres.Database { return postgres.Database{DSN: s.database} }

// splits are the names of the topic's partitions.
func (s settings) splits() (names []string) {
	for p := range s.partitions {
		names = append(names, fmt.Sprintf("%s/%d", s.topic, p))
	}
	return names
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	commands := map[string]func(context.Context, settings) error{"run": run, "produce": produce, "check": check}
	name, args := "", os.Args[1:]
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	command := commands[name]
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: orders run|produce|check [flags]; orders run -h lists the flags")
		os.Exit(2)
	}
	var s settings
	flags := flag.NewFlagSet("orders "+name, flag.ExitOnError)
	flags.StringVar(&s.brokers, "kafka", "127.0.0.1:9092", "`addresses` of Kafka brokers, with commas between them")
	flags.StringVar(&s.topic, "topic", "orders", "the `topic` of orders, made if it is missing")
	flags.IntVar(&s.partitions, "partitions", 4, "how many partitions the topic has")
	flags.StringVar(&s.database, "database", os.Getenv("DATABASE_URL"), "`connection string` of the database; it may be in DATABASE_URL instead")
	flags.StringVar(&s.history, "history", "orders-history", "`folder` of the flow's history")
	flags.DurationVar(&s.times.Window, "window", 10*time.Second, "length of a window")
	flags.DurationVar(&s.times.Slack, "slack", 2*time.Second, "how far out of order a partition may be")
	flags.IntVar(&s.rate, "rate", 2000, "orders a second that are produced")
	flags.DurationVar(&s.lasts, "for", time.Minute, "how long orders are produced")
	flags.Parse(args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, s); err != nil {
		stop()
		log.Fatal(err)
	}
}

//go:embed schema.sql
var schema string

// setup makes the tables and the topic where they are missing.
func setup(ctx context.Context, s settings) error {
	c, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return errors.New("the database cannot be reached: see -database") // the cause may quote a password
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, schema); err != nil {
		return err
	}
	if err := postgres.Setup(ctx, s.db()); err != nil {
		return err
	}
	return makeTopic(ctx, s)
}
