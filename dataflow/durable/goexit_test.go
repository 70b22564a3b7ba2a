package durable

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestFunctionThatFails checks that a function that panics or calls Goexit, in a step or
// in an asynchronous call, ends a durable flow with an error that names the operator, and
// that no call waits forever.
func TestFunctionThatFails(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	ways := map[string]func(){"panic": func() { panic("no funds") }, "Goexit": runtime.Goexit}
	for way, fail := range ways {
		fails := func(x int) int {
			if x == 0 {
				fail()
			}
			return x
		}
		builds := map[string]func(f *dataflow.Flow) ports{
			"keyedsingleton.Map": func(f *dataflow.Flow) ports {
				in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
				return ports{in, keyedsingleton.Output(keyedsingleton.Map(entries, fails), "out")}
			},
			"keyedsingleton.MapAsync": func(f *dataflow.Flow) ports {
				in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
				answers := keyedsingleton.MapAsync(entries, func(_ context.Context, x int) int { return fails(x) }, keyedsingleton.AsyncOptions{})
				return ports{in, keyedsingleton.Output(answers, "out")}
			},
		}
		for op, build := range builds {
			t.Run(op+" "+way, func(t *testing.T) {
				app := start(t, journal.NewMemory(journal.MemoryOptions{}), build, Options{EndOnFailure: true})
				if err := app.Ports.in.Put(t.Context(), "a", 1); err != nil {
					t.Fatal(err)
				}
				await(t, app.Ports.out, "a", 1)
				err := app.Ports.in.Put(t.Context(), "b", 0)
				if op == "keyedsingleton.Map" || err != nil { // an asynchronous call may end the flow only after Put has returned
					check(t, "Put", err, op, way)
				}
				_, err = app.Ports.out.Await(t.Context(), "b")
				check(t, "Await", err, op, way)
				<-app.Done()
				check(t, "Err", app.Err(), op, way)
				check(t, "Stop", app.Stop(t.Context()), op, way)
				check(t, "a later Put", app.Ports.in.Put(t.Context(), "c", 1), op, way)
			})
		}
	}
}

func check(t *testing.T, where string, err error, op, way string) {
	t.Helper()
	var step *dataflow.StepError
	if !errors.As(err, &step) || step.Op != op || step.Key != "b" || way == "Goexit" && !strings.Contains(err.Error(), "runtime.Goexit") {
		t.Errorf("%s: %v", where, err)
	}
}
