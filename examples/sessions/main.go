// Command sessions reads clicks, a JSON object a line, and prints each visit, and for each page how
// often it was clicked in each hour, when these are over. That is so by the time of the clicks, and
// not by that of the reader.
//
//	sessions < clicks.jsonl
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
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A line is what is printed of a visit, or of an hour of a page.
type line struct {
	Visitor string         `json:"visitor,omitempty"`
	Page    string         `json:"page,omitempty"`
	From    time.Time      `json:"from"`
	To      time.Time      `json:"to"` // of a visit, the last click
	Clicks  int            `json:"clicks"`
	Pages   map[string]int `json:"pages,omitempty"`
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run reads clicks and writes lines.
func run(ctx context.Context, clicks io.Reader, lines io.Writer) error {
	flow := dataflow.New()
	ports := build(flow)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	to := json.NewEncoder(lines)
	write := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = to.Encode(l) // a reader that has gone away is told nothing more
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		for k, v := range ports.Visits.All(ctx) { // takes each, so that none is kept
			write(line{Visitor: k.Key, From: k.Span.From.Time(), To: k.Span.To.Time().Add(-pause), Clicks: v.Clicks, Pages: v.Pages})
		}
	})
	readers.Go(func() {
		for k, n := range ports.Hours.All(ctx) {
			write(line{Page: k.Key, From: k.Span.From.Time(), To: k.Span.To.Time(), Clicks: n})
		}
	})
	err = send(ctx, json.NewDecoder(clicks), ports.Clicks)
	ports.Clicks.Close() // which ends time: what is open is over
	err = errors.Join(err, app.Wait())
	readers.Wait()
	return err
}

// send sends clicks until there are no more.
func send(ctx context.Context, from *json.Decoder, to *dataflow.InputPort[Click]) error {
	for {
		var c Click
		switch err := from.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading clicks: %w", err)
		}
		if err := to.Send(ctx, c); err != nil {
			return err
		}
	}
}
