package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// commentEvery is longer than progressEvery, so that a client which is told of progress gets no comments.
const commentEvery = 20 * time.Second

// commented is an event stream that gets a comment for every commentEvery in which nothing else is sent. Clients ignore comments; what
// counts is that bytes arrive: proxies, and clients that wait so long for bytes, keep the connection. It begins with the first event, so
// an answer that is none has no comments.
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

// comment sends a comment, and the next one later.
func (c *commented) comment() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if _, err := c.ResponseWriter.Write([]byte(": waits\n\n")); err != nil {
		return // the client has gone, which the handler notices by itself
	}
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	c.timer.Reset(commentEvery)
}

// end ends the comments. None is being sent when it returns.
func (c *commented) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.timer != nil {
		c.timer.Stop()
	}
}
