package disklog_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

var damageAll = flag.Bool("damage", false, "try more damages in TestDamage, and say what becomes of each")

// damages are the ways to damage a file. Each returns the damaged content, nil to remove the file.
var damages = map[string]func([]byte) []byte{
	"intact":        func(b []byte) []byte { return b },
	"removed":       func([]byte) []byte { return nil },
	"emptied":       func([]byte) []byte { return []byte{} },
	"block zeroed":  func(b []byte) []byte { clear(b[len(b)/2 : min(len(b)/2+4096, len(b))]); return b },
	"end zeroed":    func(b []byte) []byte { clear(b[max(0, used(b)-4096):]); return b },
	"end cut":       func(b []byte) []byte { return b[:max(0, used(b)-37)] },
	"half cut":      func(b []byte) []byte { return b[:used(b)/2] },
	"bit at start":  func(b []byte) []byte { return flipped(b, min(20, len(b)/4)) },
	"bit in middle": func(b []byte) []byte { return flipped(b, used(b)/2) },
	"bit at end":    func(b []byte) []byte { return flipped(b, max(0, used(b)-10)) },
}

// rarely are damages that resemble others.
var rarely = []string{"emptied", "half cut", "end zeroed"}

// used returns where the zeros at the end of a file begin.
func used(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }

func flipped(b []byte, at int) []byte {
	if at < len(b) {
		b[at] ^= 4
	}
	return b
}

// A past is what a log has acknowledged to its callers.
type past struct {
	records [damagedPartitions][]string
	after   [damagedPartitions]uint64 // the last purged position
	steps   [damagedPartitions][]journal.Step
	state   [damagedPartitions]string // the snapshot; its step is not in steps
	fence   [damagedPartitions]uint64
	at      [damagedPartitions]uint64 // of the snapshot
}

const damagedPartitions = 3

// live runs all operations at random.
func (k *past) live(ctx context.Context, l *disklog.Log, rounds int, rng *rand.Rand) error {
	for range rounds {
		p := rng.IntN(damagedPartitions)
		switch rng.IntN(8) {
		default:
			record := fmt.Sprint(len(k.records[p]), " ", noise(rng, rng.IntN(3000)))
			if rng.IntN(60) == 0 {
				record += noise(rng, 300<<10)
			}
			if _, err := l.Append(ctx, p, []byte(record)); err != nil {
				return err
			}
			k.records[p] = append(k.records[p], record)
		case 0, 1, 2:
			data := noise(rng, rng.IntN(3000))
			if rng.IntN(10) == 0 {
				data = noise(rng, 300<<10)
			}
			fence, err := l.Commit(ctx, p, k.fence[p], []byte(data))
			if err != nil {
				return err
			}
			k.fence[p] = fence
			k.steps[p] = append(k.steps[p], journal.Step{Fence: fence, Data: []byte(data)})
		case 3:
			if rng.IntN(6) > 0 || k.fence[p] == 0 || len(k.steps[p]) == 0 { // a snapshot needs a new step
				continue
			}
			state := noise(rng, rng.IntN(600<<10))
			if err := l.SaveSnapshot(ctx, p, k.at[p], k.fence[p], []byte(state)); err != nil {
				return err
			}
			k.state[p], k.at[p], k.steps[p] = state, k.fence[p], nil
			r, err := l.Read(ctx, p, k.after[p])
			if err != nil {
				return err
			}
			last, err := r.Last(ctx)
			r.Close()
			if err != nil {
				return err
			}
			if err := l.Purge(ctx, p, last, k.fence[p]); err != nil {
				return err
			}
			k.records[p], k.after[p] = nil, max(last, k.after[p])
		}
	}
	return nil
}

func noise(rng *rand.Rand, size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return string(b)
}

// check returns an error if something is missing from a log. Any error other than ErrDamaged is a
// silent loss.
func (k *past) check(ctx context.Context, l *disklog.Log) error {
	for p := range damagedPartitions {
		h, err := l.Restore(ctx, p)
		if err != nil {
			return err
		}
		if h.Fence != k.fence[p] || string(h.Snapshot) != k.state[p] || !slices.EqualFunc(h.Steps, k.steps[p], func(a, b journal.Step) bool {
			return a.Fence == b.Fence && bytes.Equal(a.Data, b.Data)
		}) {
			return fmt.Errorf("partition %d is restored to step %d with %d steps, and was at %d with %d", p, h.Fence, len(h.Steps), k.fence[p], len(k.steps[p]))
		}
		r, err := l.Read(ctx, p, k.after[p])
		if err != nil {
			return err
		}
		defer r.Close()
		last, err := r.Last(ctx)
		if err != nil {
			return err
		}
		var got []string
		for at := uint64(0); at < last; {
			messages, err := r.Next(ctx, 1<<20)
			if err != nil {
				return err
			}
			for _, m := range messages {
				at = m.Position
				for _, record := range m.Records {
					got = append(got, string(record))
				}
			}
		}
		if !slices.Equal(got, k.records[p]) {
			return fmt.Errorf("partition %d has %d records, and had %d", p, len(got), len(k.records[p]))
		}
	}
	return nil
}

// goOn returns an error if an opened log does not accept appends and steps.
func (k *past) goOn(ctx context.Context, l *disklog.Log) error {
	for p := range damagedPartitions {
		if _, err := l.Append(ctx, p, []byte("more")); err != nil {
			return err
		}
		if _, err := l.Commit(ctx, p, k.fence[p], []byte("more")); err != nil {
			return err
		}
	}
	return nil
}

// TestDamage damages one file of a log, in each way, after the log was closed or its process was
// killed. Either everything that was acknowledged is readable, or an error says that it is not,
// where, and what to do.
func TestDamage(t *testing.T) {
	t.Parallel()
	t.Logf("rerun: -seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	root := t.TempDir()
	live := filepath.Join(root, "live")
	var k past
	ctx := soon(t)
	options := journal.OpenOptions{Partitions: damagedPartitions, Logger: quiet}
	none := disklog.Options{Reserve: -1}
	for range 2 { // the second open moves what the first one wrote to tables
		l := openAs(t, disklog.DirWithOptions(live, none), options)
		if err := k.live(ctx, l, 400, rng); err != nil {
			t.Fatal(err)
		}
		copyLive(t, live, filepath.Join(root, "killed"))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	copyFolder(t, live, filepath.Join(root, "closed"))

	counts := make(map[string]int)
	for _, ended := range []string{"killed", "closed"} {
		for _, file := range files(t, filepath.Join(root, ended)) {
			all := damages
			if *damageAll {
				all = maps.Clone(damages)
				for i := range 20 {
					at := rng.Uint64()
					all[fmt.Sprint("a bit, ", i)] = func(b []byte) []byte { return flipped(b, int(at%uint64(max(used(b), 1)))) }
				}
			}
			for what, damage := range all {
				if !*damageAll && slices.Contains(rarely, what) {
					continue
				}
				name := fmt.Sprintf("%s, %s: %s", ended, file, what)
				dir := filepath.Join(root, "damaged")
				copyFolder(t, filepath.Join(root, ended), dir)
				path := filepath.Join(dir, file)
				was, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				is := damage(slices.Clone(was))
				if err = os.WriteFile(path, is, 0o600); is == nil {
					err = os.Remove(path)
				}
				if err != nil {
					t.Fatal(err)
				}
				ctx := soon(t)
				result := try(ctx, disklog.DirWithOptions(dir, none), options, &k)
				if ctx.Err() != nil {
					t.Errorf("%s: it hangs", name)
				}
				outcome := "everything is there"
				switch {
				case result == nil:
				case !errors.Is(result, journal.ErrDamaged), what == "intact", what != "removed" && bytes.Equal(is, was):
					t.Errorf("%s: %v", name, result)
				default:
					outcome = "refused"
					if text := result.Error(); !strings.Contains(text, dir) || !strings.Contains(text, "put back what was lost") {
						t.Errorf("%s: %v", name, result)
					}
				}
				counts[ended+", "+outcome]++
				if *damageAll {
					t.Logf("%s: %s (%v)", name, outcome, result)
				}
			}
		}
	}
	t.Log(counts)
}

// try opens a log, reads everything and continues with it.
func try(ctx context.Context, o journal.Opener, opts journal.OpenOptions, k *past) error {
	l, err := o.Open(ctx, opts)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := k.check(ctx, l.(*disklog.Log)); err != nil {
		return err
	}
	return k.goOn(ctx, l.(*disklog.Log))
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

// copyLive copies a folder in use while nothing in it changes, as a kill would leave it.
func copyLive(t *testing.T, from, to string) {
	t.Helper()
	for range 100 {
		before := sizes(from)
		os.RemoveAll(to)
		if err := os.CopyFS(to, os.DirFS(from)); err == nil && before == sizes(from) {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Fatalf("%s does not come to rest", from)
}

func sizes(dir string) string {
	var all strings.Builder
	fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintln(&all, name, info.Size(), info.ModTime())
		}
		return err
	})
	return all.String()
}

func files(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && name != "lock" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestTornEnd cuts the last write of a killed process in the middle. Everything that was
// acknowledged before is readable, and the logger reports the rest.
func TestTornEnd(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	live, early, torn := filepath.Join(root, "live"), filepath.Join(root, "early"), filepath.Join(root, "torn")
	options := journal.OpenOptions{Partitions: damagedPartitions, Logger: quiet}
	none := disklog.Options{Reserve: -1}
	l := openAs(t, disklog.DirWithOptions(live, none), options)
	rng := rand.New(rand.NewPCG(1, 1))
	var k past
	if err := k.live(soon(t), l, 30, rng); err != nil {
		t.Fatal(err)
	}
	copyLive(t, live, early)
	if _, err := l.Append(soon(t), 0, []byte(noise(rng, 20_000))); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(live, "db", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	newest := slices.Max(logs)
	late, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(newest)
	before, err := os.ReadFile(filepath.Join(early, "db", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 10, 30, 10_000, used(late) - used(before) - 1} {
		copyFolder(t, early, torn)
		if err := os.WriteFile(filepath.Join(torn, "db", name), late[:used(before)+cut], 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		options.Logger = slog.New(slog.NewTextHandler(&said, nil))
		if err := try(soon(t), disklog.DirWithOptions(torn, none), options, &k); err != nil {
			t.Errorf("with %d bytes of a write: %v", cut, err)
		}
		if !strings.Contains(said.String(), "is cut") {
			t.Errorf("with %d bytes of a write: nobody heard of it: %s", cut, &said)
		}
	}
}
