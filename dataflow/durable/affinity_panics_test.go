package durable

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// An address is placed by its first name. Its method panics on one with fewer than two names, also on the empty one.
type address string

func (p address) Affinity() string {
	names := strings.Split(string(p), "/")
	_ = names[1]
	return names[0]
}

// TestAffinityPanics has the method Affinity of a key panic that a function made. The record that gave the key is quarantined.
func TestAffinityPanics(t *testing.T) {
	type ports struct {
		in  *dataflow.KeyedInputPort[int, string]
		out *dataflow.EntryOutputPort[address, string]
	}
	build := func(f *dataflow.Flow) ports {
		in, texts := keyedstream.Input[int, string](dataflow.At[members](f), "in")
		byAddress := keyedstream.Rekey(texts, func(_ int, s string) address { return address(s) })
		moved := keyedstream.AssumeOrder(keyedstream.Send(byAddress, dataflow.At[ledgers](f)), "one each")
		return ports{in, keyedsingleton.Output(keyedstream.First(moved), "out")}
	}
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 6})
		app := start(t, log, build, Options{Partitions: 3})
		for i, s := range []string{"a/b", "c/d", "bad", "e/f"} {
			if err := app.Ports.in.Send(t.Context(), i, s); err != nil && s != "bad" {
				t.Error(err)
			}
		}
		for _, s := range []address{"a/b", "c/d", "e/f"} {
			await(t, app.Ports.out, s, string(s))
		}
		synctest.Wait()
		log.Crash()
		<-app.Done()
		app = start(t, log.Reopen(), build, Options{Partitions: 3})
		letters, err := app.Quarantine(t.Context())
		if err != nil || len(letters) != 1 || letters[0].Location != "members" || !strings.Contains(letters[0].Reason, "index out of range") {
			t.Errorf("%+v, %v", letters, err)
		}
		stop(t, app)
	})
}

// second returns a time of the tests here, in seconds.
func second(s int) window.Time { return window.Time(s) * window.Time(time.Second) }

// TestAffinityOfMark moves a stream of events by keys whose zero value has no affinity. A mark moves under the zero key.
func TestAffinityOfMark(t *testing.T) {
	type ports struct {
		in     *dataflow.KeyedInputPort[address, int]
		closed *dataflow.EntryOutputPort[window.Key[address], int]
	}
	build := func(f *dataflow.Flow) ports {
		in, seconds := keyedstream.Input[address, int](dataflow.At[server](f), "in")
		events, _ := window.StampKeyed(seconds, second, window.Disorder{}, "sent in order")
		closed, _ := window.Count(keyedstream.Send(events, dataflow.At[members](f)), window.Every(10*time.Second))
		return ports{in, keyedsingleton.Output(closed, "closed")}
	}
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 4}), build, Options{Partitions: 3})
		for s := 1; s < 40; s += 5 {
			if err := app.Ports.in.Send(t.Context(), "a/b", s); err != nil {
				t.Fatal(err)
			}
		}
		await(t, app.Ports.closed, window.Key[address]{Key: "a/b", Span: window.Span{To: second(10)}}, 2)
		stop(t, app)
	})
}

// A fragile key is placed by itself, until that is broken.
type fragile string

var fragileBroken atomic.Bool

func (k fragile) Affinity() string {
	if fragileBroken.Load() {
		panic("broken")
	}
	return string(k)
}

// TestAffinityPanicsOnStored continues a history by a program whose method Affinity panics on each key in it. No step has to be made
// again, so the flow goes on.
func TestAffinityPanicsOnStored(t *testing.T) {
	type ports struct {
		in    *dataflow.KeyedInputPort[fragile, int]
		here  *dataflow.EntryOutputPort[fragile, int]
		there *dataflow.OutputPort[int]
	}
	build := func(f *dataflow.Flow) ports {
		in, vs := keyedstream.Input[fragile, int](dataflow.At[members](f), "in")
		moved := keyedstream.Send(vs, dataflow.At[ledgers](f))
		return ports{in, keyedsingleton.Output(keyedstream.First(vs), "here"), dataflow.Output(keyedstream.Values(moved), "there")}
	}
	synctest.Test(t, func(t *testing.T) {
		fragileBroken.Store(false)
		defer fragileBroken.Store(false)
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 6})
		app := start(t, log, build, Options{Partitions: 3})
		for i, k := range []fragile{"a", "b", "c", "d"} {
			if err := app.Ports.in.Send(t.Context(), k, i); err != nil {
				t.Fatal(err)
			}
			await(t, app.Ports.here, k, i)
		}
		synctest.Wait()
		stop(t, app)
		fragileBroken.Store(true)
		app = start(t, log.Reopen(), build, Options{Partitions: 3})
		seen := 0
		for range 4 {
			d, err := app.Ports.there.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d.Ack()
			seen += d.Value
		}
		if seen != 6 {
			t.Errorf("the sum of what was moved is %d, want 6", seen)
		}
		stop(t, app)
	})
}
