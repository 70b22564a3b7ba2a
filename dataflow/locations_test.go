package dataflow_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestTwoLocations ends two locations one after the other. The flow ends with the last one, but an
// output of the first ends with the first.
func TestTwoLocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		one, two := dataflow.At[server](flow), dataflow.At[client](flow)
		in1, s1 := dataflow.Input[int](one, "one")
		in2, s2 := dataflow.Input[int](two, "two")
		out1, out2 := dataflow.Output(s1, "one"), dataflow.Output(s2, "two")
		app := start(t, flow)
		in1.Send(t.Context(), 1)
		in1.Close()
		if x, err := out1.Next(t.Context()); x != 1 || err != nil {
			t.Errorf("one: %d, %v", x, err)
		}
		if _, err := out1.Next(t.Context()); err != io.EOF {
			t.Errorf("one ended with %v", err)
		}
		synctest.Wait()
		select {
		case <-app.Done():
			t.Error("the flow ended with its first location")
		default:
		}
		in2.Send(t.Context(), 2)
		in2.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
		if x, err := out2.Next(t.Context()); x != 2 || err != nil {
			t.Errorf("two: %d, %v", x, err)
		}
	})
}

// TestFailureOfOneLocation checks that a failure at one location ends the other one, too.
func TestFailureOfOneLocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in1, s1 := dataflow.Input[int](dataflow.At[server](flow), "one")
		in2, s2 := dataflow.Input[int](dataflow.At[client](flow), "two")
		dataflow.Map(s1, bomb)
		out := dataflow.Output(s2, "two")
		app := start(t, flow)
		next := make(chan error)
		go func() { _, err := out.Next(t.Context()); next <- err }()
		in1.Send(t.Context(), 0)
		err := app.Wait()
		var e *dataflow.StepError
		if !errors.As(err, &e) || e.Location != "server" {
			t.Fatal(err)
		}
		if got := <-next; got != err {
			t.Errorf("Next returned %v", got)
		}
		if got := in2.Send(t.Context(), 1); got != err {
			t.Errorf("Send returned %v", got)
		}
	})
}

// TestTimerWhileStalled lets a deadline pass while nobody reads. The timer fires when the location resumes.
func TestTimerWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Buffer: 1})
		at := dataflow.At[server](flow)
		in, jobs := keyedsingleton.Input[string, int](at, "jobs")
		numbers, xs := dataflow.Input[int](at, "numbers")
		late := keyedsingleton.Output(keyedsingleton.After(jobs, time.Second, why), "late")
		out := dataflow.Output(xs, "numbers")
		app := start(t, flow)
		in.Put(t.Context(), "a", 1)
		numbers.SendBatch(t.Context(), []int{1, 2})
		<-time.After(time.Minute)
		if late.Len() != 0 {
			t.Error("a stalled location handled a timer")
		}
		out.Next(t.Context())
		out.Next(t.Context())
		if x, err := late.Await(t.Context(), "a"); x != 1 || err != nil {
			t.Errorf("got %d, %v", x, err)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
