package main

import "slices"

// A kind is what a step of a client's account is.
type kind int

const (
	ask kind = iota
	giveBack
)

// A step is that a request is made, or that its window is over.
type step struct {
	Kind    kind
	Request string
}

// A turn is what has come of a step.
type turn struct {
	step
	answer
}

// permits returns by how many the permits in use change.
func (t turn) permits() int {
	switch {
	case !t.Passed:
		return 0
	case t.Kind == ask:
		return 1
	}
	return -1
}

// An account is the permits of a client: some are free, the others are with requests
// whose window is not over.
type account struct {
	free int
	with []string
}

// take gives a permit to a request, if one is free, and takes it back when the window
// of the request is over.
func (a *account) take(s step, emit func(turn)) {
	passed := false
	switch s.Kind {
	case ask:
		if passed = a.free > 0; passed {
			a.free--
			a.with = append(a.with, s.Request)
		}
	case giveBack:
		// A request that was refused has none.
		if i := slices.Index(a.with, s.Request); i >= 0 {
			passed = true
			a.free++
			a.with = slices.Delete(a.with, i, i+1)
		}
	}
	emit(turn{s, answer{passed, a.free}})
}
