// Command payments takes payments over HTTP and has a bank make each once, whatever is killed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7370", "`address` of the service")
	bank := flag.String("bank", "http://127.0.0.1:7371", "`URL` of the bank")
	asBank := flag.Bool("pretend", false, "be a bank to try it with, and nothing else")
	flag.Parse()
	if *asBank {
		log.Fatal(serve("bank", *listen, pretend()))
	}
	app, err := durable.Start(context.Background(), func(flow *dataflow.Flow) Ports {
		return build(flow, func(ctx context.Context, key string, cents int64) Outcome { return post(ctx, *bank, key, cents) })
	}, durable.Options{Log: disklog.Dir("till")})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serve("payments", *listen, app.Ports))
}

func serve(what, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: time.Minute,
	}
	if err := os.WriteFile(what+".pid", fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	fmt.Println(what, "at http://"+address)
	return server.Serve(listener)
}

// ServeHTTP takes a request for a payment and answers with its receipt.
func (p Ports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	var asked struct{ Cents int64 }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&asked); err != nil || key == "" || asked.Cents <= 0 {
		http.Error(w, `a payment has an Idempotency-Key and a body such as {"cents": 250}`, http.StatusBadRequest)
		return
	}
	err := p.Requests.Send(r.Context(), key, asked.Cents) // it is on the disk when this returns
	var receipt Receipt
	if err == nil {
		receipt, err = p.Receipts.Await(r.Context(), key)
	}
	switch {
	case err != nil:
		http.Error(w, "ask again: "+err.Error(), http.StatusServiceUnavailable)
		return
	case receipt.Cents != asked.Cents:
		http.Error(w, "the key is that of another payment", http.StatusUnprocessableEntity)
		return
	case receipt.Refused != "":
		w.WriteHeader(http.StatusPaymentRequired)
	}
	_ = json.NewEncoder(w).Encode(receipt) // a client that has gone away is told nothing
}
