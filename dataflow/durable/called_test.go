package durable

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// calledPorts output the answers to calls as entries, and as elements in which each answer counts.
type calledPorts struct {
	in      *dataflow.EntryInputPort[string, int]
	answers *dataflow.EntryOutputPort[string, int64]
	each    *dataflow.OutputPort[dataflow.Entry[string, int64]]
}

// calling returns a program that gets its answers from call.
func calling(call func() int64) func(*dataflow.Flow) calledPorts {
	return func(f *dataflow.Flow) calledPorts {
		in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
		answers := keyedsingleton.MapAsync(entries, func(context.Context, int) int64 { return call() }, keyedsingleton.AsyncOptions{})
		return calledPorts{in, keyedsingleton.Output(answers, "answers"), dataflow.Output(keyedsingleton.Entries(answers), "each")}
	}
}

// holding returns a log that holds back commits while hold is set, until the channel is closed.
func holding(hold *atomic.Bool, until chan struct{}) *journal.Memory {
	return journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) journal.Fault {
		if a.Op == journal.OpCommit && !a.Done && hold.Load() {
			return journal.Fault{Until: until}
		}
		return journal.Fault{}
	}})
}

// TestCalledWhenDurable holds the commit of the step that requests a call, and then either
// continues it or crashes the process. It checks that no call is made before its step is durable.
func TestCalledWhenDurable(t *testing.T) {
	for name, crash := range map[string]bool{"goes on": false, "crashes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made atomic.Int64
				var hold atomic.Bool
				until := make(chan struct{})
				log, build := holding(&hold, until), calling(func() int64 { return made.Add(1) })
				app := start(t, log, build, Options{})
				hold.Store(true)
				put := make(chan error, 1)
				go func() { put <- app.Ports.in.Put(t.Context(), "k", 1) }() // waits for the step
				synctest.Wait()
				if n := made.Load(); n != 0 {
					t.Errorf("%d calls were made before the step that asks for them was kept", n)
				}
				hold.Store(false)
				if crash {
					log.Crash()
					<-app.Done()
					app = start(t, log.Reopen(), build, Options{})
				}
				close(until)
				if err := <-put; err != nil && !crash {
					t.Error(err)
				}
				await(t, app.Ports.answers, "k", 1)
				stop(t, app)
				if n := made.Load(); n != 1 {
					t.Errorf("%d calls were made, want one", n)
				}
			})
		})
	}
}

// TestAnsweredOnce crashes the process when an answer is in the log and its step is not yet
// durable. It checks that the next process reads the log before it makes a call again, and that no
// answer counts twice.
func TestAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		var hold atomic.Bool
		log := holding(&hold, make(chan struct{}))
		build := calling(func() int64 {
			hold.Store(made.Load() == 0)
			return made.Add(1)
		})
		app := start(t, log, build, Options{})
		if err := app.Ports.in.Put(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the commit is held
		if _, ok := app.Ports.answers.Get("k"); ok || made.Load() != 1 {
			t.Errorf("%d calls were made, and there is an answer before its step was kept: %v", made.Load(), ok)
		}
		hold.Store(false)
		log.Crash()
		<-app.Done()
		app = start(t, log.Reopen(), build, Options{})
		synctest.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("%d calls were made, want none after the crash", n)
		}
		await(t, app.Ports.answers, "k", 1)
		stop(t, app)
		var each []dataflow.Entry[string, int64]
		for x := range app.Ports.each.All(t.Context()) {
			each = append(each, x)
		}
		if len(each) != 1 || each[0].Value != 1 {
			t.Errorf("the answers that count are %v, want the first alone", each)
		}
	})
}
