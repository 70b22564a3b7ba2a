// Command payments makes payments at a bank, each once however often it is asked for. It reads
// requests, a JSON object a line, and prints the receipt of each.
//
//	payments -bank http://127.0.0.1:7370/charges < requests.jsonl
//
// The bank is an HTTP server that makes a charge once for each Idempotency-Key. An answer of
// 500 and more, or none, is tried again.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/millrace/millrace/dataflow"
)

// A request is a line of the input.
type request struct {
	Key   string `json:"key"`
	Cents int64  `json:"cents"`
}

// A line is what is printed about a request.
type line struct {
	Key     string   `json:"key"`
	Receipt *Receipt `json:"receipt,omitempty"`
	Misused int64    `json:"misused,omitempty"` // cents of another payment under this key
}

func main() {
	bank := flag.String("bank", "", "`URL` of the bank")
	flag.Parse()
	if err := run(context.Background(), *bank, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run makes the payments and prints what becomes of them.
func run(ctx context.Context, bank string, requests io.Reader, to io.Writer) error {
	flow := dataflow.New()
	ports := build(flow, func(ctx context.Context, c Charge) Outcome { return post(ctx, bank, c) })
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	print := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(to).Encode(l) // a reader that has gone away is told nothing more
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for e := range ports.Misused.All(ctx) {
			print(line{Key: e.Key, Misused: e.Value})
		}
	})
	from := json.NewDecoder(requests)
	for err == nil {
		var r request
		if err = from.Decode(&r); err != nil {
			break
		}
		if err = ports.Requests.Send(ctx, r.Key, r.Cents); err == nil {
			waiting.Go(func() {
				if receipt, err := ports.Receipts.Await(ctx, r.Key); err == nil {
					print(line{Key: r.Key, Receipt: &receipt})
				}
			})
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	ports.Requests.Close()
	err = errors.Join(err, app.Wait())
	waiting.Wait()
	return err
}

// post asks the bank once.
func post(ctx context.Context, bank string, c Charge) Outcome {
	body, err := json.Marshal(map[string]int64{"cents": c.Cents})
	if err != nil {
		return Outcome{Refused: err.Error()}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, bank, bytes.NewReader(body))
	if err != nil {
		return Outcome{Refused: err.Error()}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", c.Key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return Outcome{Refused: err.Error(), Again: true}
	}
	defer answer.Body.Close()
	var made struct{ Number string }
	switch err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&made); {
	case answer.StatusCode >= 500:
		return Outcome{Refused: answer.Status, Again: true}
	case answer.StatusCode >= 300:
		return Outcome{Refused: answer.Status}
	case err != nil:
		return Outcome{Refused: fmt.Sprintf("the bank's answer cannot be read: %v", err), Again: true}
	}
	return Outcome{Number: made.Number}
}
