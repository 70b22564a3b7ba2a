package conform

import (
	"regexp"
	"slices"
	"strings"
)

// A Side is one of the two peers of the protocol.
type Side string

// The sides.
const (
	Tool    Side = "T" // a tool server
	Runtime Side = "R" // a runtime
)

// A Level says how binding a case is.
type Level string

// The levels, from the strictest down.
const (
	Must    Level = "M" // the public protocol requires it
	Should  Level = "S" // the public protocol recommends it
	Profile Level = "P" // Millrace's profile: stricter, but compatible with peers that do not follow it
)

// A Case is one row of the table of conformance cases (doc/protocol.md §14).
type Case struct {
	// ID is a letter for the subject and two digits, such as A06.
	ID string `json:"id"`
	// Sides are the sides that the case is for: "T", "R" or "R/T".
	Sides string `json:"sides"`
	// Level says how binding the case is.
	Level Level `json:"level"`
	// Action is what is done to the side under test.
	Action string `json:"action"`
	// Expected is the required outcome.
	Expected string `json:"expected"`
	// Section is the section of doc/protocol.md with the rule, such as "4.3".
	Section string `json:"section"`
}

// For reports whether the case is for a side.
func (c Case) For(side Side) bool { return strings.Contains(c.Sides, string(side)) }

// Cases returns all cases of both sides, in the order of the table. The slice is
// the caller's.
func Cases() []Case { return slices.Clone(table) }

// chosen returns the cases of a side that the options select. Run is a regular expression that must
// match the whole id, and the level must be among the letters of Levels.
func (o Options) chosen(side Side) ([]Case, error) {
	run, err := regexp.Compile("^(?:" + o.Run + ")$")
	if err != nil {
		return nil, &UsageError{"the filter is not a regular expression: " + err.Error()}
	}
	for _, l := range o.Levels {
		if l != 'M' && l != 'S' && l != 'P' {
			return nil, &UsageError{"levels are some of the letters M, S and P"}
		}
	}
	var some []Case
	for _, c := range Cases() {
		if c.For(side) && (o.Run == "" || run.MatchString(c.ID)) && (o.Levels == "" || strings.Contains(o.Levels, string(c.Level))) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return nil, &UsageError{"no case of this side is chosen"}
	}
	return some, nil
}

// A UsageError says that a request was invalid: a filter that matches nothing, or a profile or a
// baseline that cannot be read. No case was run.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return "conform: " + e.Reason }
