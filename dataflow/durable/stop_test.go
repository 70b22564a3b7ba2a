package durable

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

type stopPorts struct {
	in  *dataflow.InputPort[int]
	out *dataflow.OutputPort[int]
}

// heldUp returns the build function of a flow one of whose functions does not return before goes is closed.
func heldUp(goes <-chan struct{}) func(*dataflow.Flow) stopPorts {
	return func(f *dataflow.Flow) stopPorts {
		in, xs := dataflow.Input[int](dataflow.At[server](f), "in")
		return stopPorts{in, dataflow.Output(dataflow.Inspect(xs, func(int) { <-goes }), "out")}
	}
}

// TestStopDuringFunction stops a flow one of whose functions does not return. Stop waits for its context and not for the
// function. When the function returns, the flow ends, and the next process has what was acknowledged.
func TestStopDuringFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goes := make(chan struct{})
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, heldUp(goes), Options{})
		if err := app.Ports.in.Send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		for n := range 3 { // the context of the last one has ended before the call
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(2-n)*time.Minute)
			err := app.Stop(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStillOpen) {
				t.Errorf("stop %d: %v", n, err)
			}
		}
		if took := time.Since(began); took != 3*time.Minute+3*abortsWithin {
			t.Errorf("the stops took %v", took)
		}
		if _, err := app.Ports.out.Next(t.Context()); err == nil {
			t.Error("there is an output although the step has not ended")
		}
		select {
		case <-app.Done():
			t.Error("the flow has ended although a function runs")
		default:
		}
		close(goes)
		<-app.Done()

		app = start(t, log.Reopen(), heldUp(goes), Options{})
		if x, err := app.Ports.out.Next(t.Context()); x != 1 || err != nil {
			t.Errorf("the next process gives %v, %v", x, err)
		}
		stop(t, app)
	})
}

// TestStartDuringFunction starts a flow whose log has a record with which a function does not return. It catches a Start that
// does not return either, and a log that is free although the function may still take the step.
func TestStartDuringFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goes := make(chan struct{})
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, heldUp(goes), Options{})
		if err := app.Ports.in.Send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		close(goes)
		synctest.Wait()
		app.core.abandoned.Store(true) // without a snapshot, so that the step is replayed
		stop(t, app)

		goes = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := Start(ctx, heldUp(goes), quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStillOpen) {
			t.Errorf("start: %v", err)
		}
		if took := time.Since(began); took != time.Minute+abortsWithin {
			t.Errorf("the start took %v", took)
		}
		close(goes)
		synctest.Wait()

		app = start(t, log.Reopen(), heldUp(goes), Options{})
		if x, err := app.Ports.out.Next(t.Context()); x != 1 || err != nil {
			t.Errorf("the next process gives %v, %v", x, err)
		}
		stop(t, app)
	})
}

// TestStopAgain stops a flow that has ended, with a context that has ended as well: the outcome stays.
func TestStopAgain(t *testing.T) {
	build := func(f *dataflow.Flow) stopPorts {
		in, xs := dataflow.Input[int](dataflow.At[server](f), "in")
		return stopPorts{in, dataflow.Output(xs, "out")}
	}
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), build, Options{})
	stop(t, app)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app.Stop(ctx); err != nil {
		t.Errorf("the flow was stopped, and is stopped again: %v", err)
	}
}
