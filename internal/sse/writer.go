// Package sse writes and reads server-sent events (WHATWG HTML, section 9.2). A [Writer] writes the
// answer to a request, and a [Reader] reads one.
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

// Options are the settings of a [Writer]. A zero field means the default that its comment names.
type Options struct {
	// Quiet is the time without output after which a comment is written, so that the reader and
	// intermediaries know that the connection works. Zero means 15 s.
	Quiet time.Duration
	// Stall is the maximum time of one write. A reader that takes nothing for that long is
	// disconnected. Zero means 10 s.
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
	err   error // the first error of a write
	ended bool
}

// Begin answers 200 and returns a writer for the events. The server's deadlines no longer apply to
// the answer: each write has its own. The caller must call [Writer.End] before its handler returns.
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
	h.Set("X-Accel-Buffering", "no") // otherwise a proxy may buffer short data
	s := &Writer{opts: o, w: w, to: http.NewResponseController(w)}
	// net/http continues to read, to notice when the client has gone. At the end of the read
	// deadline it would treat a silent client as gone.
	_ = s.to.SetReadDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = time.AfterFunc(o.Quiet, s.comment)
	return s
}

// Send writes an event whose data is JSON, with invisible characters escaped. With an empty id, the
// reader keeps its last ID.
func (s *Writer) Send(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.Text(name, id, plain.JSON(text))
}

// Text writes an event whose data is text with any number of lines. If the name is empty, the event
// has none, and readers use "message".
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

// Retry tells the reader how long to wait before it reconnects.
func (s *Writer) Retry(after time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.buf, "retry: %d\n\n", after.Milliseconds())
	return s.flush()
}

// comment writes a comment when nothing else was written.
func (s *Writer) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.WriteString(":\n\n")
	_ = s.flush()
}

// flush writes the buffer. The caller holds mu.
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

// End stops all further output, so that the handler can return.
func (s *Writer) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.beat.Stop()
}
