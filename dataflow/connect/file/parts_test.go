package file_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
)

// TestLongRecordInParts reads files that grow while they are read, and have records that are too long. The records are those that
// are read from the whole file at once. What a long row of CSV has in quotes is no row.
func TestLongRecordInParts(t *testing.T) {
	x, y := strings.Repeat("x", 1200), strings.Repeat("y", 700)
	csv := "name,text\nann,first\nbob,\"" + x + "\neve,no row\n\ufeff\"\"," + y + "\"\ncid,next\ndan," + x + "\r\nfay," + y + x + "\n"
	for _, name := range []string{"hal", "hall", "halll"} { // so that a part of three bytes begins at a byte order mark
		csv += name + "," + x + ",\ufeff\"no quotes\n"
	}
	csv += "gil,last\n"
	lines := strings.Repeat("z", 1000) + "\r\n" + strings.Repeat("z", 1001) + "\r\n" + x + "\n" + strings.Repeat(x, 60) + "\nlast\n"
	field := func(r file.Row) (string, error) { return r.Field("name") }
	for name, c := range map[string]struct {
		text      string
		reader    func(pattern string, o file.Options) *file.Reader[string]
		good, bad int
	}{
		"csv":   {csv, func(pattern string, o file.Options) *file.Reader[string] { return file.CSV(pattern, field, o) }, 3, 6},
		"lines": {lines, file.Lines, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			write(t, path, c.text)
			opts := file.Options{MaxRecord: 1000, ByName: true, Follow: true, Poll: time.Millisecond}
			r := c.reader(path, opts)
			want := open(t, r, only(t, r), dataflow.Position{})
			if err := want.read(t, c.good+c.bad); err != nil {
				t.Fatal(err)
			}
			if len(want.got) != c.good || len(want.bad) != c.bad || want.last.Major != uint64(len(c.text)) {
				t.Fatalf("%q are good and %d bad, up to %v", want.got, len(want.bad), want.last)
			}
			for _, size := range []int{1, 3, 999, 1000, 1001, 5000} {
				if len(c.text)/size > 30_000 {
					continue
				}
				at := min(20, len(c.text)) // the header of CSV
				write(t, path, c.text[:at])
				r := c.reader(path, opts)
				x := open(t, r, only(t, r), dataflow.Position{})
				for ; at < len(c.text); at += size {
					grow(t, path, c.text[at:min(at+size, len(c.text))])
					if err := x.readNow(t); err != nil {
						t.Fatal(err)
					}
				}
				if err := x.read(t, c.good+c.bad); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(x.got, want.got) || !reflect.DeepEqual(x.bad, want.bad) || x.last != want.last {
					t.Errorf("in parts of %d bytes: %s\nof the whole file: %s", size, told(x), told(want))
				}
			}
		})
	}
}

func told(x *tail) string {
	s := fmt.Sprintf("%q up to %v", x.got, x.last)
	for _, b := range x.bad {
		s += fmt.Sprintf("; bad up to %v, %d bytes, cut %v: %s", b.At, len(b.Raw), b.Cut, b.Cause)
	}
	return s
}

// readNow reads what there is.
func (x *tail) readNow(t *testing.T) error {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		var b connect.Batch[struct{}, string]
		err := x.Next(ctx, &b)
		cancel()
		x.got, x.bad = append(x.got, b.Values...), append(x.bad, b.Bad...)
		if b.End.After(x.last) {
			x.last = b.End
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
