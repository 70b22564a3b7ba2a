package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A memoryWitness keeps its data in memory.
type memoryWitness struct {
	mu    sync.Mutex
	data  map[int][]byte
	saves int
	fail  error
	hang  chan struct{} // if not nil, every call waits for it and ignores its context
}

func (w *memoryWitness) Load(_ context.Context, p int) ([]byte, error) {
	w.mu.Lock()
	hang := w.hang
	w.mu.Unlock()
	if hang != nil {
		<-hang
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data[p], w.fail
}

func (w *memoryWitness) Save(_ context.Context, p int, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saves++
	if w.fail == nil && data == nil {
		delete(w.data, p)
	} else if w.fail == nil {
		w.data[p] = data
	}
	return w.fail
}

// has returns the data of a partition and the number of partitions with data.
func (w *memoryWitness) has(p int) (data []byte, partitions int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data[p], len(w.data)
}

// put replaces the data of a partition.
func (w *memoryWitness) put(p int, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data[p] = data
}

func newMemoryWitness() *memoryWitness { return &memoryWitness{data: make(map[int][]byte)} }

// put puts keys and waits until their entries are output.
func put(t *testing.T, app *App[keptPorts], from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := app.Ports.in.Put(t.Context(), fmt.Sprint("k", i), "v"); err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.out, fmt.Sprint("k", i), "got v")
	}
}

// TestWholeFolderOlder replaces the whole folder of a log with a copy from an earlier stop. Without a witness
// the flow starts. With one, each partition in the copy is refused with an error that names it. An operator
// can accept the loss with a salvage.
func TestWholeFolderOlder(t *testing.T) {
	for _, ended := range []string{"stopped", "crashed"} {
		t.Run(ended, func(t *testing.T) {
			root := t.TempDir()
			live, old, elsewhere := filepath.Join(root, "live"), filepath.Join(root, "old"), filepath.Join(root, "elsewhere")
			if err := os.Mkdir(elsewhere, 0o700); err != nil {
				t.Fatal(err)
			}
			o := quiet(Options{Log: disklog.Dir(live), Partitions: 3, Witness: WitnessDir(elsewhere)})
			app := start(t, nil, keptCluster, o)
			put(t, app, 0, 20)
			stop(t, app)
			if err := os.CopyFS(old, os.DirFS(live)); err != nil {
				t.Fatal(err)
			}
			app = start(t, nil, keptCluster, o)
			put(t, app, 20, 40)
			if ended == "crashed" { // after the witness was updated
				app.core.saveSightings(t.Context())
				app.core.abandoned.Store(true)
			}
			stop(t, app)
			app = start(t, nil, keptCluster, o) // an intact history starts
			stop(t, app)
			back := func() {
				if err := errors.Join(os.RemoveAll(live), os.CopyFS(live, os.DirFS(old))); err != nil {
					t.Fatal(err)
				}
			}
			back()
			_, err := Start(t.Context(), keptCluster, o)
			var found *DamagedError
			if !errors.As(err, &found) || found.Token == "" || !strings.Contains(err.Error(), "the history is an older copy: the witness knows step") {
				t.Fatalf("put back: %v", err)
			}
			all, err := Check(t.Context(), o)
			tokens := make([]string, len(all))
			for p, c := range all {
				if !errors.As(c.Err, &found) || found.Partition != p {
					t.Errorf("partition %d: %v", p, c.Err)
				}
				tokens[p] = found.Token
			}
			if err == nil || len(all) != 3 {
				t.Errorf("check: %v of %d partitions", err, len(all))
			}
			to := o
			to.Log = disklog.Dir(filepath.Join(root, "salvaged"))
			if _, err := Salvage(t.Context(), o, disklog.Dir(filepath.Join(root, "refused")), tokens[:2]...); !errors.Is(err, ErrDamaged) {
				t.Errorf("salvage with two of three tokens: %v", err)
			}
			made, err := Salvage(t.Context(), o, to.Log, tokens...)
			if err != nil || len(made.Lost) != 3 || len(made.Lost[0].Lost) == 0 {
				t.Fatalf("salvage: %v, %+v", err, made.Lost)
			}
			for range 2 {
				app = start(t, nil, keptCluster, to)
				for i := range 20 {
					await(t, app.Ports.out, fmt.Sprint("k", i), "got v")
				}
				stop(t, app)
			}
			if _, err := Start(t.Context(), keptCluster, o); err == nil || !strings.Contains(err.Error(), "the witness is that of another history") {
				t.Errorf("the old one, with the witness of what was salvaged: %v", err)
			}
			o.Witness = nil
			app = start(t, nil, keptCluster, o) // as documented: nothing else notices
			put(t, app, 20, 30)
			stop(t, app)
		})
	}
}

// TestWitnessOtherLine continues a history without the witness beyond the step that the witness knows. The
// links are compared while the history still has that step, so an older copy that was continued is refused.
func TestWitnessOtherLine(t *testing.T) {
	for _, c := range []struct {
		keep    time.Duration
		starts  int // after the last update of the witness
		noticed bool
	}{{Forever, 0, true}, {Forever, 1, true}, {Forever, 9, true}, {0, 0, true}, {0, 1, true}, {0, 9, false}} {
		synctest.Test(t, func(t *testing.T) {
			log, w := journal.NewMemory(journal.MemoryOptions{}), newMemoryWitness()
			o := Options{KeepFor: c.keep}
			n := 0
			run := func(w Witness) error {
				o.Witness, o.Log = w, journal.Opened{Log: log}
				app, err := Start(t.Context(), keptProcess, quiet(o))
				if err == nil {
					put(t, app, n, n+3)
					n += 3
					stop(t, app)
				}
				log = log.Reopen()
				return err
			}
			errs := []error{run(nil), run(w)}
			for range c.starts {
				errs = append(errs, run(nil))
			}
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			right, _ := w.has(0)
			other, err := decodeSighting(right)
			if err != nil {
				t.Fatal(err)
			}
			other.link[3] ^= 1
			w.put(0, other.encode())
			if err := run(w); (err != nil) != c.noticed || err != nil && !strings.Contains(err.Error(), "is not the one that the witness knows") {
				t.Errorf("%+v: %v", c, err)
			}
			w.put(0, right)
			if err := run(w); err != nil {
				t.Errorf("%+v: what is right: %v", c, err)
			}
		})
	}
}

// TestWitnessFails has a witness fail and hang, at the start and later. The flow continues, and Health reports
// the failure until the witness works again.
func TestWitnessFails(t *testing.T) {
	for _, how := range []string{"fails", "hangs"} {
		synctest.Test(t, func(t *testing.T) {
			log, w := journal.NewMemory(journal.MemoryOptions{Partitions: 4}), newMemoryWitness()
			set := func(broken bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				switch {
				case how == "fails" && broken:
					w.fail = errors.New("no disk")
				case broken:
					w.hang = make(chan struct{})
				case how == "hangs":
					close(w.hang)
					w.hang = nil
				}
				if !broken {
					w.fail = nil
				}
			}
			set(true)
			began := time.Now()
			app := start(t, log, keptCluster, Options{Witness: w})
			if passed := time.Since(began); passed > witnessWait+time.Second {
				t.Errorf("%s: the start took %v", how, passed)
			}
			at := time.Now()
			put(t, app, 0, 50)
			if passed := time.Since(at); passed > 100*time.Millisecond {
				t.Errorf("%s: 50 entries took %v", how, passed)
			}
			time.Sleep(10 * time.Second)
			if h := app.Health(); h.Witness == nil || h.Ready() != nil {
				t.Errorf("%s: health says %v, %v", how, h.Witness, h.Ready())
			}
			set(false)
			time.Sleep(10 * time.Second)
			_, partitions := w.has(0)
			if h := app.Health(); h.Witness != nil || partitions != 4 {
				t.Errorf("%s: health says %v when it is back, with %d partitions", how, h.Witness, partitions)
			}
			saves := w.saves
			time.Sleep(time.Minute)
			if w.saves != saves {
				t.Errorf("%s: %d saves while nothing was done", how, w.saves-saves)
			}
			set(true)
			put(t, app, 50, 60)
			at = time.Now()
			stop(t, app)
			if passed := time.Since(at); passed > 3*time.Second {
				t.Errorf("%s: the stop took %v", how, passed)
			}
			set(false)
			stop(t, start(t, log.Reopen(), keptCluster, Options{Witness: w}))
		})
	}
}

// TestWitnessKilled kills a flow again and again, before and after the witness is updated. Steps that the
// witness does not know yet do not make the history an older copy.
func TestWitnessKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, w := journal.NewMemory(journal.MemoryOptions{}), newMemoryWitness()
		for i := range 30 {
			app := start(t, log, keptProcess, Options{Witness: w, SnapshotAge: 5 * time.Second})
			put(t, app, 3*i, 3*i+2)
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			put(t, app, 3*i+2, 3*i+3)
			if i%3 == 2 {
				stop(t, app)
			} else {
				log.Crash()
				<-app.Done()
			}
			log = log.Reopen()
		}
	})
}

// TestWitnessLate has another owner update the witness with a later step first. A late update does not
// overwrite it, and in a log for one process it is an error.
func TestWitnessLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, w := journal.NewMemory(journal.MemoryOptions{}), newMemoryWitness()
		app := start(t, log, keptProcess, Options{Witness: w})
		put(t, app, 0, 3)
		time.Sleep(2 * time.Second)
		has, _ := w.has(0)
		later, err := decodeSighting(has)
		if err != nil {
			t.Fatal(err)
		}
		late := later
		later.fence += 100
		w.put(0, later.encode())
		alone := &core{opts: app.core.opts}
		if err := alone.saveSighting(t.Context(), &late); err == nil || !strings.Contains(err.Error(), "older copy") {
			t.Errorf("of one process: %v", err)
		}
		several := &core{opts: app.core.opts, shared: struct{ journal.Shared }{}}
		err = several.saveSighting(t.Context(), &late)
		if has, _ := w.has(0); err != nil || !bytes.Equal(has, later.encode()) {
			t.Errorf("of several: %v, %s", err, has)
		}
		w.put(0, late.encode())
		stop(t, app)
	})
}

// TestWitnessDir flips each bit of a witness's file, and truncates the file to each length.
func TestWitnessDir(t *testing.T) {
	dir := t.TempDir()
	log := journal.NewMemory(journal.MemoryOptions{})
	o := Options{Witness: WitnessDir(dir)}
	app := start(t, log, keptProcess, o)
	put(t, app, 0, 3)
	stop(t, app)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "partition-0" {
		t.Fatalf("%v, %v", files, err)
	}
	file := filepath.Join(dir, "partition-0")
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	load := func(data []byte) error {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadSighting(t.Context(), WitnessDir(dir), log.Identity(), 0)
		return err
	}
	for i := range len(right) * 8 {
		wrong := bytes.Clone(right)
		wrong[i/8] ^= 1 << (i % 8)
		if err := load(wrong); !errors.As(err, new(*witnessError)) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for n := range right {
		if err := load(right[:n]); !errors.As(err, new(*witnessError)) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	_, err = Start(t.Context(), keptProcess, quiet(Options{Log: journal.Opened{Log: log.Reopen()}, Witness: WitnessDir(dir)}))
	if err == nil || !strings.Contains(err.Error(), "what the witness has of partition 0 is damaged") {
		t.Errorf("a damaged witness: %v", err)
	}
	if err := load(right); err != nil {
		t.Error(err)
	}
	stop(t, start(t, log.Reopen(), keptProcess, o))
	for name, c := range map[string]struct{ dir, want string }{
		"gone":      {filepath.Join(dir, "none"), "there is no folder"},
		"a file":    {file, "is not a folder"},
		"in itself": {dir, "is in the folder of the log"},
	} {
		log := disklog.Dir(dir)
		if _, err := Start(t.Context(), keptProcess, quiet(Options{Log: log, Witness: WitnessDir(c.dir)})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := journal.NewMemory(journal.MemoryOptions{})
	if _, err := Start(t.Context(), keptProcess, quiet(Options{Log: journal.Opened{Log: other}, Witness: WitnessDir(dir)})); err == nil || !strings.Contains(err.Error(), "another history") {
		t.Errorf("an empty log in the place of the other: %v", err)
	}
}

// FuzzSighting checks that everything decodeSighting accepts is exactly what encode produces.
func FuzzSighting(f *testing.F) {
	f.Add((&sighting{fence: 812, at: 1e18}).encode())
	f.Add([]byte("millrace-witness 1 x 0 0 x 0 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := decodeSighting(data); err == nil && !bytes.Equal(s.encode(), data) {
			t.Errorf("%q is accepted as %q", data, s.encode())
		}
	})
}
