package sim_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// The history of a run is read by another process than the one that recorded it. There hashes
// differ, and so does everything that depends on them by mistake. The test starts itself, with the
// file name in the environment, and compares digests of the outputs.

const historyFile = "MILLRACE_TEST_HISTORY"

// elsewhere runs this test again in another process, and returns the rest of each line that it
// prints with the prefix "digest ".
func elsewhere(t *testing.T, file string) (digests []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), historyFile+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, d, ok := strings.Cut(line, "digest "); ok {
			digests = append(digests, strings.TrimSpace(d))
		}
	}
	return digests
}

// digestOf returns the same digest in every process.
func digestOf[T any](all []T) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%v", all)))
}

// written writes a recording to a file.
func written(t *testing.T, r *dataflow.Recording) (path string) {
	t.Helper()
	var b bytes.Buffer
	n, err := recordings.Write(&b, r)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d bytes of %d: %v", n, b.Len(), err)
	}
	path = filepath.Join(t.TempDir(), "run.mrh")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An order has fields of every kind that a file might lose.
type order struct {
	Item  string
	Count int64
	At    time.Time
	Tags  []string
	Next  *order
}

// A mart is a flow with several locations and members, and records of structs.
type mart struct {
	orders *dataflow.SharedKeyedInputPort[string, order]
	counts []*dataflow.EntryOutputPort[string, int]
	back   *dataflow.OutputPort[string]
}

func newMart(flow *dataflow.Flow) (m mart) {
	at := dataflow.At[Server](flow)
	orders, all := keyedstream.SharedInput[string, order](at, "orders")
	m.orders = orders
	inOrder := keyedstream.AssumeOrder(all, "the order of arrival is recorded")
	for _, mine := range keyedstream.Divide(inOrder, dataflow.Members[member](flow, 3)) {
		twice := keyedstream.FoldEarlyStop(mine, func() int { return 0 }, func(n *int, o order) bool {
			*n += int(o.Count)
			if o.Next != nil {
				*n += int(o.Next.Count)
			}
			return *n >= 20
		})
		m.counts = append(m.counts, keyedsingleton.Output(twice, "twenty"))
	}
	lines := dataflow.Map(dataflow.AssumeOrder(keyedstream.Entries(inOrder), "as they came"), func(e dataflow.Entry[string, order]) string {
		return fmt.Sprintf("%s %s %v %v", e.Key, e.Value.Item, e.Value.At.UnixNano(), e.Value.Tags)
	})
	m.back = dataflow.Output(dataflow.Send(lines, dataflow.At[Client](flow)), "back")
	return m
}

type member struct{ dataflow.Process }

// outputs returns the content of all outputs of a mart that has ended.
func (m mart) outputs(keys []string, back []string) (all []string) {
	for i, counts := range m.counts {
		for _, k := range keys {
			if n, ok := counts.Get(k); ok {
				all = append(all, fmt.Sprintf("%d %s %d", i, k, n))
			}
		}
	}
	return append(all, back...)
}

// TestRerunElsewhere records a flow with members, structs and several locations, through a
// Recording and through a Recorder. Another process runs the same steps again and gets the same
// outputs. Keys divided by a hash that differs per process would be lost.
func TestRerunElsewhere(t *testing.T) {
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprintf("key %d", i))
	}
	again := func(path string) (digest string) {
		sim.RerunFile(t, path, func(s *sim.Sim) {
			m := newMart(s.Flow())
			s.Start()
			digest = digestOf(m.outputs(keys, sim.Collect(s, m.back)))
		})
		return digest
	}
	if path := os.Getenv(historyFile); path != "" {
		fmt.Println("digest", again(path))
		return
	}
	for _, streamed := range []bool{false, true} {
		var recording dataflow.Recording
		var file bytes.Buffer
		opts := dataflow.Options{Record: &recording}
		if streamed {
			opts = dataflow.Options{Recorder: recordings.NewRecorder(&file)}
		}
		flow := dataflow.NewWithOptions(opts)
		m := newMart(flow)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		var back []string
		read := make(chan struct{})
		go func() {
			defer close(read)
			for line := range m.back.All(t.Context()) {
				back = append(back, line)
			}
		}()
		var senders sync.WaitGroup
		for g := range 4 {
			senders.Go(func() {
				for i := range 100 {
					o := order{Item: "tea", Count: int64(i % 5), At: time.Unix(0, int64(i)*1e9+1).UTC(), Tags: []string{"a", ""}}
					if i%3 == 0 {
						o.Next = &order{Count: 1}
					}
					if err := m.orders.Send(t.Context(), keys[(i*7+g)%len(keys)], o); err != nil {
						t.Error(err)
					}
				}
			})
		}
		senders.Wait()
		m.orders.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		<-read
		var path string
		if streamed {
			if err := opts.Recorder.Close(); err != nil {
				t.Fatal(err)
			}
			path = filepath.Join(t.TempDir(), "run.mrh")
			if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			path = written(t, &recording)
		}
		want := digestOf(m.outputs(keys, back))
		if len(back) != 400 {
			t.Fatalf("%d lines came back", len(back))
		}
		if got := again(path); got != want {
			t.Errorf("streamed %v: run again here, the outputs are %s, and were %s", streamed, got, want)
		}
		if got := elsewhere(t, path); len(got) != 1 || got[0] != want {
			t.Errorf("streamed %v: run again elsewhere, the outputs are %s, and were %s", streamed, got, want)
		}
	}
}

// TestRerunFileOfShop checks that slices, timers, state and asynchronous answers survive a file,
// and that a recording that was read is written again byte for byte.
func TestRerunFileOfShop(t *testing.T) {
	var recording dataflow.Recording
	var produced []string
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording, Queue: 8})
		s := newShop(flow, func(_ context.Context, n int) int { return n * 10 })
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for q := range s.quotes.All(t.Context()) {
				produced = append(produced, q)
			}
		}()
		for i := range 100 {
			time.Sleep(time.Duration(i%3) * time.Millisecond)
			if err := errors.Join(s.orders.Put(t.Context(), i, i), s.prices.Send(t.Context(), -i*1000)); err != nil {
				t.Fatal(err)
			}
		}
		s.orders.Close()
		s.prices.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		<-read
	})
	path := written(t, &recording)
	sim.RerunFile(t, path, func(s *sim.Sim) {
		shop := newShop(s.Flow(), func(context.Context, int) int {
			s.Errorf("a call is made again")
			return 0
		})
		s.Start()
		if got := sim.Collect(s, shop.quotes); !slices.Equal(got, produced) || len(got) != 200 {
			s.Errorf("run again it gives\n%s\nand gave\n%s", strings.Join(got, "\n"), strings.Join(produced, "\n"))
		}
	})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := recordings.Read(bytes.NewReader(file))
	if err != nil || loaded.Steps() != recording.Steps() || loaded.Note() != "" {
		t.Fatal(loaded, err)
	}
	var again bytes.Buffer
	if _, err := recordings.Write(&again, loaded); err != nil || !bytes.Equal(again.Bytes(), file) {
		t.Errorf("read and written again, the file has %d bytes and not %d, or others: %v", again.Len(), len(file), err)
	}
}
