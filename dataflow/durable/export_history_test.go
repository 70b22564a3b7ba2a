package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type exportPorts struct {
	in     *dataflow.KeyedInputPort[string, int]
	sums   *dataflow.EntryOutputPort[string, int]
	asked  *dataflow.EntryOutputPort[string, string]
	second *dataflow.EntryOutputPort[string, int]
}

// exported is a flow with state, asynchronous calls, timers and a second location.
func exported(call func(int) string) func(*dataflow.Flow) exportPorts {
	return func(f *dataflow.Flow) exportPorts {
		in, numbers := keyedstream.Input[string, int](dataflow.At[server](f), "numbers")
		first := keyedstream.First(numbers)
		sums := keyedstream.FoldEarlyStop(numbers, func() int { return 0 }, func(sum *int, n int) bool { *sum += n; return *sum >= 10 })
		asked := keyedsingleton.MapAsync(first, func(_ context.Context, n int) string { return call(n) }, keyedsingleton.AsyncOptions{})
		late := keyedsingleton.After(first, time.Millisecond, "a millisecond is what a test waits")
		return exportPorts{
			in, keyedsingleton.Output(sums, "sums"), keyedsingleton.Output(asked, "asked"),
			keyedsingleton.Output(late, "late"),
		}
	}
}

// digest formats everything that the outputs have for the keys.
func (p exportPorts) digest(keys int) string {
	var b strings.Builder
	for i := range keys {
		k := fmt.Sprint("k", i)
		sum, summed := p.sums.Get(k)
		answer, answered := p.asked.Get(k)
		late, fired := p.second.Get(k)
		fmt.Fprintln(&b, k, sum, summed, answer, answered, late, fired)
	}
	return b.String()
}

// TestExport replays the steps of a durable flow from a file in a flow that is not durable. Every
// output is the same. The answers of calls come from the file.
func TestExport(t *testing.T) {
	const keys = 20
	log := journal.NewMemory(journal.MemoryOptions{})
	build := exported(func(n int) string { return fmt.Sprint("answer ", n) })
	app := start(t, log, build, Options{KeepFor: Forever})
	for i := range 3 * keys {
		if err := app.Ports.in.Send(t.Context(), fmt.Sprint("k", i%keys), i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range keys {
		k := fmt.Sprint("k", i)
		if _, err := app.Ports.asked.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.second.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.sums.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	want := app.Ports.digest(keys)
	stop(t, app)

	h, err := OpenHistory(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var steps []uint64
	for s, err := range h.Steps(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s.Number)
	}
	run := func(file []byte) (digest string) {
		recording, err := recordings.Read(bytes.NewReader(file))
		if err != nil || recording.Note() != "" {
			t.Fatal(err)
		}
		sim.Rerun(t, recording, func(s *sim.Sim) {
			ports := exported(func(int) string {
				s.Errorf("a call is made again")
				return ""
			})(s.Flow())
			s.Start()
			s.Quiesce()
			digest = ports.digest(keys)
		})
		return digest
	}
	var file bytes.Buffer
	if err := h.Export(t.Context(), &file, 0, 0); err != nil {
		t.Fatal(err)
	}
	if got := run(file.Bytes()); got != want || !strings.Contains(got, "k7 ") || strings.Contains(got, "false") {
		t.Errorf("run again from the file, the outputs are\n%s\nand were\n%s", got, want)
	}
	before := ""
	for _, to := range steps { // the history up to a step is a run as well, and grows
		file.Reset()
		if err := h.Export(t.Context(), &file, 0, to); err != nil {
			t.Fatal(err)
		}
		got := run(file.Bytes())
		if strings.Count(got, "true") < strings.Count(before, "true") {
			t.Fatalf("up to step %d there is less than before:\n%s\nbefore\n%s", to, got, before)
		}
		before = got
	}
	if before != want {
		t.Errorf("up to the last step, the outputs are\n%s", before)
	}

	for _, test := range []struct {
		partition int
		to        uint64
		want      string
	}{{1, 0, "there is no partition 1"}, {-1, 0, "there is no partition -1"}, {0, 1 << 40, "has no step"}} {
		if err := h.Export(t.Context(), &file, test.partition, test.to); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("partition %d, step %d: %v", test.partition, test.to, err)
		}
	}
	if err := h.Export(t.Context(), fullDisk{}, 0, 0); !errors.Is(err, errFullDisk) {
		t.Errorf("to a full disk: %v", err)
	}
}

type fullDisk struct{}

var errFullDisk = errors.New("the disk is full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }

// TestExportWithoutBeginning checks that a history whose first steps were purged cannot be
// exported.
func TestExportWithoutBeginning(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	build := times(1)
	for i := range 2 {
		app := start(t, log, build, Options{})
		k := fmt.Sprint("k", i)
		if err := app.Ports.in.Send(t.Context(), k, 1); err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.out, k, 1)
		stop(t, app) // makes a snapshot, and purges the steps
		log = log.Reopen()
	}
	h, err := OpenHistory(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log}}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Export(t.Context(), new(bytes.Buffer), 0, 0); err == nil || !strings.Contains(err.Error(), "durable.Forever") {
		t.Errorf("the beginning is gone: %v", err)
	}
}

// TestExportLong exports 10,000 records, replays their steps, and logs how long that takes.
func TestExportLong(t *testing.T) {
	const steps = 10_000
	log := journal.NewMemory(journal.MemoryOptions{})
	build := times(1)
	app := start(t, log, build, Options{KeepFor: Forever})
	for i := range steps {
		if err := app.Ports.in.Send(t.Context(), fmt.Sprint("k", i), i); err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.out, fmt.Sprint("k", i), i) // so that each record has a step of its own
	}
	stop(t, app)
	h, err := OpenHistory(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var file bytes.Buffer
	began := time.Now()
	if err := h.Export(t.Context(), &file, 0, 0); err != nil {
		t.Fatal(err)
	}
	wrote := time.Now()
	size := file.Len()
	recording, err := recordings.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if n := recording.Steps(); n < steps {
		t.Fatalf("only %d steps", n)
	}
	sim.Rerun(t, recording, func(s *sim.Sim) {
		ports := build(s.Flow())
		s.Start()
		s.Quiesce()
		if n := ports.out.Len(); n != steps {
			s.Errorf("%d entries, want %d", n, steps)
		}
	})
	t.Logf("%d steps in %d bytes: exported in %v, read and run again in %v", recording.Steps(), size, wrote.Sub(began), time.Since(wrote))
}

// TestExportApart checks that a history with an action that no step records, and that only a
// durable flow takes, cannot be exported: in another flow a quarantined timer would fire.
func TestExportApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		build := alarming(func(k string) bool { return k == "bad" }, func(string) bool { return false })
		app := start(t, log, build, Options{KeepFor: Forever})
		for _, k := range []string{"good", "bad"} {
			if err := app.Ports.in.Send(t.Context(), k, 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := app.Ports.sums.Await(t.Context(), "good"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop(t, app)
		h, err := OpenHistory(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		for p := range h.Partitions() {
			if err = h.Export(t.Context(), new(bytes.Buffer), p, 0); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "a timer was quarantined") {
			t.Errorf("a history with a quarantined timer: %v", err)
		}
	})
}
