package file

import (
	"bytes"
	"encoding/csv"
	"reflect"
	"testing"
)

// FuzzRows splits data into rows and reads each alone. It checks that they yield what encoding/csv reads from all of it, and that
// no byte is lost.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{"a,b\n", "\"a\nb\",c\r\n\n\"\"\"\",d", "a\r\n\r\n  \nb", "\"", "a\"b\n", "x\r\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var rows [][]byte
		rest := data
		for n := endOfRow(rest, new(scan)); n > 0; n = endOfRow(rest, new(scan)) {
			rows = append(rows, rest[:n])
			rest = rest[n:]
		}
		if rows = append(rows, rest); !bytes.Equal(bytes.Join(rows, nil), data) {
			t.Fatalf("%q was divided into %q", data, rows)
		}
		whole := csv.NewReader(bytes.NewReader(data))
		whole.FieldsPerRecord = -1
		want, err := whole.ReadAll()
		if err != nil {
			return
		}
		var got [][]string
		for _, row := range rows {
			row = bytes.TrimSuffix(bytes.TrimSuffix(row, []byte("\n")), []byte("\r"))
			if len(row) == 0 {
				continue
			}
			fields, err := fieldsOf(row)
			if err != nil {
				t.Fatalf("%q: row %q: %v", data, row, err)
			}
			got = append(got, fields)
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %q, want %q", data, got, want)
		}
	})
}
