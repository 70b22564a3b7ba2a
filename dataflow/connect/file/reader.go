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
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// Options say how files are read. With the zero value, files are complete and are read once.
type Options struct {
	// Follow says that files grow: the reader waits for more, and a last line without a line end is not a record yet. Without
	// Follow, a split ends at the end of its file. Compressed files do not grow.
	Follow bool
	// ByName identifies a file by its name. Otherwise a file is identified by its first line, or for CSV by the header and the
	// first record. Then a file that is renamed, such as a rotated log, stays the same split, and a file that is created again is
	// a new one. Two files with the same beginning are an error in that case, and the reader tries again.
	ByName bool
	// MaxRecord is the maximum size of a record in bytes. Zero means 16 MiB. A longer one cannot be decoded.
	MaxRecord int
	// Poll is how often to look at a file that is followed. Zero means 200 ms.
	Poll time.Duration
}

// A Reader reads the files that match a pattern. It is a connect.Reader whose records have no key.
type Reader[V any] struct {
	pattern string
	opts    Options
	form    form[V]

	mu    sync.Mutex
	paths map[string]string // of the splits that were found last, by ID
}

// A form says how a file is divided into records, and how a record is decoded.
type form[V any] struct {
	// end returns where the first record of data ends, or 0 if it is incomplete. With more data it is called with the same scan.
	end func(data []byte, s *scan) int
	// heads is how many records at the beginning of a file are not data.
	heads int
	// names is how many records identify a file.
	names int
	// decoder returns a function that decodes a record, given without its line end, of a file with these heads. If ok is false,
	// there is no record.
	decoder func(heads []byte) func(record []byte) (v V, ok bool, err error)
}

// A scan is how far the end of a record was looked for.
type scan struct {
	before  int  // how much of the record is no longer in the data
	at      int  // the data before it was looked at
	quoted  bool // at is inside quotes
	inField bool // a quote at at neither begins a quoted field nor, behind a closing quote, continues it
}

// Lines returns a reader of lines, without their ends.
func Lines(pattern string, opts Options) *Reader[string] {
	return newReader(pattern, opts, form[string]{end: endOfLine, names: 1, decoder: func([]byte) func([]byte) (string, bool, error) {
		return func(line []byte) (string, bool, error) { return string(line), true, nil }
	}})
}

// JSON returns a reader of lines of JSON, which encoding/json decodes. Lines of white space are skipped. A byte order mark before a
// value is not part of it.
func JSON[V any](pattern string, opts Options) *Reader[V] {
	return newReader(pattern, opts, form[V]{end: endOfLine, names: 1, decoder: func([]byte) func([]byte) (V, bool, error) {
		return func(line []byte) (v V, ok bool, err error) {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark)) // of the file, or of a file that was appended to it
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
	return &Reader[V]{pattern: pattern, opts: opts, form: f}
}

// Splits returns the current files, except those that do not yet contain enough to identify them. Files that cannot be read, or that
// begin in the same way as another one, are in the error, which passes.
func (r *Reader[V]) Splits(context.Context) (all []connect.Split, err error) {
	found, err := r.find()
	for id, path := range found {
		s := connect.Split{ID: id, Name: path}
		if !r.opts.ByName {
			s.Name += "#" + id[len(prefix):len(prefix)+8] // because one name may belong to two files, one after the other
		}
		all = append(all, s)
	}
	return all, err
}

const prefix = "file/"

// find returns the paths of the splits, by ID. If the error passes, it returns those that it could find.
func (r *Reader[V]) find() (map[string]string, error) {
	paths, err := filepath.Glob(r.pattern)
	if err != nil {
		return nil, fmt.Errorf("file: %s: %w", r.pattern, err)
	}
	found := make(map[string]string, len(paths))
	alike := make(map[string]bool) // IDs of several files
	var bad []error
	for _, path := range paths {
		id, err := r.identity(path)
		switch other := found[id]; {
		case errors.Is(err, fs.ErrNotExist) || err == nil && id == "":
		case err != nil:
			bad = append(bad, fmt.Errorf("file: %w", err))
		case other != "":
			bad = append(bad, fmt.Errorf("file: %s and %s begin in the same way, so that nobody knows which is which: remove one, or set Options.ByName", other, path))
			alike[id] = true
		default:
			found[id] = path
		}
	}
	for id := range alike {
		delete(found, id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = found
	return found, connect.Retry(errors.Join(bad...))
}

// path returns where a split is, or "" if there is no such file. It looks first where the split was found last: to look at all
// files for each of them would take long if there are many.
func (r *Reader[V]) path(id string) (string, error) {
	r.mu.Lock()
	path := r.paths[id]
	r.mu.Unlock()
	if path != "" {
		if is, err := r.identity(path); err == nil && is == id {
			return path, nil
		}
	}
	found, err := r.find()
	if path = found[id]; path != "" {
		return path, nil // whatever other files there are
	}
	return "", err
}

// identity returns the ID of the file at a path, or "" if the file is not long enough yet.
func (r *Reader[V]) identity(path string) (string, error) {
	info, err := os.Stat(path) // before it is opened, because opening a pipe waits for a writer
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 && compressed(path) {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	needed := r.form.names
	if r.opts.ByName {
		if needed = r.form.heads; needed == 0 || !r.opts.Follow {
			return prefix + path, nil
		}
	}
	data, err := uncompressed(f, path)
	if err != nil {
		return "", err
	}
	begin, n, err := r.records(data, needed)
	switch {
	case err != nil || n < needed && (r.opts.Follow || len(begin) == 0):
		return "", err
	case r.opts.ByName:
		return prefix + path, nil
	}
	sum := sha256.Sum256(begin)
	return prefix + hex.EncodeToString(sum[:16]), nil
}

// maxBegin limits the part of a file that identifies it.
const maxBegin = 64 << 10

// records returns the first n records of data, and how many there are. If data exceeds maxBegin bytes before that, its beginning
// counts as all of them.
func (r *Reader[V]) records(data io.Reader, n int) ([]byte, int, error) {
	begin, err := io.ReadAll(io.LimitReader(data, maxBegin))
	if err != nil {
		return nil, 0, err
	}
	at := 0
	for i := range n {
		end := r.form.end(begin[at:], new(scan))
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

// uncompressed returns a reader of the content of a file.
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

// Open returns a cursor over the records after a position. If the file is shorter, the error is a connect.ErrGap.
func (r *Reader[V]) Open(_ context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[struct{}, V], error) {
	path, err := r.path(s.ID)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("file: %s: %w: the file is gone", s, connect.ErrGap)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, connect.Retry(fmt.Errorf("file: %w", err))
	}
	c := &cursor[V]{Reader: r, split: s, path: path, file: f}
	if err := c.begin(after.Major); err != nil {
		f.Close()
		if !errors.Is(err, connect.ErrGap) { // such as a compressed file that is still being written
			err = connect.Retry(err)
		}
		return nil, fmt.Errorf("file: %s: %w", s, err)
	}
	return c, nil
}

// Close does nothing.
func (r *Reader[V]) Close() error { return nil }

func endOfLine(data []byte, s *scan) int {
	i := bytes.IndexByte(data[s.at:], '\n')
	if i < 0 {
		s.at = len(data)
		return 0
	}
	return s.at + i + 1
}
