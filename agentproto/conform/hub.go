package conform

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// A hub is the callback endpoint of a runtime that the runner plays. Every call has its own line,
// which answers as its case requires.
type hub struct {
	addr   string
	mu     sync.Mutex
	lines  map[string]*line // by path
	seen   []string         // everything received, for the search for tokens
	strays []string         // requests to no line
	server *edge.Server     // nil while shut
}

// maxCallback limits the body of a callback, and unhurried is how long a case may delay an answer.
const (
	maxCallback = 16 << 20
	unhurried   = 10 * time.Minute
)

// newHub returns a hub that listens at addr, a host with a port.
func newHub(addr string) (*hub, error) {
	h := &hub{addr: addr, lines: make(map[string]*line)}
	return h, h.open()
}

// open starts to listen. After shut it listens at the same port again.
func (h *hub) open() error {
	l, err := net.Listen("tcp", h.addr)
	if err != nil {
		return fmt.Errorf("conform: callback endpoint: %w", err)
	}
	h.addr = l.Addr().String()
	h.server = edge.New(h, edge.Options{Body: maxCallback, Write: unhurried})
	go h.server.Serve(l)
	return nil
}

// shut stops listening: connections are refused.
func (h *hub) shut() {
	h.server.Close()
	h.server = nil
}

func (h *hub) closed() bool { return h.server == nil }

func (h *hub) origin() string { return "http://" + h.addr }

// line returns a new line that gives the answers one after the other, and 200 after the last one.
func (h *hub) line(script ...answer) *line {
	path := "/callback/" + rand.Text()
	l := &line{hub: h, url: h.origin() + path, script: script, changed: make(chan struct{}), over: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines[path] = l
	return l
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	l := h.lines[r.URL.Path]
	h.seen = append(h.seen, r.Method+" "+r.URL.String()+fmt.Sprint(r.Header)+string(body))
	if l == nil {
		h.strays = append(h.strays, r.Method+" "+r.URL.Path)
	}
	h.mu.Unlock()
	if l == nil {
		http.NotFound(w, r)
		return
	}
	a := l.take(r, body)
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.hold {
		select { // until the sender gives up
		case <-r.Context().Done():
		case <-l.over:
		}
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(a.status)
}

// evidence returns everything that was received.
func (h *hub) evidence() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.seen, "\n")
}

// An answer is the answer to a callback.
type answer struct {
	status int
	header map[string]string
	hold   bool // do not answer until the sender gives up
}

// A line is a callback address and the messages it received.
type line struct {
	hub *hub
	url string

	mu      sync.Mutex
	script  []answer
	got     []*message
	read    int
	changed chan struct{} // closed and replaced when a message arrives
	over    chan struct{} // closed at the end of the case
}

// take records a message and returns how to answer it.
func (l *line) take(r *http.Request, body []byte) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := answer{status: http.StatusOK}
	if len(l.script) > 0 {
		a, l.script = l.script[0], l.script[1:]
	}
	l.got = append(l.got, newMessage(r, body, a))
	close(l.changed)
	l.changed = make(chan struct{})
	return a
}

// answers replaces the rest of the script.
func (l *line) answers(script ...answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = script
}

var errNothing = errors.New("nothing came")

// next returns the next message, in order of arrival. It waits for at most d.
func (l *line) next(ctx context.Context, d time.Duration) (*message, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		if l.read < len(l.got) {
			m := l.got[l.read]
			l.read++
			l.mu.Unlock()
			return m, nil
		}
		l.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return nil, errNothing
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// all returns all messages so far.
func (l *line) all() []*message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*message(nil), l.got...)
}

// end releases requests that were not answered.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}
