package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	ctx := context.Background()
	flow := dataflow.New()
	ports := Build(flow)
	app, err := dataflow.Start(ctx, flow)
	check(err)
	for _, r := range []struct {
		id     string
		second int
	}{{"ann", 7}, {"bob", 7}, {"cid", 8}, {"bob", 8}, {"dan", 8}} {
		again := ports.Requests.Put(ctx, r.id, r.second)
		if !errors.Is(again, dataflow.ErrDuplicateKey) {
			check(again)
		}
		answer, err := ports.Answers.Await(ctx, r.id)
		check(err)
		switch {
		case again != nil:
			fmt.Printf("%s asked before, in second %d: %t\n", r.id, answer.Second, answer.Passes)
		case answer.Passes:
			fmt.Printf("%s passes in second %d\n", r.id, answer.Second)
		default:
			fmt.Printf("%s is refused in second %d\n", r.id, answer.Second)
		}
	}
	check(app.Stop(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
