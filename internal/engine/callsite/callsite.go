// Package callsite finds where a program built something: the place outside this library, and the calls that led there.
package callsite

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const module = "github.com/millrace/millrace/"

// Caller returns, as file:line, the innermost call on the stack that is outside the library's own packages, or in one of their
// tests.
func Caller() string {
	var pcs [16]uintptr
	for _, deep := range [...]int{4, len(pcs)} { // each frame costs, and the caller is rarely far away
		n := runtime.Callers(3, pcs[:deep])
		if known, ok := places.Load(pcs); ok {
			return known.(string)
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if !own(f.Function) || strings.HasSuffix(f.File, "_test.go") || !more && (n < deep || deep == len(pcs)) {
				place := fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
				places.Store(pcs, place)
				return place
			}
		}
	}
	return "unknown"
}

// places caches places by stack, since a simulation builds one flow thousands of times.
var places sync.Map // of [16]uintptr to string

// own reports whether a function belongs to a package of this library that users do not write.
func own(function string) bool {
	rest, ok := strings.CutPrefix(function, module)
	if !ok {
		return false
	}
	for _, p := range [...]string{"dataflow.", "keyedstream.", "keyedsingleton.", "singleton.", "optional.", "slice.", "dataflow/serve.", "dataflow/durable.", "dataflow/recordings.", "dataflow/sim.", "dataflow/window.", "internal/engine.", "internal/engine/"} {
		if strings.HasPrefix(rest, p) {
			return true
		}
	}
	return false
}

// A Stack is a stack of calls. It is cheap to keep; its frames are resolved only on demand.
type Stack []uintptr

// deepest is the number of frames that are kept, the innermost ones.
const deepest = 48

// Here returns the stack of the caller.
func Here() Stack {
	var pcs [deepest]uintptr
	return slices.Clone(pcs[:runtime.Callers(2, pcs[:])])
}

// A Frame is a call.
type Frame struct {
	Func string // the function that contains the call, with its package
	Pos  string // file:line
}

// Frames returns the calls of a stack in functions of the program, leaving out this library, from the outermost on.
func (s Stack) Frames() (calls []Frame) {
	if len(s) == 0 {
		return nil
	}
	frames := runtime.CallersFrames(s)
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if !own(f.Function) && !strings.HasPrefix(f.Function, "runtime.") || strings.HasSuffix(f.File, "_test.go") {
			calls = append(calls, Frame{f.Function, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)})
		}
	}
	slices.Reverse(calls)
	return calls
}
