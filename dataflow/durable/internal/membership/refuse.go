package membership

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// MaxWhy bounds what a lease says of the reason of a refusal, in bytes.
const MaxWhy = 1 << 10

// A Set is a set of partitions as a lease has it: bit p%8 of byte p/8 is partition p. It has no
// zero byte at its end, so the empty set takes nothing, and the largest 8 KiB.
type Set []byte

// Has reports whether a partition is in the set.
func (s Set) Has(p int) bool { return p >= 0 && p/8 < len(s) && s[p/8]>>(p%8)&1 != 0 }

// With returns the set with a partition, as a copy.
func (s Set) With(p int) Set {
	s = append(slices.Clone(s), make([]byte, max(0, p/8+1-len(s)))...)
	s[p/8] |= 1 << (p % 8)
	return s
}

// Without returns the set without a partition, as a copy.
func (s Set) Without(p int) Set {
	if !s.Has(p) {
		return s
	}
	s = slices.Clone(s)
	s[p/8] &^= 1 << (p % 8)
	return bytes.TrimRight(s, "\x00")
}

// Refusals are the partitions that a member gives back.
type Refusals struct {
	Never  Set    `json:"never,omitempty"`   // its program cannot run them
	NotNow Set    `json:"not_now,omitempty"` // it could not run them as they were
	Why    string `json:"why,omitempty"`     // the reason for the latest one, for people
}

// rank returns how a partition is refused: 0 not at all, 1 as it was, 2 for good. It goes to a
// member of the lowest rank.
func (r *Refusals) rank(p int) int {
	switch {
	case r.Never.Has(p):
		return 2
	case r.NotNow.Has(p):
		return 1
	}
	return 0
}

// Refuses returns the partitions less than n that are refused, in order.
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

// Refuse gives a partition that this member owns back to the others. It goes to a member that does
// not refuse it. If there is none, it goes to one that refuses it as it was, and if there is none,
// to any: so it may come back, and [Member.Next] says so. Never says that the program of this
// member cannot run it whatever others make of it.
//
// Refuse returns true if the partition is this member's nevertheless, since it has come back
// already: all members refuse it. Otherwise this member does not own it when Refuse returns. Others
// know of it after the next renewal, which is sent at once. It does not wait.
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

// Accept takes back what Refuse said of a partition.
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

// renewNow has the loop send the lease, with what it says now.
func (m *Member) renewNow() {
	m.do(func(*view, time.Time) {
		if m.loop.failing { // it is tried again soon
			return
		}
		m.loop.renewAt = time.Now()
	})
}
