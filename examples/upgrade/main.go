// Command upgrade adds up purchases by customer, in three versions of one program that go on from each other
// on one folder.
//
//	upgrade -version 1 1:ann:250 2:bob:900
//
// makes purchases, each once for its id, prints their receipts, and waits to be killed or interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

func main() {
	version := flag.Int("version", 1, "which `version` of the program runs: 1, 2 or 3")
	without := flag.Bool("without", false, "leave out the lines for an upgrade")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *version, *without, flag.Args()); err != nil {
		log.SetFlags(0)
		log.Fatal(err)
	}
}

func run(ctx context.Context, version int, without bool, purchases []string) error {
	if version < 1 || version > len(versions) {
		return fmt.Errorf("there is no version %d", version)
	}
	v := versions[version-1]
	opts := durable.Options{
		Log: disklog.Dir("shop"), Version: fmt.Sprint(version), Upgrade: v.upgrade,
		// After a kill a version makes the last steps of the one before again, and would write other receipts: those that were given stand.
		Divergence: durable.KeepRecorded,
		Logger:     slog.New(slog.DiscardHandler), // errors are returned as well
	}
	if without {
		opts.Upgrade = nil
	}
	app, err := durable.Start(context.WithoutCancel(ctx), v.build, opts)
	if err != nil {
		return err
	}
	for _, text := range purchases {
		receipt, err := buy(ctx, app.Ports, text)
		if err != nil {
			return errors.Join(err, app.Stop(context.WithoutCancel(ctx)))
		}
		fmt.Println(receipt)
	}
	if err := os.WriteFile("upgrade.pid", fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	fmt.Println("version", version, "waits")
	select {
	case <-ctx.Done():
	case <-app.Done(): // it failed
	}
	return app.Stop(context.WithoutCancel(ctx))
}

// buy makes a purchase, or finds that it was made, and returns its receipt.
func buy(ctx context.Context, ports Ports, text string) (receipt string, err error) {
	id, rest, _ := strings.Cut(text, ":")
	customer, amount, ok := strings.Cut(rest, ":")
	cents, err := strconv.ParseInt(amount, 10, 64)
	if !ok || err != nil || cents <= 0 {
		return "", fmt.Errorf("%q is no purchase such as 1:ann:250", text)
	}
	if err := ports.Purchases.Put(ctx, id, Purchase{customer, cents}); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
		return "", err
	}
	return ports.Receipts.Await(ctx, id)
}
