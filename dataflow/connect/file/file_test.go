package file_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/file"
)

type order struct {
	Customer string
	Cents    int
}

var quick = file.Options{Follow: true, Poll: time.Millisecond}

func write(t *testing.T, path, text string) {
	t.Helper()
	if strings.HasSuffix(path, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		text = b.String()
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func grow(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKit runs the kit on each format, with files that are complete, followed or compressed.
func TestKit(t *testing.T) {
	var orders []order
	for i := range 300 {
		orders = append(orders, order{fmt.Sprintf("customer, \"%d\"", i), i})
	}
	var lines, js, csv strings.Builder
	csv.WriteString("cents,customer\r\n")
	var texts []string
	for i, o := range orders {
		text := fmt.Sprint("line ", i)
		texts = append(texts, text)
		fmt.Fprintln(&lines, text)
		if i%100 == 7 {
			fmt.Fprintln(&js, "{")
			fmt.Fprintln(&js, " ")
			fmt.Fprintln(&csv, "x,y")
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&js, "%s\r\n", data)
		fmt.Fprintf(&csv, "%d,\"%s\"\n", o.Cents, strings.ReplaceAll(o.Customer, `"`, `""`))
	}
	decode := func(r file.Row) (o order, err error) {
		if o.Customer, err = r.Field("customer"); err != nil {
			return o, err
		}
		cents, err := r.Field("cents")
		if err == nil {
			_, err = fmt.Sscan(cents, &o.Cents)
		}
		return o, err
	}
	for name, opts := range map[string]file.Options{"x": {}, "x.followed": quick, "x.gz": {}, "x.named": {ByName: true, Follow: true, Poll: time.Millisecond}} {
		at := func(t *testing.T, text string) (dir string) {
			dir = t.TempDir()
			write(t, filepath.Join(dir, name), text)
			return dir
		}
		t.Run("lines "+name, func(t *testing.T) {
			t.Parallel()
			connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, string] {
				dir := at(t, lines.String())
				r := file.Lines(filepath.Join(dir, "*"), opts)
				s := connecttest.Source[struct{}, string]{Reader: r, Want: map[string][]string{only(t, r).String(): texts}}
				if !opts.ByName {
					s.Remake = func() { write(t, filepath.Join(dir, name), "another\nlines\n") }
				}
				return s
			})
		})
		t.Run("json "+name, func(t *testing.T) {
			t.Parallel()
			connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, order] {
				r := file.JSON[order](filepath.Join(at(t, js.String()), "*"), opts)
				return connecttest.Source[struct{}, order]{Reader: r, Want: map[string][]order{only(t, r).String(): orders}, Bad: 3}
			})
		})
		t.Run("csv "+name, func(t *testing.T) {
			t.Parallel()
			connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, order] {
				r := file.CSV(filepath.Join(at(t, csv.String()), "*"), decode, opts)
				return connecttest.Source[struct{}, order]{Reader: r, Want: map[string][]order{only(t, r).String(): orders}, Bad: 3}
			})
		})
	}
}

func only[V any](t *testing.T, r *file.Reader[V]) connect.Split {
	t.Helper()
	all, err := r.Splits(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("there are %d splits (%v)", len(all), err)
	}
	return all[0]
}

// A tail reads a split and collects its records.
type tail struct {
	connect.Cursor[struct{}, string]
	got  []string
	bad  []connect.Poison
	last dataflow.Position
}

func open(t *testing.T, r connect.Reader[struct{}, string], s connect.Split, after dataflow.Position) *tail {
	t.Helper()
	c, err := r.Open(t.Context(), s, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &tail{Cursor: c, last: after}
}

// read reads until there are n records, good and bad, or an error.
func (x *tail) read(t *testing.T, n int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(x.got)+len(x.bad) < n {
		var b connect.Batch[struct{}, string]
		err := x.Next(ctx, &b)
		x.got, x.bad = append(x.got, b.Values...), append(x.bad, b.Bad...)
		if b.End.After(x.last) {
			x.last = b.End
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *tail) is(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(x.got, want) {
		t.Errorf("there is %q, want %q", x.got, want)
	}
}

// Case 48: a file that grows, and first ends in the middle of a line.
func TestGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "fir")
	r := file.Lines(path, quick)
	if all, err := r.Splits(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("half a line makes splits %v (%v)", all, err)
	}
	grow(t, path, "st\nsec")
	x := open(t, r, only(t, r), dataflow.Position{})
	if err := x.read(t, 1); err != nil {
		t.Fatal(err)
	}
	x.is(t, "first")
	grow(t, path, "ond\n\nfourth\n")
	if err := x.read(t, 4); err != nil {
		t.Fatal(err)
	}
	x.is(t, "first", "second", "", "fourth")
	if x.last.Major != uint64(len("first\nsecond\n\nfourth\n")) {
		t.Errorf("it ends at %v", x.last)
	}
}

// Case 48: a truncated file is a gap, both while it is read and when it is opened.
func TestTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "first\nsecond\nthird\n")
	r := file.Lines(path, quick)
	s := only(t, r)
	x := open(t, r, s, dataflow.Position{})
	if err := x.read(t, 3); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 6); err != nil {
		t.Fatal(err)
	}
	if err := x.read(t, 4); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "the file has 6 bytes, and 19 were read") {
		t.Errorf("the error is %v", err)
	}
	if _, err := r.Open(t.Context(), s, x.last); !errors.Is(err, connect.ErrGap) {
		t.Errorf("the error is %v", err)
	}
	z := filepath.Join(t.TempDir(), "log.gz")
	write(t, z, "first\n")
	r = file.Lines(z, quick)
	if _, err := r.Open(t.Context(), only(t, r), x.last); !errors.Is(err, connect.ErrGap) {
		t.Errorf("the error is %v", err)
	}
}

// Case 48: a rotated file continues under its new name, and a file that replaces it is another split. A removed file ends.
func TestRotated(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	write(t, path, "first\n")
	r := file.Lines(filepath.Join(dir, "log*"), quick)
	s := only(t, r)
	x := open(t, r, s, dataflow.Position{})
	if err := x.read(t, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path, "other\n")
	grow(t, path+".1", "second\n")
	if err := x.read(t, 2); err != nil {
		t.Fatal(err)
	}
	x.is(t, "first", "second")
	all, err := r.Splits(t.Context())
	if err != nil || len(all) != 2 || !slices.ContainsFunc(all, func(o connect.Split) bool { return o.ID == s.ID }) {
		t.Errorf("the splits are %v (%v)", all, err)
	}
	y := open(t, r, s, dataflow.Position{Major: 6}) // after a restart, under its new name
	if err := y.read(t, 1); err != nil {
		t.Fatal(err)
	}
	y.is(t, "second")
	if err := os.Remove(path + ".1"); err != nil {
		t.Fatal(err)
	}
	if err := x.read(t, 3); err != io.EOF {
		t.Errorf("the error is %v", err)
	}
	if _, err := r.Open(t.Context(), s, x.last); !errors.Is(err, connect.ErrGap) {
		t.Errorf("the error is %v", err)
	}
}

// TestLongRecord checks that a record that is too long is bad, and that the next one is not.
func TestLongRecord(t *testing.T) {
	for _, n := range []int{2000, 300_000} { // read at once, and in several parts
		path := filepath.Join(t.TempDir(), "log")
		write(t, path, "first\n"+strings.Repeat("x", n)+"\nthird\n"+strings.Repeat("y", n))
		r := file.Lines(path, file.Options{MaxRecord: 1000})
		x := open(t, r, only(t, r), dataflow.Position{})
		if err := x.read(t, 5); err != io.EOF {
			t.Fatal(err)
		}
		x.is(t, "first", "third")
		if len(x.bad) != 2 || !strings.Contains(x.bad[0].Cause, "more than 1000 bytes") || x.bad[0].At.Major != uint64(n+7) || x.bad[0].Raw[0] != 'x' || x.bad[0].Cut != (n > connect.MaxRaw) {
			t.Errorf("%d bad records", len(x.bad))
		}
		if x.last.Major != uint64(len("first\nthird\n")+2*n+1) {
			t.Errorf("it ends at %v", x.last)
		}
	}
}

// TestCSV reads rows with line ends and quotes in their fields. A row that does not fit the header, or lacks a column, is bad.
func TestCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	write(t, path, "\ufeffname,text\nann,\"two\nlines, \"\"quoted\"\"\"\n\nbob\ncid,x,y\ndan,last")
	r := file.CSV(path, func(r file.Row) (string, error) {
		name, err := r.Field("name")
		if err != nil {
			return "", err
		}
		if _, err := r.Field("nobody"); err == nil || err.Error() != `there is no column "nobody"` {
			t.Errorf("of a column that is not there: %v", err)
		}
		text, err := r.Field("text")
		if name == "eve" {
			panic("no " + name)
		}
		return name + ": " + text, err
	}, file.Options{})
	x := open(t, r, only(t, r), dataflow.Position{})
	if err := x.read(t, 5); err != io.EOF {
		t.Fatal(err)
	}
	x.is(t, "ann: two\nlines, \"quoted\"", "dan: last")
	if len(x.bad) != 2 || x.bad[0].Cause != "the record has 1 fields, and the header 2" {
		t.Errorf("bad are %+v", x.bad)
	}
	write(t, path, "\ufeff\"name\",text\nann,a 5\" pipe\nbob,\"a\"b\"\ncid,whole\neve,x\n")
	x = open(t, r, only(t, r), dataflow.Position{})
	if err := x.read(t, 5); err != io.EOF {
		t.Fatal(err)
	}
	if x.is(t, "cid: whole"); len(x.bad) != 3 || !strings.HasPrefix(x.bad[2].Cause, "decoding it panicked: no eve\n") || !strings.Contains(x.bad[0].Cause, `bare "`) {
		t.Errorf("bad are %+v", x.bad)
	}
	write(t, path, "n,n\n1,2\n")
	x = open(t, r, only(t, r), dataflow.Position{})
	if err := x.read(t, 2); err != io.EOF || len(x.bad) != 1 || x.bad[0].Cause != `the header has two columns "n"` {
		t.Errorf("bad are %+v (%v)", x.bad, err)
	}
}

// TestCSVHeaderIsLate follows a file of CSV by its name. The file becomes a split when its header is complete.
func TestCSVHeaderIsLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	opts := quick
	opts.ByName = true
	r := file.CSV(path, func(r file.Row) (string, error) { return r.Field("text") }, opts)
	for _, text := range []string{"", "name,t"} {
		write(t, path, text)
		if splits, err := r.Splits(t.Context()); len(splits) > 0 || err != nil {
			t.Errorf("of %q: %v, %v", text, splits, err)
		}
	}
	grow(t, path, "ext\n")
	x := open(t, r, only(t, r), dataflow.Position{})
	grow(t, path, "ann,hello\n")
	if err := x.read(t, 1); err != nil {
		t.Fatal(err)
	}
	x.is(t, "hello")
}
