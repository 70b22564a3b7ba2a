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

// An Event is one that was read.
type Event struct {
	ID   string // the last one that the server gave, of this event or of one before
	Name string // "message" if the server gave none
	Data []byte
}

// ErrLong says that an event has more bytes than are read.
var ErrLong = errors.New("sse: an event is too long")

// A Reader reads events. It is used by one goroutine at a time.
type Reader struct {
	in    *bufio.Reader
	most  int
	first bool
	cr    bool // the line before ended with CR

	// ID is that of the last event which was read whole: where to go on after the connection broke.
	ID string
	// Retry is how long the server wants a reader to wait that was cut off; zero if it does not say.
	Retry time.Duration
	// Heard is called for each line, comments and blank ones included. Nil is not called.
	Heard func()
}

// NewReader returns a reader of events, each of which has at most so many bytes.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{in: bufio.NewReader(in), most: most, first: true}
}

// Next returns the next event. The error is that of the reader; what came of an event that is
// not whole is left out.
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
		case b == '\n' && r.cr: // the other half of the end of the line before
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
