// Command sessions reads clicks, a JSON object a line, and prints each visit when it is over. A
// visit is over when its visitor has not clicked for half an hour, by the time of the clicks and
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

// A line is what is printed of a visit.
type line struct {
	Visitor string         `json:"visitor"`
	From    time.Time      `json:"from"`
	Last    time.Time      `json:"last"`
	Clicks  int            `json:"clicks"`
	Pages   map[string]int `json:"pages"`
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run reads clicks and writes visits.
func run(ctx context.Context, clicks io.Reader, visits io.Writer) error {
	flow := dataflow.New()
	ports := build(flow)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		return err
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		to := json.NewEncoder(visits)
		for k, v := range ports.Visits.All(ctx) { // takes each, so that none is kept
			_ = to.Encode(line{k.Key, k.Span.From.Time(), k.Span.To.Time().Add(-30 * time.Minute), v.Clicks, v.Pages})
		}
	})
	from := json.NewDecoder(clicks)
	for err == nil {
		var c Click
		if err = from.Decode(&c); err == nil {
			err = ports.Clicks.Send(ctx, c)
		} else if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("reading clicks: %w", err)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	ports.Clicks.Close() // which ends time: visits that are open are over
	err = errors.Join(err, app.Wait())
	reader.Wait()
	return err
}
