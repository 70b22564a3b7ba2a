// Package long says how thorough the searches of tests are.
//
// A test that tries seeds, schedules or moments of a crash one after the other finds most bugs with the
// first of them. So go test ./... tries few, and .ci/run sets the variable
// [Variable] and tries many.
package long

import "os"

// Variable is the environment variable that makes searches long if it is not empty.
const Variable = "MILLRACE_LONG"

// Searches reports whether searches are long.
func Searches() bool { return os.Getenv(Variable) != "" }

// Of returns many if searches are long, and few otherwise.
func Of(few, many int) int {
	if Searches() {
		return many
	}
	return few
}
