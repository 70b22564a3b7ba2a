package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// read reads a successful response: a stream of events, or the whole answer as one JSON object, which some services send
// regardless of the request. It calls progress for each part, and report after each part of a stream.
func (a *answer) read(resp *http.Response, progress, report func()) error {
	in := bufio.NewReader(resp.Body)
	first, err := skipSpace(in)
	switch {
	case err != nil && err != io.EOF:
		return brokenOff(err)
	case err == nil && first == '{':
		err = a.readWhole(in, progress)
	case err == nil:
		err = a.readEvents(in, progress, report)
	default:
		err = nil
	}
	if _, is := errors.AsType[*json.SemanticError](err); is {
		return noAnswer(resp, err.Error())
	}
	if _, is := errors.AsType[*jsontext.SyntacticError](err); is {
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errBroken
		case !a.chosen:
			return noAnswer(resp, "no JSON")
		}
		return fmt.Errorf("the model's service sent a part that cannot be read: %w", err)
	}
	switch {
	case err != nil:
		return err
	case !a.done && !a.last() && !delimited(resp):
		return errBroken
	case !a.chosen:
		return noAnswer(resp, "no choices")
	}
	return nil
}

// delimited reports whether the end of a body is distinguishable from a broken connection.
func delimited(resp *http.Response) bool {
	return resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0 || resp.ProtoMajor >= 2 || resp.Uncompressed
}

// skipSpace returns the first non-space byte without consuming it.
func skipSpace(in *bufio.Reader) (byte, error) {
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		in.Discard(len(mark))
	}
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, in.UnreadByte()
		}
	}
}

// readWhole reads an answer that is one JSON object.
func (a *answer) readWhole(in io.Reader, progress func()) error {
	data, err := io.ReadAll(io.LimitReader(&watched{in, progress}, maxSize+1))
	if err != nil {
		return brokenOff(err)
	}
	if len(data) > maxSize {
		return errLong
	}
	a.done = true
	return a.add(data)
}

// A watched is a reader that calls progress when data has arrived.
type watched struct {
	io.Reader
	progress func()
}

// Read reads and calls progress.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.progress()
	}
	return n, err
}

// readEvents reads a stream of events in the format text/event-stream, until the service says that it is done or the stream ends.
func (a *answer) readEvents(in *bufio.Reader, progress, report func()) error {
	lines := lines{in: in}
	var data []byte
	var kind string
	over := func() error { // ends an event
		event, failed := bytes.TrimSpace(data), kind == "error"
		data, kind = data[:0], ""
		if len(event) == 0 {
			return nil
		}
		progress()
		if err := a.add(event); err != nil {
			return err
		}
		if report(); !failed {
			return nil
		}
		return reportedIn(event)
	}
	for {
		line, err := lines.next()
		if err != nil && err != io.EOF {
			return err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			last := string(bytes.TrimSpace(value)) == "[DONE]"
			if last || divides(data, value) {
				if err := over(); err != nil {
					return err
				}
			}
			if last {
				a.done = true
				return nil
			}
			if len(data)+len(value) > maxSize {
				return errLong
			}
			data = append(append(data, value...), '\n')
		case "event":
			kind = string(value)
		}
		if err == io.EOF {
			cut := len(line) > 0 && (a.chosen || strings.HasPrefix("data", string(name))) && (string(name) != "data" || blank(string(value)))
			return a.ended(cut, over())
		}
		if len(line) == 0 {
			if err := over(); err != nil {
				return err
			}
		}
	}
}

// ended returns the error of a stream that ended without the service saying that it is done. It is an error if the stream was cut
// in the middle of a line or its last event cannot be read. After a finish reason nothing is missing.
func (a *answer) ended(cut bool, last error) error {
	if _, is := errors.AsType[*jsontext.SyntacticError](last); is {
		cut, last = true, nil
	}
	if cut && last == nil && !a.last() {
		return errBroken
	}
	return last
}

// divides reports whether a line of data begins a new event although no blank line preceded it: the data so far ends an object,
// and JSON does not allow two objects in a row.
func divides(data, line []byte) bool {
	return bytes.HasSuffix(bytes.TrimSpace(data), []byte("}")) && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))
}

// lines reads lines that end with CR, LF or both.
type lines struct {
	in   *bufio.Reader
	line []byte
	cr   bool // the previous line ended with CR
}

// next returns the next line, which is valid until the next call, and [io.EOF] together with the last one. If the connection
// breaks, it returns an error without the incomplete line.
func (l *lines) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		b, err := l.in.ReadByte()
		switch {
		case err == io.EOF:
			return l.line, io.EOF
		case err != nil:
			return nil, brokenOff(err)
		case b == '\n' && l.cr:
			l.cr = false
		case b == '\n' || b == '\r':
			l.cr = b == '\r'
			return l.line, nil
		case len(l.line) > maxSize:
			return nil, errLong
		default:
			l.cr = false
			l.line = append(l.line, b)
		}
	}
}
