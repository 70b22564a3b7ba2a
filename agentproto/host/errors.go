package host

import (
	"errors"
	"strings"
)

var (
	// ErrStopped is returned by the methods of a [Runtime] that was stopped, or
	// whose context ended.
	ErrStopped = errors.New("host: stopped")

	// ErrBadID is returned by [Runtime.Call] for an identifier that is empty, too
	// long, not UTF-8, or contains control characters.
	ErrBadID = errors.New("host: bad identifier")

	// ErrDuplicateCall is returned by [Runtime.Call] for a key that was used before.
	// The earlier call is not touched.
	ErrDuplicateCall = errors.New("host: identifier was used before in this thread")

	// ErrBadChoice is returned by [Runtime.Answer] for a selection that is not an
	// index into the choices of the prompt.
	ErrBadChoice = errors.New("host: no such choice")
)

// A Problem is something that keeps a toolset, or one tool, from being offered.
// It is found by discovery and reported by [Runtime.Problems]; it is never fatal,
// because the other toolsets are of use without it.
type Problem struct {
	Toolset string // base URL of the tool server, as configured
	Tool    string // the tool, if the problem is of one tool
	Err     error
}

// Error returns the problem in one line.
func (p Problem) Error() string {
	if p.Tool != "" {
		return "toolset " + p.Toolset + ": tool " + quoted(p.Tool) + ": " + p.Err.Error()
	}
	return "toolset " + p.Toolset + ": " + p.Err.Error()
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// withoutPackage returns the text of an error of agentproto without the package's name, for
// people and models.
func withoutPackage(err error) string { return strings.TrimPrefix(err.Error(), "agentproto: ") }
