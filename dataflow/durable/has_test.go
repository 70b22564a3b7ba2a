package durable

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// asked are the ports of a flow whose keys the tests look up.
type asked struct {
	in  *dataflow.EntryInputPort[string, int]
	out *dataflow.EntryOutputPort[string, int]
}

func buildAsked(f *dataflow.Flow) asked {
	in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
	return asked{in, keyedsingleton.Output(entries, "out")}
}

func wantHas(t *testing.T, app *App[asked], key string, want bool) {
	t.Helper()
	if got, err := app.Ports.in.Has(t.Context(), key); got != want || err != nil {
		t.Errorf("Has(%q) = %t, %v; want %t", key, got, err, want)
	}
}

// TestHas looks up keys before and after they are put, and after a crash.
func TestHas(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, buildAsked, Options{})
	wantHas(t, app, "a", false)
	wantHas(t, app, "a", false) // a lookup adds nothing
	if err := app.Ports.in.Put(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	wantHas(t, app, "a", true)
	wantHas(t, app, "b", false)
	if err := app.Ports.in.PutNumbered(t.Context(), "till", 1, "b", 2); err != nil {
		t.Fatal(err)
	}
	await(t, app.Ports.out, "b", 2)
	log = log.Reopen() // which ends the first app
	app = start(t, log, buildAsked, Options{})
	wantHas(t, app, "a", true)
	wantHas(t, app, "b", true)
	wantHas(t, app, "c", false)
	if n := app.Ports.out.Len(); n != 2 {
		t.Errorf("%d entries came out, want 2", n)
	}
	stop(t, app)
	if _, err := app.Ports.in.Has(t.Context(), "a"); err == nil {
		t.Error("a flow that has ended says what it has")
	}
}

// TestHasElsewhere looks up in one process the keys that another one put, while the partitions
// change their owners.
func TestHasElsewhere(t *testing.T) {
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "has"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	apps := []*App[asked]{start(t, nil, buildAsked, opts), start(t, nil, buildAsked, opts)}
	check := func(i int) {
		key := fmt.Sprint("k", i)
		if err := apps[i%2].Ports.in.Put(ctx, key, i); err != nil {
			t.Errorf("%s: %v", key, err)
			return
		}
		for _, app := range apps {
			if has, err := app.Ports.in.Has(ctx, key); !has || err != nil {
				t.Errorf("%s was put at %d: Has is %t, %v", key, i%2, has, err)
			}
			if has, err := app.Ports.in.Has(ctx, key+"?"); has || err != nil {
				t.Errorf("%s? was not put: Has is %t, %v", key, has, err)
			}
		}
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { check(i) })
	}
	all.Wait()
	stop(t, apps[0])
	apps = apps[1:]
	for i := range 20 {
		if has, err := apps[0].Ports.in.Has(ctx, fmt.Sprint("k", i)); !has || err != nil {
			t.Errorf("k%d, after its process has left: Has is %t, %v", i, has, err)
		}
	}
	stop(t, apps[0])
}
