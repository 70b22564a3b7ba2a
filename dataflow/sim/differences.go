package sim

// A moment is a time that depends on when a step read the clock: so long after it.
type moment struct {
	read int // its number, from 1 on; 0 is the beginning
	plus int64
}

// A difference says that a moment is not before another one, or after it. They are kept as x >= y + by.
type difference struct {
	x, y int
	by   int64
	// tie says that equal moments do, if nothing else does: otherwise x is at least a nanosecond
	// later.
	tie bool
}

// latest is the latest time at which a step is tried, some 36 years after the beginning. A timer may
// be due later.
const latest = int64(1) << 60

// differences are what has to hold of the times at which steps read the clock.
type differences []difference

// after says that x is after y. With tie it may be the same moment.
func (all *differences) after(x, y moment, tie bool) {
	if x.read == y.read && tie && x.plus == y.plus {
		return
	}
	*all = append(*all, difference{x.read, y.read, 1 + y.plus - x.plus, tie})
}

// solve returns the earliest times of reads that satisfy all differences, where those that are
// fixed are not 0. It prefers solutions without ties. It returns nil if there is none.
func (all differences) solve(fixed []int64) []int64 {
	if at := all.earliest(fixed, 0); at != nil {
		return at
	}
	return all.earliest(fixed, 1)
}

// earliest is solve with ties, which are by so much less.
func (all differences) earliest(fixed []int64, tie int64) []int64 {
	at := make([]int64, len(fixed))
	copy(at, fixed)
	for range fixed {
		changed := false
		for _, d := range all {
			by := d.by
			if d.tie {
				by -= tie
			}
			if by > latest-at[d.y] {
				return nil
			}
			if least := at[d.y] + by; at[d.x] < least {
				if d.x == 0 || fixed[d.x] != 0 {
					return nil
				}
				at[d.x], changed = least, true
			}
		}
		if !changed {
			return at
		}
	}
	return nil
}
