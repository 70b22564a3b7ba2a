package file

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/internal/fsync"
)

// Segments is a sink that writes lines to files. Each write creates a file that appears whole, is on the disk when the write
// returns, and never changes:
//
//	DIR/FLOW/OUTPUT/PARTITION/FIRST-OPENED.jsonl
//
// FIRST is the number of the first element, in 20 digits. So the files of a folder, in the order of their names, contain the
// elements of the lane in their order, each once. Opening a lane creates an empty file, from which the previous writer learns
// that it was shut out. OPENED counts these files at one number. They are not deleted.
//
// The folder must be on a file system of one machine that supports hard links.
type Segments[T any] struct {
	Dir string
	// Encode appends the line of an element, without its end. Nil means JSON, as encoding/json encodes it.
	Encode func(line []byte, x T) ([]byte, error)
}

const (
	segment    = ".jsonl"
	unfinished = ".unfinished"
)

// A name is the name of a file of a lane.
type name struct {
	first  uint64
	opened int
}

func (n name) String() string { return fmt.Sprintf("%020d-%04d%s", n.first, n.opened, segment) }

// before reports whether a file was created before another one of its lane.
func (n name) before(o name) bool {
	return cmp.Or(cmp.Compare(n.first, o.first), cmp.Compare(n.opened, o.opened)) < 0
}

func nameOf(file string) (n name, ok bool) {
	first, opened, ok := strings.Cut(strings.TrimSuffix(file, segment), "-")
	if !ok || !strings.HasSuffix(file, segment) {
		return n, false
	}
	var err error
	if n.first, err = strconv.ParseUint(first, 10, 64); err == nil {
		n.opened, err = strconv.Atoi(opened)
	}
	return n, err == nil && n.String() == file
}

// Open implements connect.Sink.
func (s Segments[T]) Open(_ context.Context, l connect.Lane) (connect.Writer[T, connect.Atomic], uint64, error) {
	dir := s.Dir
	for _, part := range []string{l.Flow, l.Output, strconv.Itoa(l.Partition)} {
		if part == "." || part == ".." {
			return nil, 0, fmt.Errorf("file: lane %s: %q cannot be the name of a folder", l, part)
		}
		if err := makeDir(filepath.Join(dir, url.PathEscape(part)), dir); err != nil {
			return nil, 0, fmt.Errorf("file: lane %s: %w", l, err)
		}
		dir = filepath.Join(dir, url.PathEscape(part))
	}
	w := &writer[T]{dir: dir, encode: s.Encode}
	if w.encode == nil {
		w.encode = func(line []byte, x T) ([]byte, error) {
			data, err := json.Marshal(x)
			return append(line, data...), err
		}
	}
	for {
		last, next, err := w.newest()
		if err != nil {
			return nil, 0, fmt.Errorf("file: lane %s: %w", l, err)
		}
		err = w.put(next, nil)
		if errors.Is(err, connect.ErrFenced) {
			continue // another writer wrote in between
		}
		if err != nil {
			return nil, 0, fmt.Errorf("file: lane %s: %w", l, err)
		}
		w.next = name{next.first, next.opened + 1}
		return w, last, nil
	}
}

// makeDir creates a folder in another one and makes it durable.
func makeDir(dir, in string) error {
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(in, 0o777); err == nil {
			err = os.Mkdir(dir, 0o777)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsync.Folder(in)
}

type writer[T any] struct {
	dir    string
	encode func(line []byte, x T) ([]byte, error)
	next   name
}

// newest returns the number of the last element in the folder, and the name of the next file.
func (w *writer[T]) newest() (last uint64, next name, err error) {
	files, err := os.ReadDir(w.dir)
	if err != nil {
		return 0, next, err
	}
	var newest name
	for _, f := range files { // not only the last: 10000 comes before 9999 in the order of names
		if n, ok := nameOf(f.Name()); ok && newest.before(n) {
			newest = n
		}
	}
	if newest == (name{}) {
		return 0, name{first: 1}, nil
	}
	lines, err := count(filepath.Join(w.dir, newest.String()))
	if err != nil {
		return 0, next, err
	}
	if lines == 0 {
		return newest.first - 1, name{newest.first, newest.opened + 1}, nil
	}
	return newest.first + lines - 1, name{first: newest.first + lines}, nil
}

// count returns the number of lines in a file.
func count(path string) (lines uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		_, err := r.ReadSlice('\n')
		switch err {
		case nil:
			lines++
		case bufio.ErrBufferFull:
		case io.EOF:
			return lines, nil
		default:
			return 0, err
		}
	}
}

// put creates a file durably, unless its name exists already. Then it returns connect.ErrFenced.
func (w *writer[T]) put(n name, data []byte) (err error) {
	f, err := os.CreateTemp(w.dir, "*"+unfinished)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), filepath.Join(w.dir, n.String())); errors.Is(err, fs.ErrExist) {
		return connect.ErrFenced
	}
	if err != nil {
		return err
	}
	return fsync.Folder(w.dir)
}

// Write implements connect.Writer.
func (w *writer[T]) Write(_ context.Context, first uint64, xs []T) (done connect.Atomic, err error) {
	if first != w.next.first {
		return done, fmt.Errorf("file: element %d comes behind %d", first, w.next.first-1)
	}
	var data []byte
	for i, x := range xs {
		at := len(data)
		if data, err = w.encode(data, x); err != nil {
			return done, fmt.Errorf("file: element %d: %w", first+uint64(i), err)
		}
		if bytes.IndexByte(data[at:], '\n') >= 0 {
			return done, fmt.Errorf("file: element %d has more than one line", first+uint64(i))
		}
		data = append(data, '\n')
	}
	if err := w.put(w.next, data); err != nil {
		return done, fmt.Errorf("file: %w", err)
	}
	w.next = name{first: first + uint64(len(xs))}
	return done, nil
}

// Close does nothing.
func (w *writer[T]) Close() error { return nil }
