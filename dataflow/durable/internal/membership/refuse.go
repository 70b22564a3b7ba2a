package membership

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// MaxWhy is the greatest length, in bytes, of the reason for a refusal in a lease.
const MaxWhy = 1 << 10

// A Set is a set of partitions as encoded in a lease: bit p%8 of byte p/8 is partition p. It has no zero byte
// at its end, so the empty set takes no space, and the largest 8 KiB.
type Set []byte

// Has reports whether a partition is in the set.
func (s Set) Has(p int) bool { return p >= 0 && p/8 < len(s) && s[p/8]>>(p%8)&1 != 0 }

// With returns a copy of the set with partition p added.
func (s Set) With(p int) Set {
	s = append(slices.Clone(s), make([]byte, max(0, p/8+1-len(s)))...)
	s[p/8] |= 1 << (p % 8)
	return s
}

// Without returns the set without partition p. It is a copy if the set had p.
func (s Set) Without(p int) Set {
	if !s.Has(p) {
		return s
	}
	s = slices.Clone(s)
	s[p/8] &^= 1 << (p % 8)
	return bytes.TrimRight(s, "\x00")
}

// Refusals are the partitions that a member refuses to run.
type Refusals struct {
	Never  Set    `json:"never,omitempty"`   // its program cannot run them
	NotNow Set    `json:"not_now,omitempty"` // it could not run them in the state they were in
	Why    string `json:"why,omitempty"`     // the reason for the latest refusal, for people
}

// rank says how a partition is refused: 0 not at all, 1 in the state it was in, 2 for good. The partition goes
// to a member of the lowest rank.
func (r *Refusals) rank(p int) int {
	switch {
	case r.Never.Has(p):
		return 2
	case r.NotNow.Has(p):
		return 1
	}
	return 0
}

// Refuses returns the refused partitions less than n, in order.
func (r *Refusals) Refuses(n int) (all []int) {
	for p := range n {
		if r.rank(p) > 0 {
			all = append(all, p)
		}
	}
	return all
}

func (r *Refusals) equal(o *Refusals) bool {
	return bytes.Equal(r.Never, o.Never) && bytes.Equal(r.NotNow, o.NotNow) && r.Why == o.Why
}

// Refuse gives a partition that this member owns back to the others. It goes to a member that does not refuse
// it, else to one that refuses only the state it was in, else to any member: so it may come back, as
// [Member.Next] then reports. Never says that the program of this member cannot run the partition in any state.
//
// Refuse does not wait. It returns true if this member owns the partition nevertheless, since it has come back
// already: all members refuse it. Otherwise this member does not own it when Refuse returns. Others learn of it
// with the next renewal, which is sent at once.
func (m *Member) Refuse(p int, never bool, why string) (kept bool) {
	if p < 0 || p >= m.options.Partitions {
		return false
	}
	m.mu.Lock()
	r := &m.refuses
	was, known := *r, r.rank(p) > 0
	r.Never, r.NotNow = r.Never.Without(p), r.NotNow.Without(p)
	if never {
		r.Never = r.Never.With(p)
	} else {
		r.NotNow = r.NotNow.With(p)
	}
	r.Why = strings.ToValidUTF8(why[:min(len(why), MaxWhy)], "")
	said := was.equal(r)
	if !said {
		m.refused++
	}
	kept = known && slices.Contains(m.shared.now(), p)
	if !kept {
		without := func(all []int) []int {
			return slices.DeleteFunc(slices.Clone(all), func(x int) bool { return x == p })
		}
		m.shared.owned, m.last = without(m.shared.owned), without(m.last)
	}
	m.mu.Unlock()
	if !said {
		m.renewNow()
	}
	return kept
}

// Accept withdraws a refusal of a partition.
func (m *Member) Accept(p int) {
	m.mu.Lock()
	r := &m.refuses
	refused := r.rank(p) > 0
	if refused {
		r.Never, r.NotNow = r.Never.Without(p), r.NotNow.Without(p)
		if len(r.Never)+len(r.NotNow) == 0 {
			r.Why = ""
		}
		m.refused++
	}
	m.mu.Unlock()
	if refused {
		m.renewNow()
	}
}

// renewNow makes the loop send the lease at once, with its current content.
func (m *Member) renewNow() {
	m.do(func(*view, time.Time) {
		if m.loop.failing { // a failed renewal is retried soon anyway
			return
		}
		m.loop.renewAt = time.Now()
	})
}
