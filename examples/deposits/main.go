// Command deposits is an idempotent HTTP service that survives kill -9.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

type Bank struct{ dataflow.Process }

type Deposit struct {
	Amount int `json:"amount"`
}

type Receipt struct {
	Amount  int `json:"amount"`
	Balance int `json:"balance"`
}

func build(flow *dataflow.Flow) http.Handler {
	bank := dataflow.At[Bank](flow)
	router := serve.Routes(bank, "bank", serve.Options{Idempotent: &serve.Idempotency{}})
	deposits, made := serve.JSON[Deposit](router, "POST /deposits")

	amounts := keyedsingleton.Map(made, func(r *serve.RequestOf[Deposit]) int { return r.Value.Amount })
	tick := slice.At(bank)
	each := slice.BatchEntries(tick, amounts, "deposits add up in any order")
	balance := slice.Snapshot(tick, dataflow.Sum(keyedsingleton.Values(amounts)), "a receipt has the balance of its moment")
	deposits.Respond(slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(each, balance),
		func(p dataflow.Pair[int, int]) serve.Response {
			return serve.Reply(http.StatusCreated, Receipt{p.First, p.Second})
		})))
	return router
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7360", "`address` of the service")
	flag.Parse()
	app, err := durable.Start(context.Background(), build, durable.Options{Log: natslog.Embedded("bank")})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("bank.pid", fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Handler: app.Ports, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 70 * time.Second, IdleTimeout: time.Minute,
	}
	fmt.Println("deposits at http://" + *listen)
	log.Fatal(server.Serve(listener))
}
