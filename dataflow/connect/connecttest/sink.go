package connecttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Target is a system that is written. It is empty at first.
type Target[T any, E connect.Effect] struct {
	Sink connect.Sink[T, E]
	// Element returns the element with a number, from 1 on. No two are equal.
	Element func(number uint64) T
	// Read returns what readers of the system see: for an Idempotent sink in any order,
	// otherwise in the order of the lane.
	Read func(t *testing.T) []T
	// Equal compares elements. If it is nil, reflect.DeepEqual does.
	Equal func(a, b T) bool
}

// Sink runs the checks of a sink, each with its own target.
func Sink[T any, E connect.Effect](t *testing.T, target func(t *testing.T) Target[T, E]) {
	_, atomic := any(*new(E)).(connect.Atomic)
	run := func(name string, applies bool, f func(t *testing.T, x Target[T, E])) {
		t.Run(name, func(t *testing.T) {
			if !applies {
				t.Skip("the sink is not Atomic")
			}
			x := target(t)
			if x.Equal == nil {
				x.Equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
			}
			f(t, x)
		})
	}
	run("what is written is there", true, testWritten)
	run("it says what is there when it is opened again", atomic, testReopened)
	run("what does not come next is refused", atomic, testNext)
	run("a writer is shut out when another one opens", atomic, testFenced)
	run("lanes have nothing to do with each other", atomic, testLanes)
	run("a flow that crashes", true, testDrained)
}

var lane = connect.Lane{Flow: "kit", Output: "out", Partition: 0}

func (x Target[T, E]) elements(first uint64, n int) (all []T) {
	for i := range uint64(n) {
		all = append(all, x.Element(first+i))
	}
	return all
}

func (x Target[T, E]) open(t *testing.T, want uint64) connect.Writer[T, E] {
	t.Helper()
	w, last, err := x.Sink.Open(t.Context(), lane)
	if err != nil || last != want {
		t.Fatalf("opened, it has elements up to %d, want %d (%v)", last, want, err)
	}
	return w
}

func (x Target[T, E]) write(t *testing.T, w connect.Writer[T, E], first uint64, n int) {
	t.Helper()
	if _, err := w.Write(t.Context(), first, x.elements(first, n)); err != nil {
		t.Fatalf("writing %d elements from %d on: %v", n, first, err)
	}
}

// holds checks that the target contains the elements up to a number, as often as the effect says, and no others.
func (x Target[T, E]) holds(t *testing.T, last uint64) {
	t.Helper()
	got := x.Read(t)
	times := make([]int, last)
	next := uint64(1)
	for i, v := range got {
		number := uint64(0)
		for n := uint64(1); n <= last; n++ { // the next one first, since it is the likely one
			if m := (next+n-2)%last + 1; x.Equal(v, x.Element(m)) {
				number = m
				break
			}
		}
		if number == 0 {
			t.Fatalf("element %d of what is there, %+v, was not given", i, v)
		}
		times[number-1]++
		switch any(*new(E)).(type) {
		case connect.Atomic:
			if number != next {
				t.Fatalf("element %d of what is there has number %d, want %d", i, number, next)
			}
		case connect.Repeats:
			if number > next && times[number-2] == 0 {
				t.Fatalf("element %d of what is there has number %d, and none has number %d", i, number, number-1)
			}
		}
		next = number + 1
	}
	for i, n := range times {
		if _, repeats := any(*new(E)).(connect.Repeats); n == 0 || n > 1 && !repeats {
			t.Fatalf("the element with number %d is there %d times", i+1, n)
		}
	}
}

func testWritten[T any, E connect.Effect](t *testing.T, x Target[T, E]) {
	w := x.open(t, 0)
	x.write(t, w, 1, 3)
	x.write(t, w, 4, 1)
	x.write(t, w, 5, 20)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	x.holds(t, 24)
}

func testReopened[T any, E connect.Effect](t *testing.T, x Target[T, E]) {
	next := uint64(1)
	for range 5 {
		w := x.open(t, next-1)
		for range rand.IntN(3) {
			n := 1 + rand.IntN(10)
			x.write(t, w, next, n)
			next += uint64(n)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	x.open(t, next-1).Close()
	if next > 1 {
		x.holds(t, next-1)
	}
}

func testNext[T any, E connect.Effect](t *testing.T, x Target[T, E]) {
	for _, first := range []uint64{1, 3, 5} { // two elements again; one again and a new one; a gap
		last := uint64(3)
		if first == 1 {
			x.write(t, x.open(t, 0), 1, 3)
		}
		w := x.open(t, last)
		if _, err := w.Write(t.Context(), first, x.elements(first, 2)); err == nil {
			t.Errorf("elements from number %d on were written behind number %d", first, last)
		}
		_ = w.Close()
		x.holds(t, last)
	}
}

func testFenced[T any, E connect.Effect](t *testing.T, x Target[T, E]) {
	for i, writes := range []int{0, 2} { // writes by the first writer before it is shut out
		first := x.open(t, uint64(5*i))
		next := uint64(5*i) + 1
		for range writes {
			x.write(t, first, next, 1)
			next++
		}
		second := x.open(t, next-1)
		if _, err := first.Write(t.Context(), next, x.elements(next, 2)); !errors.Is(err, connect.ErrFenced) {
			t.Fatalf("after %d writes the error of a writer that was shut out is %v, want connect.ErrFenced", writes, err)
		}
		for next <= uint64(5*i)+5 {
			x.write(t, second, next, 1)
			next++
			if _, err := first.Write(t.Context(), next, x.elements(next, 1)); err == nil {
				t.Fatal("a writer that was shut out writes again")
			}
		}
		_ = first.Close()
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		x.holds(t, uint64(5*i)+5)
	}
}

func testLanes[T any, E connect.Effect](t *testing.T, x Target[T, E]) {
	x.write(t, x.open(t, 0), 1, 5)
	for _, other := range []connect.Lane{{Flow: "kit2", Output: "out"}, {Flow: "kit", Output: "out2"}, {Flow: "kit", Output: "out", Partition: 1}} {
		w, last, err := x.Sink.Open(t.Context(), other)
		if err != nil || last != 0 {
			t.Fatalf("lane %s has elements up to %d (%v)", other, last, err)
		}
		_ = w.Close()
	}
	x.open(t, 5).Close()
}

// testDrained drains a flow whose history crashes after random actions.
func testDrained[T any, E connect.Effect](t *testing.T, x Target[T, E]) {
	const all = 300
	log := journal.NewMemory(journal.MemoryOptions{})
	type ports struct {
		in  *dataflow.InputPort[uint64]
		out *dataflow.OutputPort[T]
	}
	build := func(f *dataflow.Flow) ports {
		in, numbers := dataflow.Input[uint64](dataflow.At[collector](f), "numbers")
		return ports{in, dataflow.Output(dataflow.Map(numbers, x.Element), "out")}
	}
	for crashes := 15; ; crashes-- {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		log.SetHook(nil) // of the previous handle, which may not have crashed
		if crashes > 0 {
			log.SetHook(crashAfter(1 + rand.IntN(25)))
		}
		app, err := durable.Start(ctx, build, durable.Options{Log: journal.Opened{Log: log}})
		if err == nil {
			drains := connect.Drain(ctx, app, app.Ports.out, x.Sink, connect.DrainOptions{Flow: lane.Flow, Output: lane.Output, Most: 1 + rand.IntN(20)})
			for n := uint64(1); n <= all && err == nil; n += 10 {
				at, xs := make([]dataflow.Position, 10), make([]uint64, 10)
				for i := range xs {
					xs[i] = n + uint64(i)
					at[i].Major = xs[i]
				}
				_, err = app.Ports.in.SendBatchAt(ctx, "kit", at, xs)
			}
			for err == nil && app.Err() == nil && ctx.Err() == nil { // until all is written
				if s := drains.Status(); len(s) > 0 && s[0].Number == all {
					break
				}
				select {
				case <-drains.Done():
					if crashes <= 0 {
						t.Fatalf("Drain has ended: %v", drains.Err())
					}
					err = errCrashed
				case <-app.Done():
				case <-time.After(time.Millisecond):
				}
			}
			if ctx.Err() != nil {
				t.Fatalf("not all is written: %+v", drains.Status())
			}
			if crashes <= 0 {
				if err := errors.Join(err, drains.Stop(ctx), app.Stop(ctx)); err != nil {
					t.Fatal(err)
				}
				cancel()
				x.holds(t, all)
				return
			}
			cancel()
			<-app.Done()
			<-drains.Done()
		} else if crashes <= 0 {
			t.Fatal(err)
		}
		cancel()
		log.Crash()
		log = log.Reopen()
	}
}

var errCrashed = errors.New("crashed")
