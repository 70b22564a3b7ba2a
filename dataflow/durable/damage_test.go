package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

var damageAll = flag.Bool("durable.damage", false, "damage each file in each way in TestDamage, with large values too; minutes")

type keptPorts struct {
	in  *dataflow.EntryInputPort[string, string]
	out *dataflow.EntryOutputPort[string, string]
}

func keptProcess(f *dataflow.Flow) keptPorts { return kept(dataflow.At[server](f)) }
func keptCluster(f *dataflow.Flow) keptPorts { return kept(dataflow.At[members](f)) }

func kept[L dataflow.Location](at L) keptPorts {
	in, entries := keyedsingleton.Input[string, string](at, "in")
	return keptPorts{in, keyedsingleton.Output(keyedsingleton.Map(entries, func(s string) string { return "got " + s }), "out")}
}

// damages are the ways to damage a file. Each receives its content now and at two earlier moments, nil if it
// did not exist, and returns the damaged content, nil to remove the file.
var damages = map[string]func(now, early, late []byte) []byte{
	"intact":        func(now, _, _ []byte) []byte { return now },
	"removed":       func(_, _, _ []byte) []byte { return nil },
	"emptied":       func(_, _, _ []byte) []byte { return []byte{} },
	"a quarter":     func(now, _, _ []byte) []byte { return now[:len(now)/4] },
	"end cut":       func(now, _, _ []byte) []byte { return now[:max(0, len(now)-37)] },
	"block zeroed":  func(now, _, _ []byte) []byte { clear(now[len(now)/2 : min(len(now)/2+4096, len(now))]); return now },
	"bit at start":  func(now, _, _ []byte) []byte { return flipped(now, min(100, len(now)/4)) },
	"bit in middle": func(now, _, _ []byte) []byte { return flipped(now, len(now)/2) },
	"bit at end":    func(now, _, _ []byte) []byte { return flipped(now, max(0, len(now)-20)) },
	"early copy":    func(_, early, _ []byte) []byte { return early },
	"late copy":     func(_, _, late []byte) []byte { return late },
}

func flipped(b []byte, at int) []byte {
	if at < len(b) {
		b[at] ^= 4
	}
	return b
}

// TestDamage damages one file of a history, in each way, after a kill or a stop. The flow either starts with
// everything that was acknowledged, or soon fails with an error that says where the history is damaged and
// what to do.
func TestDamage(t *testing.T) {
	const keys = 90
	sizes := []int{100}
	if *damageAll {
		sizes = append(sizes, 150_000) // files of several blocks
	}
	for _, size := range sizes {
		for _, partitions := range []int{1, 4} {
			build := keptProcess
			if partitions > 1 {
				build = keptCluster
			}
			f := damaged{t: t, build: build, partitions: partitions, keys: keys, size: size, root: t.TempDir()}
			f.write()
			for _, ended := range []string{"killed", "stopped"} {
				for _, file := range f.files(ended) {
					for what := range damages {
						small := strings.Contains(file, "meta.") || partitions > 1 && strings.HasSuffix(file, "index.db")
						if *damageAll || !small || what == "removed" || what == "bit in middle" {
							f.try(ended, file, what)
						}
					}
				}
			}
		}
	}
}

// A damaged is a history whose files are damaged. It has copies from an early and a late moment, and from
// after a kill and a stop.
type damaged struct {
	t                      *testing.T
	build                  func(*dataflow.Flow) keptPorts
	partitions, keys, size int
	root                   string
}

func (f *damaged) value(i int) string {
	return strings.Repeat(fmt.Sprint(i, " "), f.size/len(fmt.Sprint(i, " ")))
}

// write makes the histories. A copy of a history in use is what a kill leaves.
func (f *damaged) write() {
	live := filepath.Join(f.root, "live")
	options := quiet(Options{Log: natslog.Embedded(live), Partitions: f.partitions})
	put := func(app *App[keptPorts], from, to int) {
		for i := from; i < to; i++ {
			if err := app.Ports.in.Put(f.t.Context(), fmt.Sprint("k", i), f.value(i)); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	app := start(f.t, nil, f.build, options)
	put(app, 0, f.keys/3)
	stop(f.t, app)
	f.copy("live", "early")
	app = start(f.t, nil, f.build, options)
	put(app, f.keys/3, 2*f.keys/3)
	f.copy("live", "late")
	put(app, 2*f.keys/3, f.keys)
	f.copy("live", "killed")
	stop(f.t, app)
	f.copy("live", "stopped")
}

func (f *damaged) copy(from, to string) string {
	to = filepath.Join(f.root, to)
	if err := os.CopyFS(to, os.DirFS(filepath.Join(f.root, from))); err != nil {
		f.t.Fatal(err)
	}
	return to
}

func (f *damaged) files(ended string) (files []string) {
	err := fs.WalkDir(os.DirFS(filepath.Join(f.root, ended)), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && name != "lock" {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) < 8 {
		f.t.Fatalf("%v: %v", files, err)
	}
	return files
}

func (f *damaged) read(at, file string) []byte {
	b, err := os.ReadFile(filepath.Join(f.root, at, file))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

// try damages a file and starts the flow.
func (f *damaged) try(ended, file, what string) {
	f.t.Helper()
	name := fmt.Sprintf("%d partitions, values of %d, %s, %s: %s", f.partitions, f.size, ended, file, what)
	dir := f.copy(ended, "damaged")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, file)
	is := damages[what](f.read(ended, file), f.read("early", file), f.read("late", file))
	err := os.WriteFile(path, is, 0o600)
	if is == nil {
		err = os.Remove(path)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute) // not part of the test: nothing here takes a second
	defer cancel()
	app, err := Start(ctx, f.build, quiet(Options{Log: natslog.Embedded(dir), Partitions: f.partitions}))
	if err != nil {
		if text := err.Error(); !errors.Is(err, ErrDamaged) || !strings.Contains(text, dir) || !strings.Contains(text, "put back what was lost") || what == "intact" {
			f.t.Errorf("%s: %v", name, err)
		}
		if *damageAll {
			f.t.Logf("%s: refused", name)
		}
		f.salvage(ctx, name, dir, err)
		return
	}
	if *damageAll {
		f.t.Logf("%s: started", name)
	}
	var wrong []string
	for i := range f.keys {
		if v, ok := app.Ports.out.Get(fmt.Sprint("k", i)); !ok || v != "got "+f.value(i) {
			wrong = append(wrong, fmt.Sprint("k", i))
		}
	}
	if len(wrong) > 0 { // acknowledged records that are not taken yet will come
		wrong = slices.DeleteFunc(wrong, func(k string) bool {
			v, err := app.Ports.out.Await(ctx, k)
			return err == nil && v == "got "+f.value(atoi(f.t, k))
		})
	}
	if len(wrong) > 0 {
		f.t.Errorf("%s: started without %d keys", name, len(wrong))
	}
	if err := app.Ports.in.Put(ctx, "new", "x"); err != nil {
		f.t.Errorf("%s: started and takes nothing: %v", name, err)
	} else if v, err := app.Ports.out.Await(ctx, "new"); v != "got x" {
		f.t.Errorf("%s: started and does nothing: %q, %v", name, v, err)
	}
	app.core.abandoned.Store(true) // no snapshot, which is not under test
	if err := app.Stop(ctx); err != nil && !errors.Is(err, ErrStopped) {
		f.t.Logf("%s: stop: %v", name, err)
	}
}

// salvage copies what is left of a refused history and continues the flow with the copy. If the log itself
// cannot be opened, there is nothing to copy and no token.
func (f *damaged) salvage(ctx context.Context, name, dir string, refused error) {
	f.t.Helper()
	var found *DamagedError
	if !errors.As(refused, &found) {
		return
	}
	at, to := Options{Log: natslog.Embedded(dir)}, disklog.Dir(filepath.Join(f.root, "salvaged"))
	defer os.RemoveAll(filepath.Join(f.root, "salvaged"))
	made, err := Salvage(ctx, quiet(at), to, found.Token)
	for another := found; errors.As(err, &another) && another.Token != found.Token; { // several partitions are damaged
		var tokens []string
		for _, x := range made.Lost {
			tokens = append(tokens, x.Token)
		}
		made, err = Salvage(ctx, quiet(at), to, tokens...)
	}
	if err != nil || len(made.Lost) == 0 {
		f.t.Errorf("%s: salvaged: %v, lost %v", name, err, made.Lost)
		return
	}
	app, err := Start(ctx, f.build, quiet(Options{Log: to, Partitions: f.partitions}))
	if err != nil {
		f.t.Errorf("%s: started on what was salvaged: %v", name, err)
		return
	}
	if err := app.Ports.in.Put(ctx, "new", "x"); err != nil {
		f.t.Errorf("%s: what was salvaged takes nothing: %v", name, err)
	} else if v, err := app.Ports.out.Await(ctx, "new"); v != "got x" {
		f.t.Errorf("%s: what was salvaged does nothing: %q, %v", name, v, err)
	}
	there := 0
	for i := range f.keys {
		if v, ok := app.Ports.out.Get(fmt.Sprint("k", i)); ok && v == "got "+f.value(i) {
			there++
		} else if ok {
			f.t.Errorf("%s: what was salvaged has another value of k%d", name, i)
		}
	}
	if *damageAll {
		f.t.Logf("%s: salvaged %d of %d keys, lost %q", name, there, f.keys, made.Lost[0].Lost)
	}
	if err := app.Stop(ctx); err != nil {
		f.t.Errorf("%s: %v", name, err)
	}
}

func atoi(t *testing.T, key string) (n int) {
	if _, err := fmt.Sscanf(key, "k%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
