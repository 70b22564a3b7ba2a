// Command fraud reads payments, a JSON object a line, and prints an alert for each with which a
// card has paid more than a limit within a minute. The minute is one of the payments' own time:
// the same file gives the same alerts tomorrow.
//
//	fraud < payments.jsonl
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// run reads payments and writes alerts, and what came too late to count.
func run(ctx context.Context, payments io.Reader, alerts, late io.Writer) error {
	flow := dataflow.New()
	ports := build(flow)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		return err
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		to := json.NewEncoder(alerts)
		for a := range ports.Alerts.All(ctx) {
			_ = to.Encode(a) // a reader that has gone away is told nothing more
		}
	})
	readers.Go(func() {
		for e := range ports.Late.All(ctx) {
			fmt.Fprintf(late, "too late: %s paid %d at %v\n", e.Value.Card, e.Value.Cents, e.At)
		}
	})
	err = send(ctx, json.NewDecoder(payments), ports.Payments)
	ports.Payments.Close() // which ends time: the last minutes are looked at
	err = errors.Join(err, app.Wait())
	readers.Wait()
	return err
}

// send sends payments until there are no more.
func send(ctx context.Context, from *json.Decoder, to *dataflow.InputPort[Payment]) error {
	for {
		var p Payment
		switch err := from.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading payments: %w", err)
		}
		if err := to.Send(ctx, p); err != nil {
			return err
		}
	}
}
