package sim

// A moment is a time relative to a step's read of the clock.
type moment struct {
	read int // the number of the read, from 1 on; 0 is the beginning
	plus int64
}

// A difference requires that one moment is not before, or is after, another. It is stored as x >= y +
// by.
type difference struct {
	x, y int
	by   int64
	// tie allows the two moments to be equal if there is no other solution; by preference that of x is
	// at least a nanosecond later.
	tie bool
}

// latest is the latest time at which a step is tried, some 36 years after the beginning. A timer may be
// due later.
const latest = int64(1) << 60

// differences are the constraints on the times at which steps read the clock.
type differences []difference

// after requires that x is after y. With tie the moments may be equal.
func (all *differences) after(x, y moment, tie bool) {
	if x.read == y.read && tie && x.plus == y.plus {
		return
	}
	*all = append(*all, difference{x.read, y.read, 1 + y.plus - x.plus, tie})
}

// solve returns the earliest times of reads that satisfy all differences. Entries of fixed that are not
// 0 are given times. It prefers solutions without ties. It returns nil if there is no solution.
func (all differences) solve(fixed []int64) []int64 {
	if at := all.earliest(fixed, 0); at != nil {
		return at
	}
	return all.earliest(fixed, 1)
}

// earliest is solve with a fixed treatment of ties: a difference that allows a tie is smaller by tie.
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
