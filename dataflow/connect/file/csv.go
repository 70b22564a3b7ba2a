package file

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
)

// CSV returns a reader of CSV (RFC 4180) with a header. It calls decode with each record. If decode returns an error or panics, the record
// counts as one that cannot be decoded. Empty lines are skipped.
func CSV[V any](pattern string, decode func(Row) (V, error), opts Options) *Reader[V] {
	return newReader(pattern, opts, form[V]{end: endOfRow, heads: 1, names: 2, decoder: func(head []byte) func([]byte) (V, bool, error) {
		columns, bad := columnsOf(head)
		return func(record []byte) (v V, ok bool, err error) {
			if bad != nil {
				return v, false, bad
			}
			if len(record) == 0 {
				return v, false, nil
			}
			fields, err := fieldsOf(record)
			if err != nil {
				return v, false, err
			}
			if len(fields) != len(columns) {
				return v, false, fmt.Errorf("the record has %d fields, and the header %d", len(fields), len(columns))
			}
			v, err = decode(Row{columns, fields})
			return v, true, err
		}
	}})
}

// A Row is a record of CSV.
type Row struct {
	columns map[string]int
	fields  []string
}

// Field returns the field in a column, by the column's name in the header. If there is no such column, it returns an error.
func (r Row) Field(column string) (string, error) {
	i, ok := r.columns[column]
	if !ok {
		return "", fmt.Errorf("there is no column %q", column)
	}
	return r.fields[i], nil
}

func columnsOf(head []byte) (map[string]int, error) {
	head = bytes.TrimSuffix(bytes.TrimSuffix(head, []byte("\n")), []byte("\r"))
	names, err := fieldsOf(bytes.TrimPrefix(head, []byte(byteOrderMark)))
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	columns := make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := columns[name]; twice {
			return nil, fmt.Errorf("the header has two columns %q", name)
		}
		columns[name] = i
	}
	return columns, nil
}

// fieldsOf returns the fields of a record given without its line end. It adds a line end, because without one encoding/csv takes
// a last \r as part of the record.
func fieldsOf(record []byte) ([]string, error) {
	r := csv.NewReader(io.MultiReader(bytes.NewReader(record), strings.NewReader("\r\n")))
	r.FieldsPerRecord = -1
	return r.Read()
}

// endOfRow returns where the first row of data ends: at the first end of a line outside quotes. It returns 0 if there is none.
// Only a field that begins with a quote is quoted. Any other quote is an error of its row, and must not join it to the rows after it.
func endOfRow(data []byte, s *scan) int {
	for ; s.at < len(data); s.at++ {
		switch b := data[s.at]; {
		case b == '"' && (s.quoted || !s.inField):
			s.quoted = !s.quoted
			s.inField = s.quoted
		case s.quoted:
		case b == '\n':
			return s.at + 1
		default:
			i := s.before + s.at
			s.inField = b != ',' && (s.inField || i >= len(byteOrderMark) || b != byteOrderMark[i])
		}
	}
	return 0
}

// byteOrderMark may be at the beginning of a file.
const byteOrderMark = "\ufeff"
