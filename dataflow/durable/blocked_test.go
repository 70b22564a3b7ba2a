package durable

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// warnings collects the errors that the goroutines of a flow pass to
// dataflow.Options.OnBlocked.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) add(e *dataflow.BlockedError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, e.Error())
}

// take returns the warnings since the last take.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// TestForgottenOutput checks that the ports of a durable flow name the unread output, as
// those of any other flow do, before and after a restart.
func TestForgottenOutput(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[int, int]
		out *dataflow.EntryOutputPort[int, int]
	}
	build := func(f *dataflow.Flow) ports {
		in, entries := keyedsingleton.Input[int, int](dataflow.At[server](f), "in")
		dataflow.Output(keyedsingleton.Values(entries), "debug")
		return ports{in, keyedsingleton.Output(entries, "out")}
	}
	const words = `^dataflow: location server is stopped: output "debug" \(blocked_test.go:\d+\) has 5 unread elements, and 4 may wait: read it, or do not make it`
	synctest.Test(t, func(t *testing.T) {
		var warned warnings
		opts := Options{Flow: dataflow.Options{Buffer: 4, OnBlocked: warned.add}}
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, build, opts)
		for i := range 5 {
			if err := app.Ports.in.Put(t.Context(), i, i); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			put := app.Ports.in.Put(ctx, 5, 5)
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
			_, awaited := app.Ports.out.Await(ctx, 5)
			cancel()
			for what, err := range map[string]error{"Put": put, "Await": awaited} {
				var e *dataflow.BlockedError
				if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || !regexp.MustCompile(words).MatchString(err.Error()) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if told := warned.take(); len(told) != 1 || !regexp.MustCompile(words).MatchString(told[0]) {
				t.Errorf("told %q", told)
			}
			stop(t, app)
			log = log.Reopen()
			app = start(t, log, build, opts)
		}
		stop(t, app)
	})
}
