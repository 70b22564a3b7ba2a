package timer

import (
	"fmt"
	"testing"
)

// TestSelective fires the timers of even handles only, and then all. It catches a timer that
// fires although it may not, a timer that hides the deadline of others, and a wrong order.
func TestSelective(t *testing.T) {
	even := true
	s := NewSelective(func(h uint32) bool { return !even || h%2 == 0 })
	for h, at := range []int64{5, 7, 3, 1, 7, 3} {
		s.Add(uint32(h), at)
	}
	fired := func(now int64) (all string) {
		s.Expire(now, func(h uint32) { all += fmt.Sprintf("%d@%d ", h, s.At(h)) })
		return all
	}
	if at, ok := s.Next(); at != 3 || !ok {
		t.Errorf("the next deadline of those that may fire is %d, %v", at, ok)
	}
	if got := fired(5); got != "2@3 0@5 " {
		t.Errorf("what may fire by 5 fired as %s", got)
	}
	if at, ok := s.Next(); at != 7 || !ok || s.Len() != 4 {
		t.Errorf("then the next deadline is %d, %v, of %d timers", at, ok, s.Len())
	}
	even = false
	if at, ok := s.Next(); at != 1 || !ok {
		t.Errorf("the next deadline of all is %d, %v", at, ok)
	}
	if got := fired(7); got != "3@1 5@3 1@7 4@7 " {
		t.Errorf("the others fired as %s", got)
	}
}
