// Package panics turns panics of functions of the program into errors. Connectors call such functions on goroutines of their own,
// where a panic would end the process each time the function is given the same record or element.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Catch is deferred. If the function that defers it panics, it sets *err to an error with the stack. doing says what the function
// was doing, such as "decoding it".
func Catch(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v\n%s", doing, p, debug.Stack())
	}
}

// ErrGoexit says that a function of the program ended the goroutine that called it, as FailNow of a test does. Nothing can catch
// that. So a goroutine that calls such functions reports this error in a deferred function unless they have returned: without
// that, what it has left undone would count as done, or wait for ever.
var ErrGoexit = errors.New("a function of the program called runtime.Goexit")
