package main

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) { page.Picture(t, func(flow *dataflow.Flow) { newKeeper(flow) }) }

// TestTimes checks when leases end: a renewed lease runs from its renewal, and a queued client
// gets a full lease of its own.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		k := newKeeper(flow)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ask := func(client, kind string, of token) {
			r := request{Kind: kind, Lock: "l", For: 10 * time.Second, Token: of}
			if err := k.requests.Send(t.Context(), client, r); err != nil {
				t.Fatal(err)
			}
		}
		ask("ann", acquire, 0)
		ask("bob", acquire, 0)
		ask("bob", acquire, 0) // already queued
		time.Sleep(6 * time.Second)
		ask("ann", renew, 1)
		ask("bob", release, 1) // the lease is not his
		var got []string
		for range 8 {
			e, err := k.notices.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(time.Since(begin).Round(time.Second), " ", e.Value))
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"6s ann granted, token 1", "6s bob queued, token 1", "6s bob refused, token 0", // read only after the sleep
			"6s ann renewed, token 1", "6s bob refused, token 1",
			"16s ann expired, token 1", "16s bob granted, token 2", "26s bob expired, token 2",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestStore checks that a guarded resource refuses exactly the clients whose token is older than
// the newest one it has received.
func TestStore(t *testing.T) {
	var s store
	for _, test := range []struct {
		with token
		ok   bool
	}{{1, true}, {1, true}, {3, true}, {2, false}, {3, true}, {4, true}} {
		if err := s.write(test.with); (err == nil) != test.ok {
			t.Errorf("writing with token %d: %v", test.with, err)
		}
	}
}
