package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// commentEvery is longer than progressEvery, so that a client that receives progress notifications gets no comments.
const commentEvery = 20 * time.Second

// commented is an event stream that sends a comment whenever nothing else was sent for commentEvery. Clients ignore comments, but
// the bytes keep proxies, and clients with a read timeout, from closing the connection. The comments start with the first event,
// so an answer that is not an event stream has none.
//
// Its methods may be called concurrently with each other, and not after end.
type commented struct {
	http.ResponseWriter

	mu    sync.Mutex
	timer *time.Timer // nil before the first event
	ended bool
}

// Write implements [io.Writer].
func (c *commented) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.ResponseWriter.Write(b)
	switch {
	case c.ended || err != nil:
	case c.timer != nil:
		c.timer.Reset(commentEvery)
	case strings.HasPrefix(c.Header().Get("Content-Type"), "text/event-stream"):
		c.timer = time.AfterFunc(commentEvery, c.comment)
	}
	return n, err
}

// FlushError is for [http.ResponseController].
func (c *commented) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (c *commented) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// comment sends a comment and schedules the next one.
func (c *commented) comment() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if _, err := c.ResponseWriter.Write([]byte(": waits\n\n")); err != nil {
		return // the client has disconnected, which the handler notices by itself
	}
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	c.timer.Reset(commentEvery)
}

// end stops the comments. None is being sent when it returns.
func (c *commented) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.timer != nil {
		c.timer.Stop()
	}
}
