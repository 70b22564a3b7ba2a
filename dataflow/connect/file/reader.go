package file

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// Options say how files are read. The zero value reads files that are complete, once.
type Options struct {
	// Follow says that files grow: what is written later is waited for, and a last line without its end is no record yet. Without
	// it a split ends where its file does. Compressed files do not grow.
	Follow bool
	// ByName says that the name of a file says which one it is. Without it the first line does, and of CSV the header and the first
	// record: a file that is renamed, as logs are that are rotated, stays the split that it was, and one that is made again is
	// another one. Two files that begin in the same way are an error then, which is tried again.
	ByName bool
	// MaxRecord is how many bytes a record may have, 16 MiB if it is zero. A longer one cannot be decoded.
	MaxRecord int
	// Poll is how often a file that is followed is looked at, 200 ms if it is zero.
	Poll time.Duration
}

// A Reader reads the files that a pattern finds. It is a connect.Reader, whose records have no key.
type Reader[V any] struct {
	pattern string
	opts    Options
	form    form[V]
}

// A form is how a file is divided into records, and what a record is.
type form[V any] struct {
	// end returns where the first record of data ends, 0 if it goes on.
	end func(data []byte) int
	// heads is how many records a file begins with that are none.
	heads int
	// names is how many records say which file it is.
	names int
	// decoder returns what decodes a record, without its end, of a file with these heads. There is no record if ok is false.
	decoder func(heads []byte) func(record []byte) (v V, ok bool, err error)
}

// Lines reads lines, without their ends.
func Lines(pattern string, opts Options) *Reader[string] {
	return newReader(pattern, opts, form[string]{end: endOfLine, names: 1, decoder: func([]byte) func([]byte) (string, bool, error) {
		return func(line []byte) (string, bool, error) { return string(line), true, nil }
	}})
}

// JSON reads lines that are JSON each, as encoding/json decodes it. Lines of white space give no record.
func JSON[V any](pattern string, opts Options) *Reader[V] {
	return newReader(pattern, opts, form[V]{end: endOfLine, names: 1, decoder: func([]byte) func([]byte) (V, bool, error) {
		return func(line []byte) (v V, ok bool, err error) {
			if len(bytes.TrimSpace(line)) == 0 {
				return v, false, nil
			}
			err = json.Unmarshal(line, &v)
			return v, true, err
		}
	}})
}

func newReader[V any](pattern string, opts Options, f form[V]) *Reader[V] {
	if opts.MaxRecord <= 0 {
		opts.MaxRecord = 16 << 20
	}
	if opts.Poll <= 0 {
		opts.Poll = 200 * time.Millisecond
	}
	return &Reader[V]{pattern, opts, f}
}

// Splits returns the files that there are, but those in which there is not yet what says which file they are.
func (r *Reader[V]) Splits(context.Context) (all []connect.Split, err error) {
	found, err := r.find()
	if err != nil {
		return nil, err
	}
	for id, path := range found {
		s := connect.Split{ID: id, Name: path}
		if !r.opts.ByName {
			s.Name += "#" + id[len(prefix):len(prefix)+8] // since two files may have one name, one after the other
		}
		all = append(all, s)
	}
	return all, nil
}

const prefix = "file/"

// find returns the paths of splits.
func (r *Reader[V]) find() (map[string]string, error) {
	paths, err := filepath.Glob(r.pattern)
	if err != nil {
		return nil, fmt.Errorf("file: %s: %w", r.pattern, err)
	}
	found := make(map[string]string, len(paths))
	for _, path := range paths {
		id, err := r.identity(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && id == "":
			continue
		case err != nil:
			return nil, connect.Retry(fmt.Errorf("file: %w", err))
		}
		if other, ok := found[id]; ok {
			return nil, connect.Retry(fmt.Errorf("file: %s and %s begin in the same way, so that nobody knows which is which: remove one, or set Options.ByName", other, path))
		}
		found[id] = path
	}
	return found, nil
}

// identity returns the ID of the file at a path, or nothing if it has too little yet.
func (r *Reader[V]) identity(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	if r.opts.ByName {
		return prefix + path, nil
	}
	data, err := uncompressed(f, path)
	if err != nil {
		return "", err
	}
	begin, n, err := r.records(data, r.form.names)
	if err != nil || n < r.form.names && (r.opts.Follow || len(begin) == 0) {
		return "", err
	}
	sum := sha256.Sum256(begin)
	return prefix + hex.EncodeToString(sum[:16]), nil
}

// maxBegin bounds the part of a file that says which one it is.
const maxBegin = 64 << 10

// records returns the first n records that data begins with, and how many there are. A beginning of maxBegin bytes counts as all.
func (r *Reader[V]) records(data io.Reader, n int) ([]byte, int, error) {
	begin, err := io.ReadAll(io.LimitReader(data, maxBegin))
	if err != nil {
		return nil, 0, err
	}
	at := 0
	for i := range n {
		end := r.form.end(begin[at:])
		if end == 0 {
			if len(begin) == maxBegin {
				return begin, n, nil
			}
			return begin, i, nil
		}
		at += end
	}
	return begin[:at], n, nil
}

// uncompressed returns what is in a file.
func uncompressed(f *os.File, path string) (io.Reader, error) {
	if !compressed(path) {
		return f, nil
	}
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return z, nil
}

func compressed(path string) bool { return strings.HasSuffix(path, ".gz") }

// Open returns a cursor over what comes after a position. It is an error that is connect.ErrGap if the file is shorter.
func (r *Reader[V]) Open(_ context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[struct{}, V], error) {
	found, err := r.find()
	if err != nil {
		return nil, err
	}
	path, ok := found[s.ID]
	if !ok {
		return nil, fmt.Errorf("file: %s: %w: the file is gone", s, connect.ErrGap)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, connect.Retry(fmt.Errorf("file: %w", err))
	}
	c := &cursor[V]{Reader: r, split: s, path: path, file: f}
	if err := c.begin(after.Major); err != nil {
		f.Close()
		return nil, fmt.Errorf("file: %s: %w", s, err)
	}
	return c, nil
}

// Close does nothing.
func (r *Reader[V]) Close() error { return nil }

func endOfLine(data []byte) int { return bytes.IndexByte(data, '\n') + 1 }
