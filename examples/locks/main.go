// Command locks gives a lock to one client at a time, for as long as its lease runs.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	ctx, flow := context.Background(), dataflow.New()
	k := newKeeper(flow)
	app, err := dataflow.Start(ctx, flow)
	check(err)

	ask := func(client, kind string, length time.Duration, of token) {
		fmt.Printf("%s: %s\n", client, kind)
		check(k.requests.Send(ctx, client, request{Kind: kind, Lock: "ledger", For: length, Token: of}))
	}
	hear := func(notices int) {
		for range notices {
			e, err := k.notices.Next(ctx)
			check(err)
			fmt.Printf("  %s: %s\n", e.Key, e.Value)
		}
	}
	var ledger store
	write := func(client string, with token) {
		if err := ledger.write(with); err != nil {
			fmt.Printf("%s: cannot write: %v\n", client, err)
			return
		}
		fmt.Printf("%s: writes\n", client)
	}

	ask("ann", acquire, time.Minute, 0)
	ask("bob", acquire, 20*time.Millisecond, 0)
	ask("cid", acquire, time.Minute, 0)
	hear(3)
	write("ann", 1)
	ask("ann", renew, time.Minute, 1)
	ask("ann", release, 0, 1)
	hear(3)
	hear(2) // bob falls asleep: his lease ends by the clock
	write("cid", 3)
	write("bob", 2) // bob wakes up and does not know
	ask("bob", renew, time.Minute, 2)
	ask("cid", release, 0, 3)
	hear(2)
	check(app.Stop(ctx))
}

// A store is what a lock guards. It does not know the keeper, only the tokens: a client that was
// asleep when its lease ended is refused, because somebody with a larger token came before it.
type store struct{ newest token }

func (s *store) write(t token) error {
	if t < s.newest {
		return fmt.Errorf("token %d is older than %d", t, s.newest)
	}
	s.newest = t
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
