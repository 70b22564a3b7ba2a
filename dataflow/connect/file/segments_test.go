package file_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// TestSegments runs the kit on the sink. The files of a lane are read in the order of their names.
func TestSegments(t *testing.T) {
	connecttest.Sink(t, func(t *testing.T) connecttest.Target[order, connect.Atomic] {
		dir := t.TempDir()
		return connecttest.Target[order, connect.Atomic]{
			Sink:    file.Segments[order]{Dir: filepath.Join(dir, "not", "there yet")},
			Element: func(n uint64) order { return order{fmt.Sprint(n), int(n)} },
			Read: func(t *testing.T) (all []order) {
				err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() || !strings.Contains(path, filepath.Join("kit", "out", "0")) || !strings.HasSuffix(path, ".jsonl") {
						return err
					}
					data, err := os.ReadFile(path)
					if err != nil {
						return err
					}
					for line := range strings.Lines(string(data)) {
						var o order
						if err := json.Unmarshal([]byte(line), &o); err != nil {
							return err
						}
						all = append(all, o)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return all
			},
		}
	})
}

// TestBadLines checks that an element that is not one line, or cannot be encoded, is refused, and
// that nothing of its write exists.
func TestBadLines(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []file.Segments[string]{
		{Dir: dir, Encode: func(line []byte, x string) ([]byte, error) { return append(line, x...), nil }},
		{Dir: dir, Encode: func(line []byte, x string) ([]byte, error) { return line, fmt.Errorf("no %s", x) }},
	} {
		w, last, err := s.Open(t.Context(), connect.Lane{Flow: "f", Output: "../o"})
		if err != nil || last != 0 {
			t.Fatal(last, err)
		}
		if _, err := w.Write(t.Context(), 1, []string{"good", "b\nad"}); err == nil {
			t.Error("it was written")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "f", "..%2Fo", "0")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{".", ".."} {
		if _, _, err := (file.Segments[string]{Dir: dir}).Open(t.Context(), connect.Lane{Flow: name, Output: "o"}); err == nil {
			t.Errorf("a flow has the name %s", name)
		}
	}
}

// Case 49: an unfinished file of a process that was killed during a write is not a segment.
func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	s := file.Segments[string]{Dir: dir}
	l := connect.Lane{Flow: "f", Output: "o"}
	w, _, err := s.Open(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), 1, []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"123.unfinished", "notes.txt", "00000000000000000003-0.jsonl", "3-0000.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, "f", "o", "0", name), []byte("\"x\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, last, err := s.Open(t.Context(), l)
	if err != nil || last != 2 {
		t.Fatal(last, err)
	}
	if _, err := w.Write(t.Context(), 3, []string{"c"}); err != nil {
		t.Error(err)
	}
}

// TestOpenedOften opens a lane at one number more often than the names of its files have digits for.
func TestOpenedOften(t *testing.T) {
	dir := t.TempDir()
	s := file.Segments[string]{Dir: dir}
	l := connect.Lane{Flow: "f", Output: "o"}
	lane := filepath.Join(dir, "f", "o", "0")
	if err := os.MkdirAll(lane, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000000000000000001-0000.jsonl", "00000000000000000001-9998.jsonl"} {
		if err := os.WriteFile(filepath.Join(lane, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var w connect.Writer[string, connect.Atomic]
	for range 4 {
		opened := make(chan error, 1)
		go func() {
			var last uint64
			var err error
			if w, last, err = s.Open(t.Context(), l); err == nil && last != 0 {
				err = fmt.Errorf("there are %d elements", last)
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the lane is not opened")
		}
	}
	if _, err := w.Write(t.Context(), 1, []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	if _, last, err := s.Open(t.Context(), l); err != nil || last != 2 {
		t.Errorf("there are %d elements (%v), want 2", last, err)
	}
}
