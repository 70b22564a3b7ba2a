package model

import "slices"

// Shrink returns a program and a history for which fails still holds, but no
// longer holds if one operator or one record is removed.
func Shrink(p *Program, h History, fails func(*Program, History) bool) (*Program, History) {
	for again := true; again; {
		again = false
		for i := len(h) - 1; i >= 0; i-- {
			if less := slices.Delete(slices.Clone(h), i, i+1); fails(p, less) {
				h, again = less, true
			}
		}
		for i := len(p.nodes) - 1; i >= 0; i-- {
			less := p.without(i)
			if less == nil {
				continue
			}
			records := slices.DeleteFunc(slices.Clone(h), func(r Record) bool { return r.input == i })
			for r := range records {
				if records[r].input > i {
					records[r].input--
				}
			}
			if fails(less, records) {
				p, h, again = less, records, true
			}
		}
	}
	return p, h
}
