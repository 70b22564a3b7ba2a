package engine

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
)

// An Op is one operator of a flow, as errors, traces and graphs name it.
type Op struct {
	Name string // package and function, such as "keyedstream.Fold"
	Pos  string // file:line of the call that made it
	Why  string // the reason given, for operators that take one

	// Proof is what somebody vouched for, for operators that take the word of who
	// builds a flow.
	Proof string

	site   *Site
	ins    []*Op   // what it reads; see graph.go
	region *Region // the slice it belongs to
	index  int32
	clock  bool       // it reads the time
	later  bool       // what it gives comes as a record of a later step
	at     int        // element being worked on, kept by keyed operators
	key    func() any // its key; nil for operators without keys
	states []state    // what it remembers; see state.go
	empty  []any      // pointers to what is of no use, and empty, between steps, in a graph that is checked
	unread []any      // pointers to what is of no use between steps there
	enters []*counter // of what it reads, if the graph counts
}

// NewOp adds an operator to the site of h.
func NewOp(s *Site, name, why string) *Op {
	if s.g.Begun() {
		Misuse(name, "the flow has been started, nothing can be added to it")
	}
	op := &Op{Name: name, Pos: caller(), Why: why, site: s, index: int32(len(s.ops))}
	s.ops = append(s.ops, op)
	op.again()
	return op
}

// enter marks op as the one that is running user code, for the error that names it.
func (op *Op) enter() { op.site.at = op.index }

// A Panic says that a function given to an operator panicked.
type Panic struct {
	Op     *Op
	Site   string
	Key    any // the key being worked on, if HasKey
	HasKey bool
	Value  any // what it panicked with
	Stack  []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("%s at %s: %v", p.Op.Name, p.Op.Pos, p.Value) }

// Reasoned is NewOp for an operator that takes a reason.
func Reasoned(s *Site, name, why string) *Op {
	if strings.TrimSpace(why) == "" {
		Misuse(name, "what depends on timing needs a reason: say why the result does not, or why it may")
	}
	return NewOp(s, name, why)
}

// Proved is NewOp for an operator whose result is right only if its function has a
// property that the compiler cannot see.
func Proved(s *Site, name, proof string) *Op {
	if strings.TrimSpace(proof) == "" {
		Misuse(name, "what the compiler cannot see needs a proof: say why the function has the property that is asked for")
	}
	op := NewOp(s, name, "")
	op.Proof = proof
	return op
}

// Misuse panics because a program is wrong before it has run, with the words
// "package: operator: what".
func Misuse(op, format string, args ...any) {
	panic(strings.Replace(op, ".", ": ", 1) + ": " + fmt.Sprintf(format, args...))
}

// Given panics if one of the functions that op was given is nil.
func Given(op string, functions ...any) {
	for _, f := range functions {
		if v := reflect.ValueOf(f); !v.IsValid() || v.IsNil() {
			Misuse(op, "the function given at %s is nil: it is a %T", caller(), f)
		}
	}
}

// NilContext panics because op, a method of a port or a function, was given no context.
func NilContext(op string) {
	Misuse(op, "the context given at %s is nil: use context.Background if nothing ends the wait", caller())
}

// Unmade panics because a value of type op was used that nothing made; how says what
// does.
func Unmade(op, how string) {
	Misuse(op, "the value used at %s is nil or a zero value: %s", caller(), how)
}

const module = "github.com/millrace/millrace/"

// caller returns the place outside the library's own packages, or in one of their tests,
// from which an operator was built.
func caller() string {
	var pcs [16]uintptr
	n := runtime.Callers(3, pcs[:])
	if known, ok := callers.Load(pcs); ok {
		return known.(string)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if !own(f.Function) || strings.HasSuffix(f.File, "_test.go") || !more {
			place := fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
			callers.Store(pcs, place)
			return place
		}
	}
}

// callers are the places by their stacks: a simulation builds one flow thousands of times.
var callers sync.Map // of [16]uintptr to string

// own reports whether a function belongs to a package whose frames a user did not write.
func own(function string) bool {
	rest, ok := strings.CutPrefix(function, module)
	if !ok {
		return false
	}
	for _, p := range [...]string{"dataflow.", "keyedstream.", "keyedsingleton.", "singleton.", "optional.", "slice.", "dataflow/serve.", "dataflow/durable.", "dataflow/sim.", "internal/engine.", "internal/engine/"} {
		if strings.HasPrefix(rest, p) {
			return true
		}
	}
	return false
}
