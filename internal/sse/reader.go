package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// An Event is an event that was read.
type Event struct {
	ID   string // the last ID from the server, in this event or an earlier one
	Name string // "message" if the server gave none
	Data []byte
}

// ErrLong is returned if an event has more bytes than the reader accepts.
var ErrLong = errors.New("sse: an event is too long")

// A Reader reads events. It may be used by one goroutine at a time.
type Reader struct {
	in    *bufio.Reader
	most  int
	first bool
	cr    bool // the previous line ended with CR

	// ID is that of the last event that was read completely: the place to continue after the
	// connection broke.
	ID string
	// Retry is how long the server wants a disconnected reader to wait; zero if it does not say.
	Retry time.Duration
	// Heard, if not nil, is called for each line, including comments and blank lines.
	Heard func()
}

// NewReader returns a reader that accepts events of at most most bytes.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{in: bufio.NewReader(in), most: most, first: true}
}

// Next returns the next event. The error is that of the underlying reader; an incomplete event is
// discarded.
func (r *Reader) Next() (Event, error) {
	e := Event{ID: r.ID}
	var data bytes.Buffer
	has := false
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if r.Heard != nil {
			r.Heard()
		}
		if len(line) == 0 {
			r.ID = e.ID
			if !has {
				e.Name = ""
				continue
			}
			if e.Name == "" {
				e.Name = "message"
			}
			e.Data = data.Bytes()
			return e, nil
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			if has {
				data.WriteByte('\n')
			}
			if has = true; data.Len()+len(value) > r.most {
				return Event{}, ErrLong
			}
			data.WriteString(value)
		case "event":
			e.Name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID = value
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				r.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line returns the next line, which ends with CR, LF or both.
func (r *Reader) line() ([]byte, error) {
	if r.first {
		r.first = false
		if mark, _ := r.in.Peek(3); string(mark) == "\ufeff" {
			r.in.Discard(3)
		}
	}
	var line []byte
	for {
		b, err := r.in.ReadByte()
		switch {
		case err != nil:
			return nil, err
		case b == '\n' && r.cr: // the second half of the previous line ending
			r.cr = false
			continue
		case b == '\n', b == '\r':
			r.cr = b == '\r'
			return line, nil
		case len(line) > r.most+64:
			return nil, ErrLong
		}
		r.cr = false
		line = append(line, b)
	}
}
