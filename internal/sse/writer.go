// Package sse writes and reads server-sent events (WHATWG HTML, section 9.2). A [Writer] is the
// answer to a request, a [Reader] reads one.
package sse

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/internal/plain"
)

// Options are the settings of a [Writer]. The zero value of each field is the default that its
// comment names.
type Options struct {
	// Quiet is how long nothing may be written before a comment is, so that the reader and what
	// is between know that the connection is good. Zero means 15 s.
	Quiet time.Duration
	// Stall is how long one write may take. A reader that takes nothing for so long is cut off.
	// Zero means 10 s.
	Stall time.Duration
}

// A Writer writes events to the answer of a request. Its methods may be used concurrently.
type Writer struct {
	opts Options
	to   *http.ResponseController

	mu    sync.Mutex
	w     http.ResponseWriter
	buf   bytes.Buffer
	beat  *time.Timer
	err   error // of the first write that failed
	ended bool
}

// Begin answers 200 and returns a writer for the events. The deadlines of the server no longer hold
// for the answer: each write has its own. The caller calls [Writer.End] before its handler returns.
func Begin(w http.ResponseWriter, o Options) *Writer {
	if o.Quiet == 0 {
		o.Quiet = 15 * time.Second
	}
	if o.Stall == 0 {
		o.Stall = 10 * time.Second
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // or a proxy may hold back what is short
	s := &Writer{opts: o, w: w, to: http.NewResponseController(w)}
	// net/http goes on reading to notice that the client has gone. At the end of its read deadline
	// it would take a client for gone that has nothing to say.
	_ = s.to.SetReadDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.AfterFunc(o.Quiet, s.comment)
	return s
}

// Send writes an event whose data is JSON, in which what cannot be seen is escaped. An empty id leaves the reader's last one as it is.
func (s *Writer) Send(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.Text(name, id, plain.JSON(text))
}

// Text writes an event whose data is text of any number of lines. An empty name is an event
// without one, which readers take for "message".
func (s *Writer) Text(name, id string, data []byte) error {
	if strings.ContainsAny(name+id, "\r\n\x00") {
		return fmt.Errorf("sse: an event cannot be named %q or have the id %q", name, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(&s.buf, "event: %s\n", name)
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		fmt.Fprintf(&s.buf, "data: %s\n", line)
	}
	s.buf.WriteByte('\n')
	return s.flush()
}

// Retry tells the reader how long to wait before it asks again, if it is cut off.
func (s *Writer) Retry(after time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.buf, "retry: %d\n\n", after.Milliseconds())
	return s.flush()
}

// comment is written when nothing else was.
func (s *Writer) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.WriteString(":\n\n")
	_ = s.flush()
}

// flush writes what is in the buffer. It is called with mu held.
func (s *Writer) flush() error {
	defer s.buf.Reset()
	if s.ended {
		return http.ErrHandlerTimeout
	}
	if s.err != nil {
		return s.err
	}
	_ = s.to.SetWriteDeadline(time.Now().Add(s.opts.Stall))
	if _, s.err = s.w.Write(s.buf.Bytes()); s.err == nil {
		s.err = s.to.Flush()
	}
	if s.err == nil {
		s.beat.Reset(s.opts.Quiet)
	}
	return s.err
}

// End has nothing more written, so that the handler can return.
func (s *Writer) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.beat.Stop()
}
