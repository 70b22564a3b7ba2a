package dataflow

import (
	"fmt"
	"log"
	"strings"

	"github.com/millrace/millrace/internal/engine"
)

// A BlockedError says why a location does not run: more elements than [Options].Buffer wait
// unread at one of its outputs, or more calls than [Options].Queue wait for others to
// return. Send, SendBatch, Next, Await, Take and Stop return it if their context ends while
// they wait for such a location, directly or through locations that wait for it. It wraps
// the context's cause.
type BlockedError struct {
	Location string   // the location that does not run
	Op       string   // operator that keeps it from running, such as "dataflow.Output"
	Port     string   // name of the output, or empty
	Pos      string   // file:line of the call that made it
	Waiting  int      // unread elements, or calls that wait for their turn
	Bound    int      // how many may wait
	Calls    bool     // asynchronous calls wait, not elements
	Running  int      // running calls
	Via      []string // the locations that wait for Location, starting with the one that the caller uses
	Err      error    // the context's cause; nil if passed to [Options].OnBlocked
}

// Error says which location does not run, why, and what to do.
func (e *BlockedError) Error() string {
	var b strings.Builder
	b.WriteString("dataflow: location ")
	for _, waits := range e.Via {
		fmt.Fprintf(&b, "%s waits for ", waits)
	}
	b.WriteString(e.Location)
	which := fmt.Sprintf("%s (%s)", e.Op, e.Pos)
	if e.Port != "" {
		which = fmt.Sprintf("output %q (%s)", e.Port, e.Pos)
	}
	switch {
	case !e.Calls && e.Port == "":
		fmt.Fprintf(&b, " is stopped: %d elements wait to be sent by %s, and %d may", e.Waiting, which, e.Bound)
	case !e.Calls:
		fmt.Fprintf(&b, " is stopped: %s has %d unread elements, and %d may wait: read it, or do not make it", which, e.Waiting, e.Bound)
	case e.Waiting > e.Bound:
		fmt.Fprintf(&b, " is stopped: %d calls of %s wait for the %d that run, and %d may: have the function return sooner, or allow more at a time", e.Waiting, which, e.Running, e.Bound)
	default:
		fmt.Fprintf(&b, " has not ended: %d calls of %s run and %d wait: have the function return when its context ends", e.Running, which, e.Waiting)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *BlockedError) Unwrap() error { return e.Err }

func blockedError(b *engine.Blocked) *BlockedError {
	op, port, _ := strings.Cut(b.Op.Name, " ")
	return &BlockedError{
		Location: b.Location(), Op: op, Port: port, Pos: b.Op.Pos,
		Waiting: b.Waiting, Bound: b.Bound, Calls: b.Calls, Running: b.Running, Via: b.Via, Err: b.Cause,
	}
}

// told reports that a location has been stopped for a while.
func (o Options) told(b *engine.Blocked) {
	e := blockedError(b)
	if o.OnBlocked != nil {
		o.OnBlocked(e)
		return
	}
	log.Print(e) // slog.SetDefault redirects it; package slog itself would link encoding/json
}
