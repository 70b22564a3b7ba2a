// Command replicas keeps values at several replicas, and writes and reads them at as many as it takes.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	ctx := context.Background()
	flow := dataflow.New()
	s := newStore(flow, 3, quorum{Write: 2, Read: 2})
	app, err := dataflow.Start(ctx, flow)
	check(err)

	number := 0
	ask := func(r request) version {
		number++
		r.Number = number
		check(s.requests.Send(ctx, r))
		answer, err := s.answers.Await(ctx, number)
		check(err)
		return answer.Latest
	}
	put := func(key string, value int) {
		has := ask(request{Key: key, Write: true, Value: value})
		fmt.Printf("put %s: two of three replicas have %d, of request %d\n", key, has.Value, has.Number)
	}
	get := func(key string) {
		if has := ask(request{Key: key}); has.Number == 0 {
			fmt.Printf("get %s: nobody has written it\n", key)
		} else {
			fmt.Printf("get %s: %d, of request %d\n", key, has.Value, has.Number)
		}
	}

	put("tea", 250)
	put("rice", 900)
	put("tea", 275)
	get("tea")
	get("rice")
	get("salt")
	check(app.Stop(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
