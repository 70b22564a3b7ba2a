// Package panics turns panics of functions of the program into errors. Connectors call such functions on goroutines of their own,
// where a panic would end the process each time the function is given the same record or element.
package panics

import (
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
