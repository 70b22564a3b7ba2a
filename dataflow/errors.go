package dataflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/engine"
)

var (
	// ErrClosed is returned when an input is sent to after it was closed or its flow
	// was stopped.
	ErrClosed = engine.ErrClosed

	// ErrDuplicateKey is returned by [EntryInputPort.Put] for a key that was put before.
	// The existing value stays.
	ErrDuplicateKey = engine.ErrDuplicate

	// ErrQuarantined says that a record of a durable flow is kept but the program cannot
	// handle it; see durable.QuarantinedError, which has the number of the letter.
	ErrQuarantined = errors.New("dataflow: the record is kept in quarantine")

	// ErrTaken is returned by [EntryOutputPort.Take] for an entry that another Take has
	// taken.
	ErrTaken = engine.ErrTaken

	// ErrKey says that a value cannot be a key; see [KeyError].
	ErrKey = errors.New("dataflow: the value cannot be a key")

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
	Stack    []byte // stack of the panic, as runtime/debug.Stack prints it
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
	key := p.Key
	if made, ok := key.(interface{ ErrorKey() any }); ok { // the operator derived it from the key that it was given
		key = made.ErrorKey()
	}
	return &StepError{Op: p.Op.Name, Pos: p.Op.Pos, Location: p.Location, Key: key, Err: err, Stack: p.Stack}
}

// A KeyError says that a value cannot be a key. Either it is not equal to itself, like a
// NaN, or an interface in it holds a value that cannot be hashed, like a slice. errors.Is
// reports it as [ErrKey].
//
// A port that is given such a key returns the error and does nothing else. An operator
// whose function made such a key ends the flow with a [StepError] that wraps the error. The
// readers of a durable flow also refuse a key that is different after encoding and decoding,
// because its type encodes only a part of it, since no entry is ever found under it.
//
// A negative zero is not such a value. It equals zero, so it is the same key, and wherever
// it is in a key zero takes its place.
type KeyError struct {
	Op   string // operator that made the port or the key, such as "keyedsingleton.Input"
	Port string // name of the port, or empty
	Pos  string // file:line where the operator was built
	Key  any
	Err  error // why it cannot be a key

	// Index is the index of the key in the batch that was sent, or -1 if it was not sent in
	// a batch.
	Index int
}

// Error says which key is refused, where, and why.
func (e *KeyError) Error() string {
	key := shortened(fmt.Sprint(e.Key))
	if errors.Is(e.Err, engine.ErrUnhashable) { // it may be large, and another goroutine may be writing to it
		key = fmt.Sprintf("a %T", e.Key)
	}
	port := ""
	if e.Port != "" {
		port = fmt.Sprintf(" %q", e.Port)
	}
	entry := ""
	if e.Index >= 0 {
		entry = fmt.Sprintf("entry %d of a batch: ", e.Index)
	}
	return fmt.Sprintf("%s%s (%s): %s%s cannot be a key: %v", strings.Replace(e.Op, ".", ": ", 1), port, e.Pos, entry, key, e.Err)
}

// Is reports whether target is [ErrKey].
func (e *KeyError) Is(target error) bool { return target == ErrKey }

// Unwrap returns e.Err.
func (e *KeyError) Unwrap() error { return e.Err }

func keyError(b *engine.BadKey) error {
	op, port, _ := strings.Cut(b.Op.Name, " ")
	return &KeyError{Op: op, Port: port, Pos: b.Op.Pos, Key: b.Key, Err: b.Why, Index: b.Index}
}

// shortened returns s, or its beginning if it is long.
func shortened(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
