package dataflow

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/engine"
)

var (
	// ErrClosed is returned when an input is sent to after it was closed or its flow
	// was stopped.
	ErrClosed = engine.ErrClosed

	// ErrDuplicateKey is returned by [EntryInputPort.Put] for a key that was put before.
	// The value that is there stays.
	ErrDuplicateKey = engine.ErrDuplicate

	// ErrStarted is returned when a flow is started a second time.
	ErrStarted = errors.New("dataflow: the flow was started before")
)

// A StepError says that a function given to an operator panicked. It ends the flow:
// [App.Err], inputs and outputs return it.
type StepError struct {
	Op       string // operator, such as "keyedstream.Fold"
	Pos      string // file:line where the operator was built
	Location string // name of the location, such as "Server"
	Key      any    // the key being worked on, or nil if the operator has none
	Err      error  // what the function panicked with
	Stack    []byte // where, as runtime/debug.Stack prints it
}

// Error says which operator failed, where, on which key, and why.
func (e *StepError) Error() string {
	key := ""
	if e.Key != nil {
		key = fmt.Sprintf(" on key %v", e.Key)
	}
	return fmt.Sprintf("dataflow: %s (%s) at %s%s: %v", e.Op, e.Pos, e.Location, key, e.Err)
}

// Unwrap returns e.Err.
func (e *StepError) Unwrap() error { return e.Err }

func stepError(p *engine.Panic) error {
	err, ok := p.Value.(error)
	if !ok {
		err = fmt.Errorf("panic: %v", p.Value)
	}
	return &StepError{Op: p.Op.Name, Pos: p.Op.Pos, Location: p.Site, Key: p.Key, Err: err, Stack: p.Stack}
}
