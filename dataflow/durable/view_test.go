package durable

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// seat has no natural order, so a view lists its keys in order of appearance.
type seat struct{ Row, Place int }

type viewPorts struct {
	in   *dataflow.KeyedInputPort[seat, string]
	view *dataflow.SingletonOutputPort[dataflow.View[seat, []string]]
}

func viewing(f *dataflow.Flow) viewPorts {
	in, names := keyedstream.Input[seat, string](dataflow.At[server](f), "names")
	lists := keyedstream.Fold(names, func() []string { return nil }, func(l *[]string, name string) { *l = append((*l)[:len(*l):len(*l)], name) })
	return viewPorts{in, singleton.Output(keyedsingleton.IntoSingleton(lists), "view")}
}

// TestViewOutput checks that a view as an output is restored in its order, both from
// steps and from a snapshot.
func TestViewOutput(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, viewing, Options{})
	want := ""
	see := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var last dataflow.View[seat, []string]
		for v := range app.Ports.view.Watch(ctx) {
			if last = v; v.String() == want {
				return
			}
		}
		t.Fatalf("the view is %v, want %s", last, want)
	}
	for i, name := range []string{"ada", "bob", "cy", "dee"} {
		if err := app.Ports.in.Send(t.Context(), seat{2 - i%2, 1}, name); err != nil {
			t.Fatal(err)
		}
		want = []string{"{{2 1}:[ada]}", "{{2 1}:[ada] {1 1}:[bob]}", "{{2 1}:[ada cy] {1 1}:[bob]}", "{{2 1}:[ada cy] {1 1}:[bob dee]}"}[i]
		see()
		if i%2 == 0 {
			log.Crash()
			<-app.Done()
		} else {
			stop(t, app)
		}
		log = log.Reopen()
		app = start(t, log, viewing, Options{})
		see()
	}
	stop(t, app)
}

// TestViewRefused checks that a view of a type that cannot be encoded is refused when the
// flow is built.
func TestViewRefused(t *testing.T) {
	build := func(f *dataflow.Flow) *dataflow.SingletonOutputPort[dataflow.View[string, error]] {
		_, in := dataflow.Input[int](dataflow.At[server](f), "in")
		return singleton.Output(singleton.Map(dataflow.Count(in), func(int) (none dataflow.View[string, error]) { return none }), "view")
	}
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "cannot be kept: error is an interface") {
			t.Errorf("a view of errors: %s", v)
		}
	}()
	_, err := Start(t.Context(), build, Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}})
	t.Errorf("a view of errors is accepted: %v", err)
}
