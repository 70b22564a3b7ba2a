package toolserver

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var errPanicked = errors.New("the tool failed unexpectedly")

// protect runs the tool's function. A panic, or a [runtime.Goexit], becomes an
// error with fixed words; what it was is for the log only. The function has a goroutine of
// its own, which it may end.
func (c *call) protect(f func() (any, error)) (out any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if returned {
				return
			}
			what := fmt.Sprint(recover()) // nil if it ended its goroutine
			if c.server.guard.Finds([]byte(what)) {
				what = redacted
			}
			c.server.log.Error("tool panicked", "tool", c.tool.manifest.Name, "panic", what, "stack", string(debug.Stack()))
			out, err = nil, errPanicked
		}()
		out, err = f()
		returned = true
	}()
	<-done
	return out, err
}
