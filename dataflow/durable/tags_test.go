package durable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

type taggedPorts struct {
	in    *dataflow.KeyedInputPort[string, int]
	total *dataflow.SingletonOutputPort[string]
}

// taggedSums returns a flow that keeps a sum of type T for each key, in a table, as an entry of an output, in a view and as a value.
func taggedSums[T any](add func(*T, int), where string) func(*dataflow.Flow) taggedPorts {
	return func(f *dataflow.Flow) taggedPorts {
		in, votes := keyedstream.Input[string, int](dataflow.At[server](f), "votes")
		none := func() (x T) { return x }
		p := taggedPorts{in: in}
		switch where {
		case "table":
			dataflow.Named("sum", keyedstream.Fold(votes, none, add))
		case "output":
			done := keyedstream.FoldEarlyStop(votes, none, func(x *T, n int) bool { add(x, n); return true })
			keyedsingleton.Output(dataflow.Named("sum", keyedsingleton.Map(done, func(x T) []T { return []T{x} })), "sums")
		case "view":
			dataflow.Named("sum", keyedsingleton.IntoSingleton(keyedstream.Fold(votes, none, add)))
		case "value":
			singleton.Output(dataflow.Named("sum", dataflow.Fold(dataflow.AssumeOrder(keyedstream.Values(votes), "one sender"), none, add)), "sum")
		}
		p.total = singleton.Output(singleton.Map(dataflow.Count(keyedstream.Values(votes)), func(n int) string { return fmt.Sprint(n) }), "count")
		return p
	}
}

// addedTo starts a flow, sends a number, waits until it was taken, and stops the flow.
func addedTo[T any](t *testing.T, log *journal.Memory, where string, add func(*T, int), upgrade ...Change) error {
	t.Helper()
	app, err := Start(t.Context(), taggedSums(add, where), quiet(Options{Log: journal.Opened{Log: log.Reopen()}, Upgrade: upgrade}))
	if err != nil {
		return err
	}
	before, _ := app.Ports.total.Latest()
	if err := app.Ports.in.Send(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	for now := range app.Ports.total.Watch(t.Context()) {
		if now != before {
			break
		}
	}
	stop(t, app)
	return nil
}

// TestTags changes the tag of a field between two starts. What was kept under the earlier name must not be lost silently.
func TestTags(t *testing.T) {
	first := func(t *testing.T, log *journal.Memory, where string) {
		type sum struct {
			Total int
			By    map[string]int
		}
		if err := addedTo(t, log, where, func(s *sum, n int) { s.Total, s.By = s.Total+n, map[string]int{"a": n} }); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		second  func(t *testing.T, log *journal.Memory, where string) error
		refused bool
	}{
		"the same": {func(t *testing.T, log *journal.Memory, where string) error {
			type sum struct {
				Total int
				By    map[string]int
			}
			return addedTo(t, log, where, func(s *sum, n int) { s.Total += n })
		}, false},
		"another case": {func(t *testing.T, log *journal.Memory, where string) error { // is decoded
			type sum struct {
				Total int            `json:"total"`
				By    map[string]int `json:"by,omitempty"`
			}
			return addedTo(t, log, where, func(s *sum, n int) { s.Total += n })
		}, false},
		"another name": {func(t *testing.T, log *journal.Memory, where string) error {
			type sum struct {
				Total int `json:"all"`
				By    map[string]int
			}
			return addedTo(t, log, where, func(s *sum, n int) { s.Total += n })
		}, true},
		"another name, and a new field": {func(t *testing.T, log *journal.Memory, where string) error {
			type sum struct {
				Total int `json:"all"`
				By    map[string]int
				Last  int
			}
			return addedTo(t, log, where, func(s *sum, n int) { s.Total += n })
		}, true},
		"another name of a field that is dropped": {func(t *testing.T, log *journal.Memory, where string) error {
			type sum struct {
				Total int `json:"all"`
				By    map[string]int
			}
			return addedTo(t, log, where, func(s *sum, n int) { s.Total += n }, DropField("sum", "Total"), DropField("output sums", "Total"), DropField("output sum", "Total"),
				DropField("keyedstream.Fold[table(string,durable.sum)]@{input votes}", "Total"), DropField("keyedstream.FoldEarlyStop[table(string,early durable.sum)]@{input votes}", "Total"))
		}, false},
	} {
		for _, where := range []string{"table", "output", "view", "value"} {
			t.Run(name+" in a "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := journal.NewMemory(journal.MemoryOptions{})
					first(t, log, where)
					err := test.second(t, log, where)
					if !test.refused && err != nil || test.refused && (!errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `"Total": 1`)) {
						t.Errorf("%v", err)
					}
				})
			})
		}
	}
}
