package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
)

type audit struct{ dataflow.Process }

// TestPortsShowAStepFirst has many clients put entries. When an asynchronous call or
// another location receives an entry, the ports must already show the whole step of the
// entry. When a caller has awaited the entry at one port, all other ports must show it.
func TestPortsShowAStepFirst(t *testing.T) {
	const clients, each = 16, 40
	type ports struct {
		in                     *dataflow.EntryInputPort[int, string]
		first, last, ans, over *dataflow.EntryOutputPort[int, string]
		count                  *dataflow.SingletonOutputPort[int]
		view                   *dataflow.SingletonOutputPort[dataflow.View[int, string]]
	}
	var app atomic.Pointer[durable.App[ports]]
	started := make(chan struct{})
	var missing [3]atomic.Int64 // in calls, at the other location, at other ports
	build := func(flow *dataflow.Flow) (p ports) {
		at := dataflow.At[Server](flow)
		in, entries := keyedsingleton.Input[int, string](at, "in")
		p.in = in
		p.first = keyedsingleton.Output(entries, "first")
		for i := range 12 { // these outputs take long to decode
			keyedsingleton.Output(keyedsingleton.Map(entries, func(s string) string { return fmt.Sprint(s, i) }), fmt.Sprint("other ", i))
		}
		p.last = keyedsingleton.Output(entries, "last")
		p.count = singleton.Output(keyedsingleton.KeyCount(entries), "count")
		p.view = singleton.Output(keyedsingleton.IntoSingleton(entries), "view")
		keys := keyedsingleton.MapWithKey(entries, func(k int, _ string) int { return k })
		p.ans = keyedsingleton.Output(keyedsingleton.MapAsync(keys, func(_ context.Context, k int) string {
			<-started
			if _, ok := app.Load().Ports.last.Get(k); !ok {
				missing[0].Add(1)
			}
			return "asked"
		}, keyedsingleton.AsyncOptions{}), "answers")
		p.over = keyedsingleton.Output(keyedsingleton.Send(entries, dataflow.At[audit](flow)), "over there")
		return p
	}
	a, err := durable.Start(t.Context(), build, durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop(context.Background())
	app.Store(a)
	close(started)
	p := a.Ports
	look := func(k int, at *atomic.Int64) {
		view, _ := p.view.Latest()
		_, viewed := view.Get(k)
		_, ok := p.last.Get(k)
		if count, _ := p.count.Latest(); !viewed || !ok || count < 1 {
			at.Add(1)
		}
	}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				k := c*each + i
				if err := p.in.Put(t.Context(), k, strings.Repeat("x", 200)); err != nil {
					t.Error(err)
				}
				if _, err := p.first.Await(t.Context(), k); err != nil {
					t.Error(err)
				}
				look(k, &missing[2])
			}
		})
	}
	wg.Go(func() {
		for k := range clients * each {
			if _, err := p.over.Await(t.Context(), k); err != nil {
				t.Error(err)
			}
			look(k, &missing[1])
		}
	})
	wg.Wait()
	for k := range clients * each {
		if _, err := p.ans.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	for i, where := range []string{"an asynchronous call", "another location", "another port"} {
		if n := missing[i].Load(); n > 0 {
			t.Errorf("%d of %d entries were seen in %s before the ports showed their step", n, clients*each, where)
		}
	}
}

// TestPanicPublishesNothing has a function panic in the middle of a step. No port shows
// any value of this step, and values shown before remain.
func TestPanicPublishesNothing(t *testing.T) {
	type ports struct {
		in            *dataflow.EntryInputPort[int, int]
		before, after *dataflow.EntryOutputPort[int, int]
		count         *dataflow.SingletonOutputPort[int]
	}
	app, err := durable.Start(t.Context(), func(flow *dataflow.Flow) (p ports) {
		in, entries := keyedsingleton.Input[int, int](dataflow.At[Server](flow), "in")
		p.in = in
		p.before = keyedsingleton.Output(entries, "before")
		p.count = singleton.Output(keyedsingleton.KeyCount(entries), "count")
		p.after = keyedsingleton.Output(keyedsingleton.Map(entries, func(n int) int {
			if n == 1 {
				panic("one")
			}
			return n
		}), "after")
		return p
	}, durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler), EndOnFailure: true})
	if err != nil {
		t.Fatal(err)
	}
	p := app.Ports
	if err := p.in.Put(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	_ = p.in.Put(t.Context(), 1, 1) // kept, or refused because the flow has ended
	<-app.Done()
	if app.Err() == nil {
		t.Error("the flow ended without an error")
	}
	if c, _ := p.count.Latest(); c != 1 || p.before.Len() != 1 || p.after.Len() != 1 {
		t.Errorf("count %d, entries %d and %d; want 1 of each", c, p.before.Len(), p.after.Len())
	}
}
