package engine

import "slices"

// A Loop is a cycle while a flow is built: what it is, and which cycles lie between
// it and what was fed back to it.
type Loop struct {
	Name string
	From []*Loop // cycles that the completing stream follows without a record in between
	Done bool
}

// Reaches returns the loops on a way from l back to target, or nil. A loop that was
// visited is not visited again, since loops that a record separates may be circular.
func (l *Loop) Reaches(target *Loop, path []*Loop) []*Loop {
	if slices.Contains(path, l) {
		return nil
	}
	path = append(path, l)
	if l == target {
		return path
	}
	for _, f := range l.From {
		if p := f.Reaches(target, path); p != nil {
			return p
		}
	}
	return nil
}

// union returns the loops in a or b, and leaves both as they are.
func union(a, b []*Loop) []*Loop {
	for _, l := range b {
		if !slices.Contains(a, l) {
			a = append(slices.Clip(a), l)
		}
	}
	return a
}
