// Package long says how far the searches of tests go.
//
// A test that tries seeds, schedules or moments of a crash one after the other finds most bugs with the
// first of them. So go test ./... tries few, and takes about a minute; .ci/run sets the variable
// [Variable] and tries many.
package long

import "os"

// Variable is set to anything but the empty string for the long searches.
const Variable = "MILLRACE_LONG"

// Searches reports whether searches are long.
func Searches() bool { return os.Getenv(Variable) != "" }

// Of returns many where searches are long, else few.
func Of(few, many int) int {
	if Searches() {
		return many
	}
	return few
}
