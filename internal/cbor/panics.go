package cbor

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
)

// caught turns a panic of a method of a value, such as MarshalBinary, into an error. It is deferred around whatever calls such
// methods: a partition is run by a goroutine that is not the caller's, and one record must not end the process each time it is
// read.
func caught(what string, t reflect.Type, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s %v: panic at %s: %v", what, t, origin(), p)
	}
}

// origin returns the base name and the line of the function that panics.
func origin() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "internal/runtime/")
		if panicked && !inRuntime || !more {
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
}
