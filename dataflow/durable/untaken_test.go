package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestUntaken checks that the flow warns when an output holds many entries, and at each doubling.
func TestUntaken(t *testing.T) {
	defer func(n int) { manyEntries = n }(manyEntries)
	manyEntries = 10
	synctest.Test(t, func(t *testing.T) {
		var text safeBuffer
		o := Options{SnapshotBytes: 1, Logger: slog.New(slog.NewTextHandler(&text, nil))}
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), keptProcess, o)
		for i := range 45 {
			put(t, app, i, i+1)
			synctest.Wait()
			if want, got := map[bool]int{true: 1}[i >= 9]+map[bool]int{true: 1}[i >= 19]+map[bool]int{true: 1}[i >= 39], strings.Count(text.String(), "nobody takes"); got < want-1 || got > want {
				t.Fatalf("%d warnings with %d entries", got, i+1)
			}
		}
		stop(t, app)
		if got := strings.Count(text.String(), "nobody takes"); got != 3 || !strings.Contains(text.String(), "output=out") {
			t.Errorf("%d warnings:\n%s", got, text.String())
		}
	})
}

// briefly returns a flow that outputs the first number of each key. Its output forgets entries that are not
// taken within ttl.
func briefly(ttl time.Duration) func(*dataflow.Flow) timesPorts {
	return func(f *dataflow.Flow) timesPorts {
		in, numbers := keyedstream.Input[string, int](dataflow.At[server](f), "numbers")
		first := keyedstream.First(keyedstream.AssumeOrder(numbers, "each key has one"))
		return timesPorts{in, keyedsingleton.Output(keyedsingleton.ForgetAfter(first, ttl, "nobody comes for an answer later"), "answers")}
	}
}

// TestForgottenOutputs has an output forget its entries: after restarts with and without a snapshot, and while
// the flow is down. A forgotten entry does not come again.
func TestForgottenOutputs(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{})
			build := briefly(time.Hour)
			app := start(t, log, build, Options{SnapshotAge: time.Minute})
			restart := func(pause time.Duration) {
				if graceful {
					stop(t, app)
				} else {
					log.Crash()
					<-app.Done()
				}
				time.Sleep(pause)
				log = log.Reopen()
				app = start(t, log, build, Options{SnapshotAge: time.Minute})
			}
			send := func(i int) {
				if err := app.Ports.in.Send(t.Context(), fmt.Sprint("k", i), i); err != nil {
					t.Fatal(err)
				}
			}
			want := func(n int) {
				t.Helper()
				time.Sleep(time.Second)
				synctest.Wait()
				if got, unread := app.Ports.out.Len(), app.Status()[0].Outputs[0].Unread; got != n || unread != n {
					t.Errorf("graceful %v: the port has %d entries, and the partition %d, want %d", graceful, got, unread, n)
				}
			}
			send(0)
			want(1)
			time.Sleep(30 * time.Minute)
			send(1)
			restart(0)
			want(2)
			time.Sleep(31 * time.Minute)
			want(1)
			restart(0)
			want(1)
			restart(31 * time.Minute) // the entry is forgotten when the flow starts
			want(0)
			send(0) // the key is already completed
			want(0)
			restart(0)
			want(0)
			stop(t, app)
		})
	}
}

// TestForgottenElsewhere checks that another process no longer gets an entry that the owner forgot.
func TestForgottenElsewhere(t *testing.T) {
	build := briefly(500 * time.Millisecond)
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "forgets", Partitions: 1}
	owner := start(t, nil, build, opts)
	opts.Client = true
	client := start(t, nil, build, opts)
	if err := client.Ports.in.Send(t.Context(), "k", 7); err != nil {
		t.Fatal(err)
	}
	await(t, owner.Ports.out, "k", 7)
	for deadline := time.After(20 * time.Second); owner.Ports.out.Len() > 0; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatal("it is not forgotten")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if v, err := client.Ports.out.Await(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it was forgotten, and another process has %d, %v", v, err)
	}
	stop(t, client)
	stop(t, owner)
}
